/* newer.h - what the headers of Debian bookworm (1.3.239) lack. Values from the Vulkan registry. */
#ifndef TEST_NEWER_H
#define TEST_NEWER_H

#include "../pipeline_binary.h"

#define TYPE_DESCRIPTOR_MAPPING ((VkStructureType)1000135005)
#define TYPE_DESCRIPTOR_MAPPING_INFO ((VkStructureType)1000135006)
#define TYPE_DESCRIPTOR_HEAP_FEATURES ((VkStructureType)1000135009)
#define TYPE_LOCAL_READ_FEATURES ((VkStructureType)1000232000)
#define TYPE_ATTACHMENT_LOCATIONS ((VkStructureType)1000232001)
#define TYPE_SHADER_OBJECT_FEATURES ((VkStructureType)1000482000)
#define TYPE_MAINTENANCE_8_FEATURES ((VkStructureType)1000574000)
#define TYPE_SHADER_CREATE_INFO ((VkStructureType)1000482002)
/* No driver knows it. */
#define TYPE_UNKNOWN ((VkStructureType)2000000001)

/* VK_PIPELINE_CREATE_2_DESCRIPTOR_HEAP_BIT_EXT */
#define CREATE_DESCRIPTOR_HEAP 0x1000000000ull

/* VkDescriptorSetAndBindingMappingEXT. What the numbers mean depends on the source. */
typedef struct DescriptorMapping {
    VkStructureType sType;
    const void *pNext;
    uint32_t descriptorSet;
    uint32_t firstBinding;
    uint32_t bindingCount;
    VkFlags resourceMask;
    uint32_t source; /* VkDescriptorMappingSourceEXT */
    _Alignas(8) uint32_t numbers[14];
} DescriptorMapping;

/* VkShaderDescriptorSetAndBindingMappingInfoEXT */
typedef struct DescriptorMappingInfo {
    VkStructureType sType;
    const void *pNext;
    uint32_t mappingCount;
    const DescriptorMapping *pMappings;
} DescriptorMappingInfo;

/* VkRenderingAttachmentLocationInfo, VK_KHR_dynamic_rendering_local_read */
typedef struct AttachmentLocations {
    VkStructureType sType;
    const void *pNext;
    uint32_t colorAttachmentCount;
    const uint32_t *pColorAttachmentLocations;
} AttachmentLocations;

/* VkShaderCreateInfoEXT, VK_EXT_shader_object */
typedef struct ShaderCreateInfo {
    VkStructureType sType;
    const void *pNext;
    VkFlags flags;
    VkShaderStageFlagBits stage;
    VkShaderStageFlags nextStage;
    int32_t codeType; /* 0: binary, 1: SPIR-V */
    size_t codeSize;
    const void *pCode;
    const char *pName;
    uint32_t setLayoutCount;
    const VkDescriptorSetLayout *pSetLayouts;
    uint32_t pushConstantRangeCount;
    const VkPushConstantRange *pPushConstantRanges;
    const VkSpecializationInfo *pSpecializationInfo;
} ShaderCreateInfo;

typedef uint64_t ShaderHandle;
typedef VkResult(VKAPI_PTR *CreateShaders)(VkDevice, uint32_t, const ShaderCreateInfo *, const VkAllocationCallbacks *,
                                           ShaderHandle *);
typedef void(VKAPI_PTR *DestroyShader)(VkDevice, ShaderHandle, const VkAllocationCallbacks *);
typedef VkResult(VKAPI_PTR *GetShaderBinaryData)(VkDevice, ShaderHandle, size_t *, void *);

#endif
