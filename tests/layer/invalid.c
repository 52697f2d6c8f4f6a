/* Breaks one rule: a pipeline cache is still alive when its device is destroyed. */
#include "device.h"

int main(void)
{
    VkInstance instance;
    VkPipelineCache cache;
    VkDevice device = create_device(VK_API_VERSION_1_0, &instance);
    VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (!device || vkCreatePipelineCache(device, &cache_info, NULL, &cache))
        return 1;
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
