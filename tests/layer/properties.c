/*
 * Prints what commands of VK_KHR_get_physical_device_properties2 say of the device and of pipeline binaries: on Vulkan
 * 1.1 both names, on 1.0 the extension's with the extension and, as some programs call it, without: what is found then
 * may answer, and the loader's function has to.
 */
#include <stdio.h>

#include "../pipeline_binary.h"
#include "program.h"

static int print_properties(uint32_t api_version, uint32_t extension_count, const char *command)
{
    static const char *const extension = VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME;
    Program program = {0};
    if (open_instance(&program, &(Wanted){.api = api_version,
                                          .instance_extension_count = extension_count,
                                          .instance_extensions = &extension}))
        return 1;
    PFN_vkGetPhysicalDeviceProperties2KHR get_properties =
        (PFN_vkGetPhysicalDeviceProperties2KHR)vkGetInstanceProcAddr(program.instance, command);
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = extension_count ? &binary : NULL};
    if (get_properties)
        get_properties(program.physical, &properties);
    if (!extension_count)
        vkGetPhysicalDeviceProperties2(program.physical, &properties);
    printf("%s internal=%u control=%u prefers=%u precompiled=%u compressed=%u\n", properties.properties.deviceName,
           binary.pipelineBinaryInternalCache, binary.pipelineBinaryInternalCacheControl,
           binary.pipelineBinaryPrefersInternalCache, binary.pipelineBinaryPrecompiledInternalCache,
           binary.pipelineBinaryCompressedData);
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    vkGetPhysicalDeviceFeatures2(program.physical, &features);
    printf("%u\n", features.features.robustBufferAccess);
    vkDestroyInstance(program.instance, NULL);
    return 0;
}

int main(void)
{
    return print_properties(VK_API_VERSION_1_1, 1, "vkGetPhysicalDeviceProperties2") ||
           print_properties(VK_API_VERSION_1_1, 1, "vkGetPhysicalDeviceProperties2KHR") ||
           print_properties(VK_API_VERSION_1_0, 1, "vkGetPhysicalDeviceProperties2KHR") ||
           print_properties(VK_API_VERSION_1_0, 0, "vkGetPhysicalDeviceProperties2KHR");
}
