/*
 * Creates one compute pipeline several times with chains of pNext that a program may pass, and prints for each
 * the VkResult, whether a pipeline came, and whether any byte of the program's structures changed.
 *
 * chains empty-binaries: chains with a VkPipelineBinaryInfoKHR that gives none.
 * chains stored, same, unprobeable, inseparable: with a VkPipelineCache, a pipeline that is not optimized and one that is.
 * The latter differs from that of "stored" by a constant that is not in the shader; its flags stand behind a struct that
 * nobody knows, or it also derives from a pipeline of its call.
 * chains derivatives: pipelines that derive from an earlier one of their call, which may not be compiled and does not
 * come.
 *
 * Structures newer than the headers of Debian bookworm are declared here, with numbers from the registry.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <vulkan/vulkan.h>

typedef struct Flags2 {
    VkStructureType sType;
    const void *pNext;
    uint64_t flags;
} Flags2;

typedef struct BinaryInfo {
    VkStructureType sType;
    const void *pNext;
    uint32_t count;
    const uint64_t *binaries;
} BinaryInfo;

typedef struct Features {
    VkStructureType sType;
    void *pNext;
    VkBool32 feature;
} Features;

#define TYPE_FLAGS2 ((VkStructureType)1000470005)
#define TYPE_MAINTENANCE5 ((VkStructureType)1000470000)
#define TYPE_PIPELINE_BINARY ((VkStructureType)1000483000)
#define TYPE_BINARY_INFO ((VkStructureType)1000483002)
#define TYPE_UNKNOWN ((VkStructureType)2000000001)
#define CAPTURE_DATA 0x80000000ull
#define DISABLE_OPTIMIZATION 1ull
#define FAIL_ON_COMPILE 0x100ull

/* void main() {} for a workgroup of one, assembled by hand. */
static const uint32_t shader[] = {
    0x07230203, 0x00010000, 0,          6,          0, 0x00020011, 1, 0x0003000e, 0, 1,          0x0005000f, 5,
    4,          0x6e69616d, 0,          0x00060010, 4, 17,         1, 1,          1, 0x00020013, 2,          0x00030021,
    3,          2,          0x00050036, 2,          4, 0,          3, 0x000200f8, 5, 0x000100fd, 0x00010038,
};

static VkDevice device;
static VkPipelineCache cache;
static VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};

static void attempt(const char *name, const void *chain, VkPipelineCreateFlags legacy)
{
    static unsigned char before[3][64], after[3][64];
    info.pNext = chain;
    info.flags = legacy;
    const VkBaseInStructure *node = chain;
    for (int i = 0; node && i < 3; i++, node = node->pNext)
        memcpy(before[i], node, sizeof(Flags2));
    VkComputePipelineCreateInfo copy = info;
    VkPipeline pipeline = (VkPipeline)1;
    VkResult result = vkCreateComputePipelines(device, cache, 1, &info, NULL, &pipeline);
    int changed = memcmp(&copy, &info, sizeof info) != 0;
    node = chain;
    for (int i = 0; node && i < 3; i++, node = node->pNext) {
        memcpy(after[i], node, sizeof(Flags2));
        changed |= memcmp(before[i], after[i], sizeof(Flags2)) != 0;
    }
    printf("%s result=%d pipeline=%d changed=%d\n", name, result, pipeline != VK_NULL_HANDLE, changed);
    if (pipeline != VK_NULL_HANDLE)
        vkDestroyPipeline(device, pipeline, NULL);
}

static void usual_chains(void)
{
    Flags2 probe = {TYPE_FLAGS2, NULL, FAIL_ON_COMPILE};
    attempt("flags2-may-not-compile", &probe, 0);
    Flags2 capture = {TYPE_FLAGS2, NULL, CAPTURE_DATA};
    attempt("capture", &capture, 0);
    Flags2 first = {TYPE_FLAGS2, NULL, DISABLE_OPTIMIZATION};
    attempt("flags2-first", &first, 0);
    Flags2 last = {TYPE_FLAGS2, NULL, 0};
    VkPipelineCreationFeedback feedback = {0};
    VkPipelineCreationFeedbackCreateInfo wants = {VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO, &last,
                                                  &feedback, 0, NULL};
    attempt("flags2-behind-known", &wants, 0);
    Features unknown = {TYPE_UNKNOWN, &last, 7};
    attempt("flags2-behind-unknown", &unknown, 0);
    Features alone = {TYPE_UNKNOWN, NULL, 7};
    attempt("unknown-alone", &alone, 0);
    /* Chained flags replace these: the pipeline may be compiled. */
    attempt("legacy-ignored", &last, (VkPipelineCreateFlags)FAIL_ON_COMPILE);
    attempt("plain-again", NULL, 0);
}

