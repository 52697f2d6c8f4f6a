/* Two instances with a device each, alive at once, each creating the same compute pipeline. With an argument
 * it says how many threads the process has at the end. With "different" the second device enables
 * pipelineCreationCacheControl. */
#include "device.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* void main() {} for a workgroup of one, assembled by hand. */
static const uint32_t shader[] = {
    0x07230203, 0x00010000, 0,  6,          0,    /* magic, version 1.0, generator, bound, schema */
    0x00020011, 1,                                /* OpCapability Shader */
    0x0003000e, 0,          1,                    /* OpMemoryModel Logical GLSL450 */
    0x0005000f, 5,          4,  0x6e69616d, 0,    /* OpEntryPoint GLCompute %4 "main" */
    0x00060010, 4,          17, 1,          1, 1, /* OpExecutionMode %4 LocalSize 1 1 1 */
    0x00020013, 2,                                /* %2 = OpTypeVoid */
    0x00030021, 3,          2,                    /* %3 = OpTypeFunction %2 */
    0x00050036, 2,          4,  0,          3,    /* %4 = OpFunction %2 None %3 */
    0x000200f8, 5,                                /* %5 = OpLabel */
    0x000100fd, 0x00010038,                       /* OpReturn, OpFunctionEnd */
};

static int use(VkDevice device)
{
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof shader, .pCode = shader};
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    VkPipeline pipeline;
    if (vkCreateShaderModule(device, &module_info, NULL, &info.stage.module) ||
        vkCreatePipelineLayout(device, &layout_info, NULL, &info.layout) ||
        vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline))
        return 1;
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, info.layout, NULL);
    vkDestroyShaderModule(device, info.stage.module, NULL);
    return 0;
}

static int count_threads(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

static VkDevice create_configured(VkInstance *instance)
{
    VkPhysicalDevicePipelineCreationCacheControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES_EXT,
        .pipelineCreationCacheControl = VK_TRUE};
    return create_device_with(VK_API_VERSION_1_1, &control, VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME,
                              instance);
}

int main(int argc, char **argv)
{
    VkInstance instances[2];
    VkDevice devices[2] = {create_device(VK_API_VERSION_1_1, &instances[0]),
                           argc > 1 && strcmp(argv[1], "different") == 0
                               ? create_configured(&instances[1])
                               : create_device(VK_API_VERSION_1_1, &instances[1])};
    if (!devices[0] || !devices[1] || use(devices[1]) || use(devices[0]))
        return 1;
    /* Not in the order of creation. */
    vkDestroyDevice(devices[0], NULL);
    vkDestroyInstance(instances[0], NULL);
    if (use(devices[1]))
        return 1;
    vkDestroyDevice(devices[1], NULL);
    vkDestroyInstance(instances[1], NULL);
    puts("two instances, two devices");
    if (argc > 1)
        printf("threads: %d\n", count_threads());
    return 0;
}
