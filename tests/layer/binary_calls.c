/*
 * binary_calls: what each command of VK_KHR_pipeline_binary answers to each way of calling it, a line a call, for one
 * small compute pipeline. The lines are the same with any layer that keeps to the specification. Feedback and counts are
 * preset, so that what is left unwritten is seen. Vulkan 1.3; the structures are newer than the headers of Debian bookworm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../pipeline_binary.h"
#include "shader.h"

static VkDevice device;
static PFN_vkGetPipelineKeyKHR get_key;
static PFN_vkCreatePipelineBinariesKHR create_binaries;
static PFN_vkDestroyPipelineBinaryKHR destroy_binary;
static PFN_vkGetPipelineBinaryDataKHR get_data;
static PFN_vkReleaseCapturedPipelineDataKHR release_captured;
static VkShaderModule module;
static VkPipelineLayout layout;

static void *command(const char *name)
{
    return (void *)vkGetDeviceProcAddr(device, name);
}

static int make_device(VkInstance *instance)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkPhysicalDevice physical;
    uint32_t one = 1;
    float priority = 1;
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, .pipelineBinaries = VK_TRUE};
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5 = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, &binaries, VK_TRUE};
    const char *extensions[] = {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &maintenance5,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 2,
                               .ppEnabledExtensionNames = extensions};
    if (vkCreateInstance(&instance_info, NULL, instance) ||
        vkEnumeratePhysicalDevices(*instance, &one, &physical) < 0 || vkCreateDevice(physical, &info, NULL, &device))
        return 0;
    get_key = (PFN_vkGetPipelineKeyKHR)command("vkGetPipelineKeyKHR");
    create_binaries = (PFN_vkCreatePipelineBinariesKHR)command("vkCreatePipelineBinariesKHR");
    destroy_binary = (PFN_vkDestroyPipelineBinaryKHR)command("vkDestroyPipelineBinaryKHR");
    get_data = (PFN_vkGetPipelineBinaryDataKHR)command("vkGetPipelineBinaryDataKHR");
    release_captured = (PFN_vkReleaseCapturedPipelineDataKHR)command("vkReleaseCapturedPipelineDataKHR");
    return get_key && create_binaries && destroy_binary && get_data && release_captured;
}

static VkComputePipelineCreateInfo create_info(const void *chain)
{
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .pNext = chain, .layout = layout};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    return info;
}

static void print_key(const char *name, VkResult result, const VkPipelineBinaryKeyKHR *key)
{
    printf("%s: %d, %u bytes ", name, result, key->keySize);
    for (uint32_t i = 0; i < key->keySize; i++)
        printf("%02x", key->key[i]);
    putchar('\n');
}

static void keys(const VkComputePipelineCreateInfo *info)
{
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, (void *)(uintptr_t)info};
    print_key("global key", get_key(device, NULL, &key), &key);
    key.keySize = 0;
    print_key("pipeline key", get_key(device, &keyed, &key), &key);
}

/* Counted from 0 and from what was there before, then with no room, with too little and with enough. */
static VkPipelineBinaryKHR made_from(const char *name, const VkPipelineBinaryCreateInfoKHR *info)
{
    VkPipelineBinaryKHR binaries[4] = {VK_NULL_HANDLE};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR};
    VkResult result = create_binaries(device, info, NULL, &handles);
    uint32_t count = handles.pipelineBinaryCount;
    printf("%s, count: %d, %u\n", name, result, count);
    handles.pPipelineBinaries = binaries;
    handles.pipelineBinaryCount = 0;
    result = create_binaries(device, info, NULL, &handles);
    printf("%s, no room: %d, %u, %s\n", name, result, handles.pipelineBinaryCount, binaries[0] ? "a binary" : "none");
    handles.pipelineBinaryCount = count;
    result = create_binaries(device, info, NULL, &handles);
    printf("%s: %d, %u, %s\n", name, result, handles.pipelineBinaryCount, binaries[0] ? "a binary" : "none");
    return result == VK_SUCCESS ? binaries[0] : VK_NULL_HANDLE;
}

typedef struct {
    VkPipelineBinaryKeyKHR key;
    uint8_t bytes[65536];
    size_t size;
} contents;

