/* test_layer.h - what the layers of tests/null_hardware and tests/witness share. */
#ifndef TEST_LAYER_H
#define TEST_LAYER_H

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

/* Newer than the headers that this must build with. */
enum { TYPE_PIPELINE_CREATE_FLAGS_2 = 1000470005, TYPE_PIPELINE_BINARY_INFO = 1000483002 };
typedef struct {
    VkStructureType sType;
    const void *pNext;
    uint64_t flags;
} flags2_info;
typedef struct {
    VkStructureType sType;
    const void *pNext;
    uint32_t count;
    const void *binaries;
} binary_info;

/* The loader's structures share the sType of the create info they hang on. */
static inline VkLayerInstanceCreateInfo *instance_node(const VkInstanceCreateInfo *info, VkLayerFunction function)
{
    VkLayerInstanceCreateInfo *node = (VkLayerInstanceCreateInfo *)info->pNext;
    while (node && !(node->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && node->function == function))
        node = (VkLayerInstanceCreateInfo *)node->pNext;
    return node;
}

static inline VkLayerDeviceCreateInfo *device_node(const VkDeviceCreateInfo *info, VkLayerFunction function)
{
    VkLayerDeviceCreateInfo *node = (VkLayerDeviceCreateInfo *)info->pNext;
    while (node && !(node->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && node->function == function))
        node = (VkLayerDeviceCreateInfo *)node->pNext;
    return node;
}

/* vkNegotiateLoaderLayerInterfaceVersion */
static inline VkResult negotiate(VkNegotiateLayerInterface *interface, PFN_vkGetInstanceProcAddr of_instance,
                                 PFN_vkGetDeviceProcAddr of_device)
{
    if (interface->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = of_instance;
    interface->pfnGetDeviceProcAddr = of_device;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}

#endif
