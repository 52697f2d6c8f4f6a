/* pipeline_binary.h - what headers lack that are older than VK_KHR_pipeline_binary: what the layer has of it, and this. */
#ifndef TEST_PIPELINE_BINARY_H
#define TEST_PIPELINE_BINARY_H

#include "../shim/layer/vulkan/vk_compat.h"

#ifndef VK_KHR_maintenance5
typedef struct VkPhysicalDeviceMaintenance5FeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 maintenance5;
} VkPhysicalDeviceMaintenance5FeaturesKHR;
#endif

#endif
