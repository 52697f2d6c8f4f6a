/*
 * Prints what vkGetPhysicalDeviceProperties2 says of pipeline binaries on a Vulkan 1.1 instance, and what its alias says
 * there and on a Vulkan 1.0 instance, where VK_KHR_get_physical_device_properties2 has it.
 */
#include <stdio.h>

#include "../pipeline_binary.h"
#include "program.h"

static int print_properties(uint32_t api_version, const char *command)
{
    static const char *const extension = VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME;
    Program program = {0};
    if (open_instance(&program,
                      &(Wanted){.api = api_version, .instance_extension_count = 1, .instance_extensions = &extension}))
        return 1;
    PFN_vkGetPhysicalDeviceProperties2KHR get_properties =
        (PFN_vkGetPhysicalDeviceProperties2KHR)vkGetInstanceProcAddr(program.instance, command);
    if (!get_properties)
        return 1;
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &binary};
    get_properties(program.physical, &properties);
    printf("internal=%u control=%u prefers=%u precompiled=%u compressed=%u\n", binary.pipelineBinaryInternalCache,
           binary.pipelineBinaryInternalCacheControl, binary.pipelineBinaryPrefersInternalCache,
           binary.pipelineBinaryPrecompiledInternalCache, binary.pipelineBinaryCompressedData);
    vkDestroyInstance(program.instance, NULL);
    return 0;
}

int main(void)
{
    return print_properties(VK_API_VERSION_1_1, "vkGetPhysicalDeviceProperties2") ||
           print_properties(VK_API_VERSION_1_1, "vkGetPhysicalDeviceProperties2KHR") ||
           print_properties(VK_API_VERSION_1_0, "vkGetPhysicalDeviceProperties2KHR");
}
