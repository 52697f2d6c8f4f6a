/*
 * shard_fills: one thread without a VkPipelineCache. It creates a pipeline, and again, which is when a shard is taken
 * first; then one that is new, which the shard lacks, and that one 40 times more.
 */
#include "device.h"
#include "shader.h"

int main(void)
{
    VkInstance instance;
    VkDevice device = create_device(VK_API_VERSION_1_1, &instance);
    VkShaderModule module;
    VkPipelineLayout layout;
    if (!device || create_shader(device, &module, &layout))
        return 1;
    for (int i = 0; i < 43; i++) {
        VkPipeline pipeline;
        if (create_compute(device, VK_NULL_HANDLE, module, layout, i < 2 ? "main" : "twin", NULL, &pipeline))
            return 1;
        vkDestroyPipeline(device, pipeline, NULL);
    }
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
