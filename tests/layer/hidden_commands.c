/*
 * hidden_commands [own]: prints the commands of VK_KHR_pipeline_binary and VK_KHR_maintenance5 that vkGetDeviceProcAddr
 * gives to a program of Vulkan 1.3, which with an argument enables the two extensions itself.
 */
#include <stdio.h>
#include <vulkan/vulkan.h>

static const char *const commands[] = {
    "vkCreatePipelineBinariesKHR",      "vkDestroyPipelineBinaryKHR",           "vkGetPipelineKeyKHR",
    "vkGetPipelineBinaryDataKHR",       "vkReleaseCapturedPipelineDataKHR",     "vkCmdBindIndexBuffer2KHR",
    "vkGetRenderingAreaGranularityKHR", "vkGetDeviceImageSubresourceLayoutKHR", "vkGetImageSubresourceLayout2KHR",
};

int main(int count, char **arguments)
{
    (void)arguments;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t one = 1;
    float priority = 1;
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_KHR_pipeline_binary"};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = count > 1 ? 2 : 0,
                               .ppEnabledExtensionNames = extensions};
    if (vkCreateInstance(&instance_info, NULL, &instance) ||
        vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 || vkCreateDevice(physical, &info, NULL, &device))
        return 1;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (vkGetDeviceProcAddr(device, commands[i]))
            puts(commands[i]);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
