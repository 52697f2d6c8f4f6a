/*
 * vk_compat.h - names that Vulkan headers older than 1.4 lack, so that the layer builds with those of
 * Debian bookworm (1.3.239) and Ubuntu 22.04 (1.3.204). Values from the Vulkan registry.
 */
#ifndef PYLAYER_VK_COMPAT_H
#define PYLAYER_VK_COMPAT_H

#include <vulkan/vulkan.h>

#define COMPAT_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2 ((VkStructureType)1000470005)
#define COMPAT_STRUCTURE_TYPE_PIPELINE_BINARY_INFO ((VkStructureType)1000483002)
#define COMPAT_STRUCTURE_TYPE_VULKAN_1_4_FEATURES ((VkStructureType)55)

#define COMPAT_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION 0x00000400u
#define COMPAT_PIPELINE_CREATE_2_CAPTURE_DATA 0x80000000ull

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

#endif
