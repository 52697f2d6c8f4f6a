/*
 * first_version: a program of Vulkan 1.0 that enables no extension and calls what it finds of
 * VK_KHR_get_physical_device_properties2 all the same. Prints what it is told of the device.
 */
#include <stdio.h>
#include <vulkan/vulkan.h>

int main(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_0};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkInstance instance;
    VkPhysicalDevice physical;
    uint32_t one = 1;
    if (vkCreateInstance(&info, NULL, &instance) || vkEnumeratePhysicalDevices(instance, &one, &physical) < 0)
        return 1;
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vkGetPhysicalDeviceProperties2(physical, &properties);
    puts(properties.properties.deviceName);
    PFN_vkGetPhysicalDeviceProperties2 found =
        (PFN_vkGetPhysicalDeviceProperties2)vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceProperties2KHR");
    if (found)
        found(physical, &properties);
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    vkGetPhysicalDeviceFeatures2(physical, &features);
    printf("%u\n", features.features.robustBufferAccess);
    vkDestroyInstance(instance, NULL);
    return 0;
}
