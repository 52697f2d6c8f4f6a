/* executables.c - VK_KHR_pipeline_executable_properties: what is captured, and what can be read of it. */
#include "modes.h"

#define STATISTICS VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
#define REPRESENTATIONS VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR
#define MOST 64

static PFN_vkVoidFunction command(const Path *path, const char *name)
{
    PFN_vkVoidFunction found = vkGetDeviceProcAddr(path->context->device, name);
    if (!found)
        die("no %s", name);
    return found;
}

static void read_statistics(Path *path, const char *name, const VkPipelineExecutableInfoKHR *which)
{
    PFN_vkGetPipelineExecutableStatisticsKHR get =
        (PFN_vkGetPipelineExecutableStatisticsKHR)command(path, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableStatisticKHR statistics[MOST];
    memset(statistics, 0, sizeof statistics);
    for (uint32_t i = 0; i < MOST; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    uint32_t count = MOST;
    VkResult result = get(path->context->device, which, &count, statistics);
    say(path, name, "executable=%u statistics=%u result=%d", which->executableIndex, count, result);
    for (uint32_t i = 0; i < count; i++)
        say(path, name, "  %s=%llu", statistics[i].name, (unsigned long long)statistics[i].value.u64);
}

/* Sizes tell a representation that is there from one that is empty; the text may name pointers. */
static void read_representations(Path *path, const char *name, const VkPipelineExecutableInfoKHR *which)
{
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR get =
        (PFN_vkGetPipelineExecutableInternalRepresentationsKHR)command(
            path, "vkGetPipelineExecutableInternalRepresentationsKHR");
    VkPipelineExecutableInternalRepresentationKHR representations[MOST];
    memset(representations, 0, sizeof representations);
    for (uint32_t i = 0; i < MOST; i++)
        representations[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    uint32_t count = MOST;
    VkResult result = get(path->context->device, which, &count, representations);
    say(path, name, "executable=%u representations=%u result=%d", which->executableIndex, count, result);
    for (uint32_t i = 0; i < count; i++)
        say(path, name, "  %s there=%d", representations[i].name, representations[i].dataSize > 0);
}

static void read_executables(Path *path, const char *name, VkPipelineCreateFlags flags, VkPipeline pipeline)
{
    PFN_vkGetPipelineExecutablePropertiesKHR get =
        (PFN_vkGetPipelineExecutablePropertiesKHR)command(path, "vkGetPipelineExecutablePropertiesKHR");
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutablePropertiesKHR properties[MOST];
    memset(properties, 0, sizeof properties);
    for (uint32_t i = 0; i < MOST; i++)
        properties[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    uint32_t count = MOST;
    VkResult result = get(path->context->device, &info, &count, properties);
    say(path, name, "executables=%u result=%d", count, result);
    for (uint32_t i = 0; i < count; i++) {
        VkPipelineExecutableInfoKHR which = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = i};
        say(path, name, "  %s stages=%u subgroup=%u", properties[i].name, properties[i].stages,
            properties[i].subgroupSize);
        /* VUID-vkGetPipelineExecutableStatisticsKHR-pipeline-03274, -InternalRepresentationsKHR-pipeline-03278 */
        if (flags & STATISTICS)
            read_statistics(path, name, &which);
        if (flags & REPRESENTATIONS)
            read_representations(path, name, &which);
    }
}

static void capture(Path *path, const char *kernel_name, const char *scene_name, uint32_t variant,
                    VkPipelineCreateFlags flags)
{
    VkPipeline pipeline;
    Kernel kernel;
    kernel_init(&kernel, path->context, variant);
    kernel.info.flags = flags;
    if (create_kernels(path, kernel_name, 1, &kernel.info, &pipeline) == VK_SUCCESS)
        read_executables(path, kernel_name, flags, pipeline);
    destroy_pipelines(path, 1, &pipeline);
    Scene scene;
    scene_init(&scene, path->context, variant);
    scene.info.flags = flags;
    if (create_scenes(path, scene_name, 1, &scene.info, &pipeline) == VK_SUCCESS)
        read_executables(path, scene_name, flags, pipeline);
    destroy_pipelines(path, 1, &pipeline);
}

void mode_executables(Path *path)
{
    if (lacks(path, path->context->has[HAS_EXECUTABLES], "executables"))
        return;
    /* Drivers may keep these in no cache, and the first that a program creates say nothing about the others. */
    for (uint32_t variant = 0; variant < 6; variant++)
        capture(path, "kernel-representations", "scene-representations", 300 + variant, REPRESENTATIONS);
    capture(path, "kernel-both", "scene-both", 300, STATISTICS | REPRESENTATIONS);
    capture(path, "kernel-statistics", "scene-statistics", 300, STATISTICS);
    capture(path, "kernel", "scene", 300, 0);
}
