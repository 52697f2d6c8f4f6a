/* vkCreatePipelineCache with a pointer and no length: valid, and what a program does whose file was empty. */
#include <stdio.h>
#include <vulkan/vulkan.h>

int main(void)
{
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkPipelineCache cache;
    uint32_t one = 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    VkPipelineCacheCreateInfo cache_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = 0, .pInitialData = "nothing"};
    if (vkCreateInstance(&info, NULL, &instance) || vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device) ||
        vkCreatePipelineCache(device, &cache_info, NULL, &cache))
        return 1;
    puts("created");
    vkDestroyPipelineCache(device, cache, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