static void print_contents(const char *name, VkResult result, const contents *read)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < read->size && i < sizeof read->bytes; i++)
        hash = (hash ^ read->bytes[i]) * 0x100000001b3ull;
    printf("%s, %016llx: ", name, (unsigned long long)hash);
    print_key("data", result, &read->key);
}

static contents read_all(const char *name, VkPipelineBinaryKHR binary)
{
    static contents read;
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    VkPipelineBinaryKeyKHR ignored = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    memset(&read, 0, sizeof read);
    read.key.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR;
    if (binary == VK_NULL_HANDLE)
        return read;
    VkResult result = get_data(device, &info, &ignored, &read.size, NULL);
    size_t whole = read.size, less = whole - 1;
    printf("%s, size: %d, %zu\n", name, result, whole);
    memset(read.bytes, 0x5a, sizeof read.bytes);
    result = get_data(device, &info, &ignored, &less, read.bytes);
    printf("%s, too little room: %d, %zu, %s\n", name, result, less, read.bytes[0] == 0x5a ? "nothing" : "written");
    size_t more = sizeof read.bytes;
    result = get_data(device, &info, &ignored, &more, read.bytes);
    printf("%s, more room than needed: %d, %zu\n", name, result, more);
    result = get_data(device, &info, &read.key, &read.size, read.bytes);
    print_contents(name, result, &read);
    return read;
}

static void create_pipeline(const char *name, const VkComputePipelineCreateInfo *info, VkPipeline *pipeline)
{
    VkResult result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, info, NULL, pipeline);
    printf("%s: %d, %s\n", name, result, *pipeline ? "a pipeline" : "none");
}

static void from_binary(const char *name, VkPipelineBinaryKHR binary)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkPipelineBinaryInfoKHR binaries = {VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR, NULL, 1, &binary};
    VkComputePipelineCreateInfo info = create_info(&binaries);
    if (binary == VK_NULL_HANDLE)
        return;
    info.stage.module = VK_NULL_HANDLE; /* VUID-VkPipelineShaderStageCreateInfo-stage-08771 allows it then */
    create_pipeline(name, &info, &pipeline);
    vkDestroyPipeline(device, pipeline, NULL);
    destroy_binary(device, binary, NULL);
}

static void captured(contents *out)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkPipelineCreateFlags2CreateInfoKHR capture = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
                                                         NULL, VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR};
    VkComputePipelineCreateInfo info = create_info(&capture);
    create_pipeline("with CAPTURE_DATA", &info, &pipeline);
    const VkPipelineBinaryCreateInfoKHR source = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                  .pipeline = pipeline};
    VkPipelineBinaryKHR binary = made_from("from the pipeline", &source);
    const VkReleaseCapturedPipelineDataInfoKHR release = {VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR,
                                                          NULL, pipeline};
    printf("release: %d\n", release_captured(device, &release, NULL));
    vkDestroyPipeline(device, pipeline, NULL);
    *out = read_all("captured", binary);
    from_binary("from the captured binary", binary);
}

static void imported(contents *read)
{
    const VkPipelineBinaryDataKHR data = {read->size, read->bytes};
    const VkPipelineBinaryKeysAndDataKHR both = {1, &read->key, &data};
    const VkPipelineBinaryCreateInfoKHR source = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                  .pKeysAndDataInfo = &both};
    VkPipelineBinaryKHR binary = made_from("from data", &source);
    read_all("imported", binary);
    from_binary("from the imported binary", binary);
}

/* Beside the pipeline, the internal cache has what it was made of, where there is one. */
static void probed(const VkComputePipelineCreateInfo *info)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, (void *)(uintptr_t)info};
    const VkPipelineBinaryCreateInfoKHR source = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                  .pPipelineCreateInfo = &keyed};
    create_pipeline("created", info, &pipeline);
    VkPipelineBinaryKHR binary = made_from("from the create info", &source);
    read_all("probed", binary);
    from_binary("from the probed binary", binary);
    vkDestroyPipeline(device, pipeline, NULL);
}

int main(void)
{
    VkInstance instance;
    static contents read;
    if (!make_device(&instance) || create_shader(device, &module, &layout))
        return 1;
    VkComputePipelineCreateInfo info = create_info(NULL);
    keys(&info);
    captured(&read);
    imported(&read);
    probed(&info);
    destroy_binary(device, VK_NULL_HANDLE, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
