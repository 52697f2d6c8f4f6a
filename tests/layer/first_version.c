/*
 * first_version: a program of Vulkan 1.0 that enables no extension and calls what it finds of
 * VK_KHR_get_physical_device_properties2 all the same. Prints what it is told of the device.
 */
#include "program.h"
#include <stdio.h>

int main(void)
{
    Program program = {0};
    if (open_instance(&program, &(Wanted){.api = VK_API_VERSION_1_0}))
        return 1;
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vkGetPhysicalDeviceProperties2(program.physical, &properties);
    puts(properties.properties.deviceName);
    PFN_vkGetPhysicalDeviceProperties2 found = (PFN_vkGetPhysicalDeviceProperties2)vkGetInstanceProcAddr(
        program.instance, "vkGetPhysicalDeviceProperties2KHR");
    if (found)
        found(program.physical, &properties);
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    vkGetPhysicalDeviceFeatures2(program.physical, &features);
    printf("%u\n", features.features.robustBufferAccess);
    vkDestroyInstance(program.instance, NULL);
    return 0;
}
