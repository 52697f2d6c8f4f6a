/* Breaks one rule: a pipeline cache is still alive when its device is destroyed. */
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
    VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (vkCreateInstance(&info, 0, &instance) || vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, 0, &device) || vkCreatePipelineCache(device, &cache_info, 0, &cache))
        return 1;
    vkDestroyDevice(device, 0);
    vkDestroyInstance(instance, 0);
    return 0;
}
