/*
 * invalid_binaries: a program that breaks the rules of VK_KHR_pipeline_binary, one after the other, as far as no driver
 * minds. It is for the tests of those who look for such programs. The structures are newer than the headers of Debian
 * bookworm.
 */
#include <stdlib.h>

#include "../pipeline_binary.h"
#include "program.h"

static Program program;
static PFN_vkCreatePipelineBinariesKHR create_binaries;

static VkResult open_all(void)
{
    VkDevicePipelineBinaryInternalCacheControlKHR control = {
        VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, NULL, VK_TRUE};
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, &control, VK_TRUE};
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, &binaries, VK_TRUE};
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5 = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, &cache_control, VK_TRUE};
    const char *extensions[] = {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME};
    return open_program(&program, &(Wanted){.api = VK_API_VERSION_1_3,
                                            .features = &maintenance5,
                                            .extension_count = 2,
                                            .extensions = extensions});
}

static VkPipeline create(VkPipelineCache cache, VkPipelineCreateFlags flags, const void *chain)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkComputePipelineCreateInfo info = compute_info(&program, "main");
    info.pNext = chain;
    info.flags = flags;
    vkCreateComputePipelines(program.device, cache, 1, &info, NULL, &pipeline);
    return pipeline;
}

static VkPipelineBinaryKHR made_from(const VkPipelineBinaryCreateInfoKHR *info)
{
    VkPipelineBinaryKHR binary = VK_NULL_HANDLE;
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = 1,
                                              .pPipelineBinaries = &binary};
    create_binaries(program.device, info, NULL, &handles);
    return binary;
}

static VkPipelineBinaryKHR of_pipeline(VkPipeline pipeline)
{
    VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                          .pipeline = pipeline};
    return made_from(&info);
}

int main(void)
{
    VkPipelineCache cache;
    if (open_all() || create_cache(&program, 0, 0, NULL, &cache))
        return 1;
    VkDevice device = program.device;
    create_binaries = (PFN_vkCreatePipelineBinariesKHR)vkGetDeviceProcAddr(device, "vkCreatePipelineBinariesKHR");
    PFN_vkDestroyPipelineBinaryKHR destroy_binary =
        (PFN_vkDestroyPipelineBinaryKHR)vkGetDeviceProcAddr(device, "vkDestroyPipelineBinaryKHR");
    PFN_vkReleaseCapturedPipelineDataKHR release =
        (PFN_vkReleaseCapturedPipelineDataKHR)vkGetDeviceProcAddr(device, "vkReleaseCapturedPipelineDataKHR");

    /* -pNext-09617 of the command */
    VkPipelineCreateFlags2CreateInfoKHR capture = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR, NULL,
                                                   VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR};
    VkPipeline captured = create(cache, 0, &capture), plain = create(VK_NULL_HANDLE, 0, NULL);
    VkPipelineBinaryKHR binary = of_pipeline(captured);
    destroy_binary(device, of_pipeline(plain), NULL); /* -pipeline-09607 */

    /* -pNext-09616 and -binaryCount-09622 of the command */
    VkPipelineBinaryInfoKHR from = {VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR, NULL, 1, &binary};
    vkDestroyPipeline(device, create(cache, 0, &from), NULL);
    vkDestroyPipeline(device, create(VK_NULL_HANDLE, VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT, &from),
                      NULL);

    /* -device-09610: disableInternalCache. And a count that was not zero before, which is allowed. */
    VkComputePipelineCreateInfo asked = compute_info(&program, "main");
    VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, &asked};
    VkPipelineBinaryCreateInfoKHR probe = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                           .pPipelineCreateInfo = &keyed};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = 41};
    create_binaries(device, &probe, NULL, &handles);

    /* Data that no driver gave out. Nothing is created of it. */
    uint8_t bytes[64] = {1};
    VkPipelineBinaryKeyKHR key = {VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, NULL, 4, {1, 2, 3, 4}};
    VkPipelineBinaryDataKHR data = {sizeof bytes, bytes};
    VkPipelineBinaryKeysAndDataKHR both = {1, &key, &data};
    VkPipelineBinaryCreateInfoKHR import = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                            .pKeysAndDataInfo = &both};
    destroy_binary(device, made_from(&import), NULL);

    /* VUID-VkReleaseCapturedPipelineDataInfoKHR-pipeline-09618 and -09613, and -pipeline-09608 of binaries */
    VkReleaseCapturedPipelineDataInfoKHR released = {VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR, NULL,
                                                     captured};
    release(device, &released, NULL);
    destroy_binary(device, of_pipeline(captured), NULL);
    release(device, &released, NULL);
    released.pipeline = plain;
    release(device, &released, NULL);

    vkDestroyPipeline(device, captured, NULL);
    vkDestroyPipeline(device, plain, NULL);
    vkDestroyPipelineCache(device, cache, NULL);
    close_program(&program); /* the binary is still there */
    return 0;
}
