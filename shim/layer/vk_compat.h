/*
 * vk_compat.h - names that Vulkan headers older than 1.4 lack, so that the layer builds with those of
 * Debian bookworm (1.3.239) and Ubuntu 22.04 (1.3.204). Values from the Vulkan registry.
 */
#ifndef PYLAYER_VK_COMPAT_H
#define PYLAYER_VK_COMPAT_H

#include <vulkan/vulkan.h>

#define COMPAT_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY ((VkStructureType)1000320002)
#define COMPAT_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_FEATURES ((VkStructureType)1000462000)
#define COMPAT_STRUCTURE_TYPE_SHADER_STAGE_MODULE_IDENTIFIER ((VkStructureType)1000462002)
#define COMPAT_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER ((VkStructureType)1000462003)
#define COMPAT_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2 ((VkStructureType)1000470005)
#define COMPAT_STRUCTURE_TYPE_VULKAN_1_4_FEATURES ((VkStructureType)55)

#define COMPAT_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION 0x00000400u
#define COMPAT_PIPELINE_CREATE_2_CAPTURE_DATA 0x80000000ull

/* VkPipelineCacheCreateFlagBits, VK_KHR_maintenance8 */
#define COMPAT_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE 0x00000008u

/* VkGraphicsPipelineLibraryFlagBitsEXT, VK_EXT_graphics_pipeline_library */
#define COMPAT_LIBRARY_VERTEX_INPUT 0x1u
#define COMPAT_LIBRARY_PRE_RASTERIZATION 0x2u
#define COMPAT_LIBRARY_FRAGMENT_SHADER 0x4u
#define COMPAT_LIBRARY_FRAGMENT_OUTPUT 0x8u

#define COMPAT_DYNAMIC_STATE_RASTERIZATION_SAMPLES ((VkDynamicState)1000455005)

/* VkGraphicsPipelineLibraryCreateInfoEXT, VK_EXT_graphics_pipeline_library */
typedef struct CompatGraphicsPipelineLibrary {
    VkStructureType sType;
    const void *pNext;
    VkFlags flags;
} CompatGraphicsPipelineLibrary;

/* VkPipelineShaderStageModuleIdentifierCreateInfoEXT, VK_EXT_shader_module_identifier */
typedef struct CompatShaderStageModuleIdentifier {
    VkStructureType sType;
    const void *pNext;
    uint32_t identifierSize;
    const uint8_t *pIdentifier;
} CompatShaderStageModuleIdentifier;

#define COMPAT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME "VK_EXT_shader_module_identifier"
#define COMPAT_MAX_SHADER_MODULE_IDENTIFIER_SIZE 32u

#define COMPAT_LAYER_SETTINGS_EXTENSION_NAME "VK_EXT_layer_settings"
#define COMPAT_LAYER_SETTINGS_SPEC_VERSION 2
#define COMPAT_STRUCTURE_TYPE_LAYER_SETTINGS ((VkStructureType)1000496000)

/* VkLayerSettingTypeEXT */
enum CompatLayerSettingType {
    COMPAT_LAYER_SETTING_BOOL32 = 0,
    COMPAT_LAYER_SETTING_INT32 = 1,
    COMPAT_LAYER_SETTING_INT64 = 2,
    COMPAT_LAYER_SETTING_UINT32 = 3,
    COMPAT_LAYER_SETTING_UINT64 = 4,
    COMPAT_LAYER_SETTING_FLOAT32 = 5,
    COMPAT_LAYER_SETTING_FLOAT64 = 6,
    COMPAT_LAYER_SETTING_STRING = 7,
};

/* VkLayerSettingEXT, VK_EXT_layer_settings */
typedef struct CompatLayerSetting {
    const char *pLayerName;
    const char *pSettingName;
    int32_t type;
    uint32_t valueCount;
    const void *pValues;
} CompatLayerSetting;

/* VkLayerSettingsCreateInfoEXT, VK_EXT_layer_settings */
typedef struct CompatLayerSettingsCreateInfo {
    VkStructureType sType;
    const void *pNext;
    uint32_t settingCount;
    const CompatLayerSetting *pSettings;
} CompatLayerSettingsCreateInfo;

/* VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT, VK_EXT_shader_module_identifier */
typedef struct CompatShaderModuleIdentifierFeatures {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderModuleIdentifier;
} CompatShaderModuleIdentifierFeatures;

/* VkShaderModuleIdentifierEXT, VK_EXT_shader_module_identifier */
typedef struct CompatShaderModuleIdentifier {
    VkStructureType sType;
    void *pNext;
    uint32_t identifierSize;
    uint8_t identifier[COMPAT_MAX_SHADER_MODULE_IDENTIFIER_SIZE];
} CompatShaderModuleIdentifier;

typedef void(VKAPI_PTR *CompatGetShaderModuleIdentifier)(VkDevice, VkShaderModule, CompatShaderModuleIdentifier *);
typedef void(VKAPI_PTR *CompatGetShaderModuleCreateInfoIdentifier)(VkDevice, const VkShaderModuleCreateInfo *,
                                                                   CompatShaderModuleIdentifier *);

/* VkPipelineCreateFlags2CreateInfo, VK_KHR_maintenance5 */
typedef struct CompatPipelineCreateFlags2 {
    VkStructureType sType;
    const void *pNext;
    uint64_t flags;
} CompatPipelineCreateFlags2;