static void empty_binaries(void)
{
    BinaryInfo alone = {TYPE_BINARY_INFO, NULL, 0, NULL};
    attempt("alone", &alone, 0);
    attempt("alone-again", &alone, 0);
    Flags2 in_front = {TYPE_FLAGS2, &alone, DISABLE_OPTIMIZATION};
    attempt("behind-flags2", &in_front, 0);
    /* What is created from binaries must not have this flag. */
    Flags2 behind = {TYPE_FLAGS2, NULL, FAIL_ON_COMPILE};
    BinaryInfo before = {TYPE_BINARY_INFO, &behind, 0, NULL};
    attempt("before-flags2", &before, 0);
    in_front.flags = DISABLE_OPTIMIZATION | FAIL_ON_COMPILE;
    attempt("behind-flags2-that-change", &in_front, 0);
    Features unknown = {TYPE_UNKNOWN, &alone, 7};
    attempt("behind-unknown", &unknown, 0);
}

static void with_cache(const char *how)
{
    const bool first = strcmp(how, "stored") == 0, inseparable = strcmp(how, "inseparable") == 0;
    const VkSpecializationMapEntry entry = {.constantID = 1000, .size = sizeof(uint32_t)};
    const uint32_t constant = first;
    const VkSpecializationInfo specialization = {1, &entry, sizeof constant, &constant};
    VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (vkCreatePipelineCache(device, &cache_info, NULL, &cache))
        return;
    attempt("not-optimized", NULL, (VkPipelineCreateFlags)DISABLE_OPTIMIZATION);
    info.stage.pSpecializationInfo = &specialization;
    Flags2 flags = {TYPE_FLAGS2, NULL, inseparable ? VK_PIPELINE_CREATE_DERIVATIVE_BIT : 0};
    Features unknown = {TYPE_UNKNOWN, &flags, 7};
    VkComputePipelineCreateInfo infos[2] = {info, info};
    infos[0].pNext = NULL;
    infos[0].flags = VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT | (VkPipelineCreateFlags)DISABLE_OPTIMIZATION;
    infos[1].pNext = &unknown;
    VkPipeline pipelines[2];
    if (inseparable) {
        printf("inseparable result=%d\n", vkCreateComputePipelines(device, cache, 2, infos, NULL, pipelines));
        for (int i = 0; i < 2; i++)
            vkDestroyPipeline(device, pipelines[i], NULL);
    } else {
        attempt(how, strcmp(how, "unprobeable") == 0 ? &unknown : NULL, 0);
    }
    vkDestroyPipelineCache(device, cache, NULL);
}

static void derive(const char *name, const void *chain, VkPipelineCreateFlags legacy)
{
    static uint32_t last;
    uint32_t constants[2];
    const VkSpecializationMapEntry entry = {.constantID = 1, .size = sizeof *constants};
    const VkSpecializationInfo specialization[2] = {{1, &entry, sizeof *constants, &constants[0]},
                                                    {1, &entry, sizeof *constants, &constants[1]}};
    VkComputePipelineCreateInfo infos[2] = {info, info};
    for (int i = 0; i < 2; i++) {
        constants[i] = ++last;
        infos[i].stage.pSpecializationInfo = &specialization[i];
        infos[i].basePipelineIndex = i - 1;
    }
    infos[0].flags = VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT | (VkPipelineCreateFlags)FAIL_ON_COMPILE;
    infos[1].pNext = chain;
    infos[1].flags = legacy;
    VkPipeline pipelines[2];
    VkResult result = vkCreateComputePipelines(device, cache, 2, infos, NULL, pipelines);
    printf("%s result=%d pipelines=%d%d\n", name, result, pipelines[0] != VK_NULL_HANDLE,
           pipelines[1] != VK_NULL_HANDLE);
    for (int i = 0; i < 2; i++)
        vkDestroyPipeline(device, pipelines[i], NULL);
}

static void derivatives(void)
{
    Flags2 flags = {TYPE_FLAGS2, NULL, VK_PIPELINE_CREATE_DERIVATIVE_BIT};
    Features unknown = {TYPE_UNKNOWN, &flags, 7};
    derive("legacy", NULL, VK_PIPELINE_CREATE_DERIVATIVE_BIT);
    derive("flags2", &flags, 0);
    derive("flags2-behind-unknown", &unknown, 0);
}

int main(int count, char **arguments)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkInstance instance;
    VkPhysicalDevice physical;
    uint32_t one = 1;
    float priority = 1;
    Features binary = {TYPE_PIPELINE_BINARY, NULL, VK_TRUE};
    Features maintenance5 = {TYPE_MAINTENANCE5, &binary, VK_TRUE};
    VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, &maintenance5, VK_TRUE};
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_KHR_pipeline_binary"};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .pNext = &control,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue,
                                      .enabledExtensionCount = 2,
                                      .ppEnabledExtensionNames = extensions};
    VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof shader, .pCode = shader};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.pName = "main";
    if (vkCreateInstance(&instance_info, NULL, &instance) ||
        vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device) ||
        vkCreateShaderModule(device, &module, NULL, &info.stage.module) ||
        vkCreatePipelineLayout(device, &layout, NULL, &info.layout))
        return 1;

    if (count < 2)
        usual_chains();
    else if (strcmp(arguments[1], "derivatives") == 0)
        derivatives();
    else if (strcmp(arguments[1], "empty-binaries") == 0)
        empty_binaries();
    else
        with_cache(arguments[1]);

    vkDestroyPipelineLayout(device, info.layout, NULL);
    vkDestroyShaderModule(device, info.stage.module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
