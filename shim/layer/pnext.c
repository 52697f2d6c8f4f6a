/*
 * pnext.c - see pnext.h. The table of sizes covers what stands in the chains of VkDeviceCreateInfo and
 * of the pipeline create infos; a struct that is not in it makes the caller leave the chain alone.
 */
#include <stdlib.h>
#include <string.h>

#include "pnext.h"

/* Feature structs are sType, pNext and VkBool32 members; the table holds the number of members. */
typedef struct FeatureStruct {
    uint32_t type;
    uint16_t members;
} FeatureStruct;

static const FeatureStruct feature_structs[] = {
#include "feature_structs.inc"
};

static int compare_feature_struct(const void *key, const void *entry)
{
    uint32_t type = *(const uint32_t *)key, other = ((const FeatureStruct *)entry)->type;
    return (type > other) - (type < other);
}

size_t pnext_device_struct_size(VkStructureType type)
{
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO:
        return sizeof(VkLayerDeviceCreateInfo);
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2:
        return sizeof(VkPhysicalDeviceFeatures2);
    case VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO:
        return sizeof(VkDeviceGroupDeviceCreateInfo);
    case VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO_EXT:
        return sizeof(VkDevicePrivateDataCreateInfoEXT);
    case VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR:
        return sizeof(VkDevicePipelineBinaryInternalCacheControlKHR);
    default:
        break;
    }
    uint32_t key = (uint32_t)type;
    const FeatureStruct *found = bsearch(&key, feature_structs, sizeof feature_structs / sizeof feature_structs[0],
                                         sizeof feature_structs[0], compare_feature_struct);
    if (!found)
        return 0;
    size_t size = sizeof(VkBaseOutStructure) + found->members * sizeof(VkBool32);
    return (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
}

size_t pnext_pipeline_struct_size(VkStructureType type)
{
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT:
        return sizeof(VkPipelineCreationFeedbackCreateInfoEXT);
    case VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR:
        return sizeof(VkPipelineRenderingCreateInfoKHR);
    case VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR:
        return sizeof(VkPipelineLibraryCreateInfoKHR);
    case VK_STRUCTURE_TYPE_PIPELINE_FRAGMENT_SHADING_RATE_STATE_CREATE_INFO_KHR:
        return sizeof(VkPipelineFragmentShadingRateStateCreateInfoKHR);
    case VK_STRUCTURE_TYPE_PIPELINE_DISCARD_RECTANGLE_STATE_CREATE_INFO_EXT:
        return sizeof(VkPipelineDiscardRectangleStateCreateInfoEXT);
    case VK_STRUCTURE_TYPE_PIPELINE_COMPILER_CONTROL_CREATE_INFO_AMD:
        return sizeof(VkPipelineCompilerControlCreateInfoAMD);
    case VK_STRUCTURE_TYPE_ATTACHMENT_SAMPLE_COUNT_INFO_AMD:
        return sizeof(VkAttachmentSampleCountInfoAMD);
    case VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR:
        return sizeof(VkPipelineCreateFlags2CreateInfoKHR);
    case VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR:
        return sizeof(VkPipelineBinaryInfoKHR);
    case VK_STRUCTURE_TYPE_PIPELINE_FRAGMENT_SHADING_RATE_ENUM_STATE_CREATE_INFO_NV:
        return sizeof(VkPipelineFragmentShadingRateEnumStateCreateInfoNV);
    case VK_STRUCTURE_TYPE_PIPELINE_REPRESENTATIVE_FRAGMENT_TEST_STATE_CREATE_INFO_NV:
        return sizeof(VkPipelineRepresentativeFragmentTestStateCreateInfoNV);
    case 1000232001: /* VkRenderingAttachmentLocationInfo: sType, pNext, a count, one pointer */
        return sizeof(VkBaseOutStructure) + 2 * sizeof(void *);
    case 1000232002: /* VkRenderingInputAttachmentIndexInfo: sType, pNext, a count, three pointers */
        return sizeof(VkBaseOutStructure) + 4 * sizeof(void *);
    case 1000320002: /* VkGraphicsPipelineLibraryCreateInfoEXT: sType, pNext, one VkFlags */
        return sizeof(VkBaseOutStructure) + sizeof(void *);
    case 1000068000: /* VkPipelineRobustnessCreateInfo: sType, pNext, four enums */
        return sizeof(VkBaseOutStructure) + 4 * sizeof(uint32_t);
    default:
        return 0;
    }
}

VkBaseOutStructure *pnext_copy_until(const void *chain, const void *last, PnextSizeFn size_of,
                                     VkBaseOutStructure **last_copy)
{
    VkBaseOutStructure *first = NULL, *previous = NULL;
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        size_t size = size_of(node->sType);
        VkBaseOutStructure *copy = size ? malloc(size) : NULL;
        if (!copy)
            break;
        memcpy(copy, node, size);
        if (previous)
            previous->pNext = copy;
        else
            first = copy;
        previous = copy;
        if ((const void *)node == last) {
            *last_copy = copy;
            return first;
        }
    }
    if (first) {
        previous->pNext = NULL;
        pnext_free_copies(first, previous);
    }
    return NULL;
}

void pnext_free_copies(VkBaseOutStructure *first, VkBaseOutStructure *last_copy)
{
    while (first) {
        VkBaseOutStructure *next = first == last_copy ? NULL : first->pNext;
        free(first);
        first = next;
    }
}