#ifndef VK_KHR_maintenance5
#define VK_KHR_MAINTENANCE_5_EXTENSION_NAME "VK_KHR_maintenance5"
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR ((VkStructureType)1000470000)

typedef struct VkPhysicalDeviceMaintenance5FeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 maintenance5;
} VkPhysicalDeviceMaintenance5FeaturesKHR;
#endif

#ifndef VK_KHR_pipeline_binary
VK_DEFINE_NON_DISPATCHABLE_HANDLE(VkPipelineBinaryKHR)
#define VK_KHR_PIPELINE_BINARY_EXTENSION_NAME "VK_KHR_pipeline_binary"
#define VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR 32u
#define VK_PIPELINE_BINARY_MISSING_KHR ((VkResult)1000483000)
#define VK_ERROR_NOT_ENOUGH_SPACE_KHR ((VkResult) - 1000483000)
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR ((VkStructureType)1000483000)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR ((VkStructureType)1000483001)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR ((VkStructureType)1000483002)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR ((VkStructureType)1000483003)
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR ((VkStructureType)1000483004)
#define VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR ((VkStructureType)1000483005)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR ((VkStructureType)1000483006)
#define VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR ((VkStructureType)1000483007)
#define VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR ((VkStructureType)1000483008)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR ((VkStructureType)1000483009)

typedef struct VkPhysicalDevicePipelineBinaryFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 pipelineBinaries;
} VkPhysicalDevicePipelineBinaryFeaturesKHR;

typedef struct VkPhysicalDevicePipelineBinaryPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 pipelineBinaryInternalCache;
    VkBool32 pipelineBinaryInternalCacheControl;
    VkBool32 pipelineBinaryPrefersInternalCache;
    VkBool32 pipelineBinaryPrecompiledInternalCache;
    VkBool32 pipelineBinaryCompressedData;
} VkPhysicalDevicePipelineBinaryPropertiesKHR;

typedef struct VkDevicePipelineBinaryInternalCacheControlKHR {
    VkStructureType sType;
    const void *pNext;
    VkBool32 disableInternalCache;
} VkDevicePipelineBinaryInternalCacheControlKHR;

typedef struct VkPipelineBinaryKeyKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t keySize;
    uint8_t key[VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR];
} VkPipelineBinaryKeyKHR;

typedef struct VkPipelineBinaryDataKHR {
    size_t dataSize;
    void *pData;
} VkPipelineBinaryDataKHR;

typedef struct VkPipelineBinaryKeysAndDataKHR {
    uint32_t binaryCount;
    const VkPipelineBinaryKeyKHR *pPipelineBinaryKeys;
    const VkPipelineBinaryDataKHR *pPipelineBinaryData;
} VkPipelineBinaryKeysAndDataKHR;

typedef struct VkPipelineCreateInfoKHR {
    VkStructureType sType;
    void *pNext;
} VkPipelineCreateInfoKHR;

typedef struct VkPipelineBinaryCreateInfoKHR {
    VkStructureType sType;
    const void *pNext;
    const VkPipelineBinaryKeysAndDataKHR *pKeysAndDataInfo;
    VkPipeline pipeline;
    const VkPipelineCreateInfoKHR *pPipelineCreateInfo;
} VkPipelineBinaryCreateInfoKHR;

typedef struct VkPipelineBinaryInfoKHR {
    VkStructureType sType;
    const void *pNext;
    uint32_t binaryCount;
    const VkPipelineBinaryKHR *pPipelineBinaries;
} VkPipelineBinaryInfoKHR;

typedef struct VkReleaseCapturedPipelineDataInfoKHR {
    VkStructureType sType;
    void *pNext;
    VkPipeline pipeline;
} VkReleaseCapturedPipelineDataInfoKHR;

typedef struct VkPipelineBinaryDataInfoKHR {
    VkStructureType sType;
    void *pNext;
    VkPipelineBinaryKHR pipelineBinary;
} VkPipelineBinaryDataInfoKHR;

typedef struct VkPipelineBinaryHandlesInfoKHR {
    VkStructureType sType;
    const void *pNext;
    uint32_t pipelineBinaryCount;
    VkPipelineBinaryKHR *pPipelineBinaries;
} VkPipelineBinaryHandlesInfoKHR;

typedef VkResult(VKAPI_PTR *PFN_vkCreatePipelineBinariesKHR)(VkDevice, const VkPipelineBinaryCreateInfoKHR *,
                                                             const VkAllocationCallbacks *,
                                                             VkPipelineBinaryHandlesInfoKHR *);
typedef void(VKAPI_PTR *PFN_vkDestroyPipelineBinaryKHR)(VkDevice, VkPipelineBinaryKHR, const VkAllocationCallbacks *);
typedef VkResult(VKAPI_PTR *PFN_vkGetPipelineKeyKHR)(VkDevice, const VkPipelineCreateInfoKHR *,
                                                     VkPipelineBinaryKeyKHR *);
typedef VkResult(VKAPI_PTR *PFN_vkGetPipelineBinaryDataKHR)(VkDevice, const VkPipelineBinaryDataInfoKHR *,
                                                            VkPipelineBinaryKeyKHR *, size_t *, void *);
typedef VkResult(VKAPI_PTR *PFN_vkReleaseCapturedPipelineDataKHR)(VkDevice,
                                                                  const VkReleaseCapturedPipelineDataInfoKHR *,
                                                                  const VkAllocationCallbacks *);
#endif

#endif
