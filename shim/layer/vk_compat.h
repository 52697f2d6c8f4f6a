/*
 * vk_compat.h - names that Vulkan headers older than 1.4 lack, so that the layer builds with those of
 * Debian bookworm (1.3.239) and Ubuntu 22.04 (1.3.204). Values from the Vulkan registry.
 */
#ifndef PYLAYER_VK_COMPAT_H
#define PYLAYER_VK_COMPAT_H

#include <vulkan/vulkan.h>

#define COMPAT_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY ((VkStructureType)1000320002)
#define COMPAT_STRUCTURE_TYPE_SHADER_STAGE_MODULE_IDENTIFIER ((VkStructureType)1000462002)
#define COMPAT_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2 ((VkStructureType)1000470005)
#define COMPAT_STRUCTURE_TYPE_PIPELINE_BINARY_INFO ((VkStructureType)1000483002)
#define COMPAT_STRUCTURE_TYPE_VULKAN_1_4_FEATURES ((VkStructureType)55)

#define COMPAT_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION 0x00000400u
#define COMPAT_PIPELINE_CREATE_2_CAPTURE_DATA 0x80000000ull

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

/* VkPipelineCreateFlags2CreateInfo, VK_KHR_maintenance5 */
typedef struct CompatPipelineCreateFlags2 {
    VkStructureType sType;
    const void *pNext;
    uint64_t flags;
} CompatPipelineCreateFlags2;

/* VkPipelineBinaryInfoKHR, VK_KHR_pipeline_binary */
typedef struct CompatPipelineBinaryInfo {
    VkStructureType sType;
    const void *pNext;
    uint32_t binaryCount;
    const void *pPipelineBinaries;
} CompatPipelineBinaryInfo;

#ifndef VK_KHR_pipeline_binary
#define VK_KHR_PIPELINE_BINARY_EXTENSION_NAME "VK_KHR_pipeline_binary"
#define VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR 32u
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR ((VkStructureType)1000483000)
#define VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR ((VkStructureType)1000483003)
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR ((VkStructureType)1000483004)

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

typedef struct VkPipelineBinaryKeyKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t keySize;
    uint8_t key[VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR];
} VkPipelineBinaryKeyKHR;

typedef struct VkPipelineCreateInfoKHR {
    VkStructureType sType;
    void *pNext;
} VkPipelineCreateInfoKHR;

typedef VkResult(VKAPI_PTR *PFN_vkGetPipelineKeyKHR)(VkDevice, const VkPipelineCreateInfoKHR *,
                                                     VkPipelineBinaryKeyKHR *);
#endif

#endif
