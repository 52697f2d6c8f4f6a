/*
 * contents.c - whether a pipeline is the one that was asked for: a digest of what the driver says of its code. Statistics
 * can be asked for without keeping a driver from its caches, and RADV's have hashes of the pipeline and its code.
 */
#include "paths.h"

#define MOST 64

static uint64_t mixed(uint64_t digest, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
    return digest;
}

static uint64_t with_statistics(const Context *context, uint64_t digest, VkPipeline pipeline, uint32_t executable)
{
    PFN_vkGetPipelineExecutableStatisticsKHR get = (PFN_vkGetPipelineExecutableStatisticsKHR)vkGetDeviceProcAddr(
        context->device, "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = executable};
    VkPipelineExecutableStatisticKHR statistics[MOST];
    memset(statistics, 0, sizeof statistics);
    for (uint32_t i = 0; i < MOST; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    uint32_t count = MOST;
    if (get(context->device, &which, &count, statistics) != VK_SUCCESS)
        die("vkGetPipelineExecutableStatisticsKHR failed");
    for (uint32_t i = 0; i < count; i++) {
        digest = mixed(digest, statistics[i].name, strlen(statistics[i].name));
        digest = mixed(digest, &statistics[i].value.u64, sizeof statistics[i].value.u64);
    }
    return digest;
}

uint64_t contents_of(const Context *context, VkPipeline pipeline)
{
    PFN_vkGetPipelineExecutablePropertiesKHR get = (PFN_vkGetPipelineExecutablePropertiesKHR)vkGetDeviceProcAddr(
        context->device, "vkGetPipelineExecutablePropertiesKHR");
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    uint32_t count = 0;
    if (get(context->device, &info, &count, NULL) != VK_SUCCESS)
        die("vkGetPipelineExecutablePropertiesKHR failed");
    uint64_t digest = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < count; i++)
        digest = with_statistics(context, digest, pipeline, i);
    return digest;
}
