/* vkCreatePipelineCache with a pointer and no length: valid, and what a program does whose file was empty. */
#include "device.h"
#include <stdio.h>

int main(void)
{
    VkInstance instance;
    VkPipelineCache cache;
    VkDevice device = create_device(VK_API_VERSION_1_0, &instance);
    VkPipelineCacheCreateInfo cache_info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = 0, .pInitialData = "nothing"};
    if (!device || vkCreatePipelineCache(device, &cache_info, NULL, &cache))
        return 1;
    puts("created");
    vkDestroyPipelineCache(device, cache, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
