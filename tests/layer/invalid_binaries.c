/*
 * invalid_binaries: a program that breaks the rules of VK_KHR_pipeline_binary, one after the other, as far as no driver
 * minds. It is for the tests of those who look for such programs. The structures are newer than the headers of Debian
 * bookworm.
 */
#include <stdlib.h>

#include "../pipeline_binary.h"
#include "shader.h"

static VkDevice device;
static VkShaderModule module;
static VkPipelineLayout layout;
static PFN_vkCreatePipelineBinariesKHR create_binaries;

static VkResult make_device(VkInstance *instance)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkPhysicalDevice physical;
    uint32_t one = 1;
    float priority = 1;
    VkDevicePipelineBinaryInternalCacheControlKHR control = {
        VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, NULL, VK_TRUE};
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, &control, VK_TRUE};
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, &binaries, VK_TRUE};
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5 = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, &cache_control, VK_TRUE};
    const char *extensions[] = {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &maintenance5,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 2,
                               .ppEnabledExtensionNames = extensions};
    VkResult result = vkCreateInstance(&instance_info, NULL, instance);
    if (result || (result = vkEnumeratePhysicalDevices(*instance, &one, &physical)) < 0)
        return result;
    return vkCreateDevice(physical, &info, NULL, &device);
}

static VkPipeline create(VkPipelineCache cache, VkPipelineCreateFlags flags, const void *chain)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .pNext = chain,
                                        .flags = flags,
                                        .layout = layout,
                                        .basePipelineIndex = -1};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    vkCreateComputePipelines(device, cache, 1, &info, NULL, &pipeline);
    return pipeline;
}

static VkPipelineBinaryKHR made_from(const VkPipelineBinaryCreateInfoKHR *info)
{
    VkPipelineBinaryKHR binary = VK_NULL_HANDLE;
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = 1,
                                              .pPipelineBinaries = &binary};
    create_binaries(device, info, NULL, &handles);
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
    VkInstance instance;
    VkPipelineCache cache;
    VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (make_device(&instance) || create_shader(device, &module, &layout) ||
        vkCreatePipelineCache(device, &cache_info, NULL, &cache))
        return 1;
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
    VkComputePipelineCreateInfo asked = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout};
    asked.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    asked.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    asked.stage.module = module;
    asked.stage.pName = "main";
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
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyDevice(device, NULL); /* the binary is still there */
    vkDestroyInstance(instance, NULL);
    return 0;
}
