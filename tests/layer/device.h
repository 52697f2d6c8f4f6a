/* device.h - an instance and a device, as the smallest of programs makes them. */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include <vulkan/vulkan.h>

/* The first device, with features chained, and one extension where it is not NULL. VK_NULL_HANDLE where something
 * failed, here and below. */
static inline VkDevice create_device_on(VkInstance instance, const void *features, const char *extension)
{
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t one = 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = features,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue,
                                      .enabledExtensionCount = extension ? 1 : 0,
                                      .ppEnabledExtensionNames = &extension};
    if (vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device))
        return VK_NULL_HANDLE;
    return device;
}

static inline VkDevice create_device_with(uint32_t api_version, const void *features, const char *extension,
                                          VkInstance *instance)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = api_version};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    return vkCreateInstance(&info, NULL, instance) ? VK_NULL_HANDLE : create_device_on(*instance, features, extension);
}

static inline VkDevice create_device(uint32_t api_version, VkInstance *instance)
{
    return create_device_with(api_version, NULL, NULL, instance);
}

#endif
