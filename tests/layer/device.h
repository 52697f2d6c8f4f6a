/* device.h - an instance and a device, as the smallest of programs makes them. */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include <vulkan/vulkan.h>

/* VK_NULL_HANDLE where something failed. */
static inline VkDevice create_device(uint32_t api_version, VkInstance *instance)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = api_version};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t one = 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    if (vkCreateInstance(&info, NULL, instance) || vkEnumeratePhysicalDevices(*instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device))
        return VK_NULL_HANDLE;
    return device;
}

#endif
