/*
 * program.c - see fuzz.h. A program that calls what the bytes say, with policy's commands in between, and then gives
 * back all that it has.
 */
#include <string.h>

#include "fuzz.h"

#define MOST_STEPS 64

Objects own[OBJECT_KINDS];

static VkInstance instance;
static VkDevice device;
static PFN_vkGetInstanceProcAddr get_instance_proc_addr;
static PFN_vkGetDeviceProcAddr get_device_proc_addr;

#define INSTANCE(name) ((PFN_##name)get_instance_proc_addr(instance, #name))
#define DEVICE(name) ((PFN_##name)get_device_proc_addr(device, #name))

/* ---- what the program has ----------------------------------------------------------------------- */

uint64_t any_of(enum ObjectKind kind)
{
    return own[kind].count ? own[kind].handles[below(own[kind].count)] : 0;
}

static bool has_room(enum ObjectKind kind, uint32_t more)
{
    return own[kind].count + more <= MOST_OBJECTS;
}

static void remember(enum ObjectKind kind, uint64_t handle)
{
    object_of(handle, kind);
    own[kind].handles[own[kind].count++] = handle;
}

static uint64_t forget_any(enum ObjectKind kind)
{
    if (!own[kind].count)
        return 0;
    uint32_t at = below(own[kind].count);
    uint64_t handle = own[kind].handles[at];
    own[kind].handles[at] = own[kind].handles[--own[kind].count];
    return handle;
}

/* ---- instance and device ------------------------------------------------------------------------ */

static const char *const extension_names[] = {
    "VK_KHR_get_physical_device_properties2",
    "VK_KHR_pipeline_binary",
    "VK_KHR_maintenance5",
    "VK_EXT_pipeline_creation_cache_control",
    "VK_EXT_pipeline_creation_feedback",
    "VK_EXT_shader_module_identifier",
    "",
    "VK_a_name_that_is_longer_than_VK_MAX_EXTENSION_NAME_SIZE_allows_"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789",
};

static const char *const *make_names(uint32_t *count)
{
    *count = chance(10) ? below(9) : 0;
    const char **names = array(*count, sizeof *names);
    for (uint32_t i = 0; i < *count; i++)
        names[i] = extension_names[below(8)];
    return names;
}

static const VkApplicationInfo *make_application(void)
{
    static const uint32_t versions[] = {VK_MAKE_API_VERSION(0, 1, 4, 0), VK_API_VERSION_1_3, VK_API_VERSION_1_1,
                                        VK_API_VERSION_1_0, 0};
    VkApplicationInfo *application = room(sizeof *application);
    application->apiVersion = chance(2) ? take32() : versions[below(5)];
    /* Not UTF-8, not short: a string all the same. */
    size_t length = chance(2) ? take8() * 3u : 3;
    char *name = bytes(length + 1);
    name[length] = 0;
    application->pApplicationName = chance(8) ? name : NULL;
    application->pEngineName = chance(4) ? extension_names[7] : NULL;
    return application;
}

static bool create_instance(void)
{
    VkLayerInstanceLink *below_driver = room(sizeof *below_driver);
    VkLayerInstanceLink *link = room(sizeof *link);
    link->pNext = below_driver;
    link->pfnNextGetInstanceProcAddr = driver_instance_function;
    VkLayerInstanceCreateInfo *node = room(sizeof *node), *callback = room(sizeof *callback);
    node->function = VK_LAYER_LINK_INFO;
    node->u.pLayerInfo = link;
    callback->function = VK_LOADER_DATA_CALLBACK;
    Chain chain = {0};
    if (chance(8))
        chain_add(&chain, callback, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    while (chance(4))
        chain_add_unknown(&chain);
    chain_add(&chain, node, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    while (chance(4))
        chain_add_unknown(&chain);
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pNext = chain.first,
                                 .pApplicationInfo = chance(14) ? make_application() : NULL};
    info.ppEnabledExtensionNames = make_names(&info.enabledExtensionCount);
    instance = VK_NULL_HANDLE;
    return INSTANCE(vkCreateInstance)(&info, NULL, &instance) == VK_SUCCESS;
}

static void ask_properties(void)
{
    PFN_vkGetPhysicalDeviceProperties2 ask = INSTANCE(vkGetPhysicalDeviceProperties2);
    VkPhysicalDevicePipelineBinaryPropertiesKHR *binary = room(sizeof *binary);
    Chain chain = {0};
    while (chance(6))
        chain_add_unknown(&chain);
    if (chance(12))
        chain_add(&chain, binary, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR);
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = chain.first};
    ask(driver_physical_device, &properties);
}

static bool create_device(void)
{
    VkLayerDeviceLink *below_driver = room(sizeof *below_driver);
    VkLayerDeviceLink *link = room(sizeof *link);
    link->pNext = below_driver;
    link->pfnNextGetInstanceProcAddr = driver_instance_function;
    link->pfnNextGetDeviceProcAddr = driver_device_function;
    VkLayerDeviceCreateInfo *node = room(sizeof *node);
    node->function = VK_LAYER_LINK_INFO;
    node->u.pLayerInfo = link;
    Chain chain = {0};
    if (chance(8))
        chain_add_device_features(&chain);
    chain_add(&chain, node, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    chain_add_device_features(&chain);
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = chain.first};
    info.ppEnabledExtensionNames = make_names(&info.enabledExtensionCount);
    VkAllocationCallbacks *allocator = chance(4) ? room(sizeof *allocator) : NULL;
    device = VK_NULL_HANDLE;
    return INSTANCE(vkCreateDevice)(driver_physical_device, &info, allocator, &device) == VK_SUCCESS;
}

/* ---- calls -------------------------------------------------------------------------------------- */

static void create_cache(void)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .flags = chance(4) ? take8() : 0,
                                      .initialDataSize = chance(8) ? take8() : 0};
    info.pInitialData = info.initialDataSize ? bytes(info.initialDataSize) : chance(8) ? NULL : anywhere();
    VkPipelineCache cache;
    if (has_room(OBJECT_CACHE, 1) && DEVICE(vkCreatePipelineCache)(device, &info, NULL, &cache) == VK_SUCCESS)
        remember(OBJECT_CACHE, (uint64_t)cache);
}

static void read_cache(void)
{
    VkPipelineCache cache = (VkPipelineCache)any_of(OBJECT_CACHE);
    if (cache == VK_NULL_HANDLE)
        return;
    size_t size = take8();
    uint8_t *data = chance(12) ? room(size ? size : 1) : NULL;
    size_t given = size;
    VkResult result = DEVICE(vkGetPipelineCacheData)(device, cache, &size, data);
    expect(!data || result < 0 || size <= given, "more data than there is room for");
}

static void merge_caches(void)
{
    VkPipelineCache into = (VkPipelineCache)any_of(OBJECT_CACHE);
    VkPipelineCache *sources = room(4 * sizeof *sources);
    uint32_t count = 0;
    for (unsigned i = 0; i < 4; i++) {
        VkPipelineCache source = (VkPipelineCache)any_of(OBJECT_CACHE);
        if (source != into)
            sources[count++] = source;
    }
    if (count)
        DEVICE(vkMergePipelineCaches)(device, into, count, sources);
}

static void create_module(void)
{
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = 4 * (1 + below(8))};
    info.pCode = bytes(info.codeSize);
    VkShaderModule module;
    if (has_room(OBJECT_MODULE, 1) && DEVICE(vkCreateShaderModule)(device, &info, NULL, &module) == VK_SUCCESS)
        remember(OBJECT_MODULE, (uint64_t)module);
}

/* VUID-vkCreateGraphicsPipelines-pNext-09616, -09617 are the program's to obey too. */
static VkPipelineCache choose_cache(const Infos *infos)
{
    return infos->binaries_or_capture || chance(8) ? VK_NULL_HANDLE : (VkPipelineCache)any_of(OBJECT_CACHE);
}

static void take_pipelines(VkResult result, uint32_t count, const VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < count; i++) {
        expect(result != VK_SUCCESS || pipelines[i] != VK_NULL_HANDLE, "VK_SUCCESS without a pipeline");
        if (pipelines[i] != VK_NULL_HANDLE)
            remember(OBJECT_PIPELINE, (uint64_t)pipelines[i]);
    }
}

static void join_to_the_end(VkDeferredOperationKHR operation)
{
    PFN_vkDeferredOperationJoinKHR join = DEVICE(vkDeferredOperationJoinKHR);
    PFN_vkGetDeferredOperationResultKHR ask = DEVICE(vkGetDeferredOperationResultKHR);
    for (bool ended = false; !ended;) {
        ended = chance(4) ? ask(device, operation) != VK_NOT_READY : join(device, operation) == VK_SUCCESS;
        if (!ended && chance(2))
            ended = ask(device, operation) != VK_NOT_READY;
    }
}

/* Completed within the step: what the call points to need live no longer. */
static VkResult create_deferred(VkPipelineCache cache, const Infos *infos, VkPipeline *pipelines)
{
    VkDeferredOperationKHR operation = (VkDeferredOperationKHR)object_new(OBJECT_OPERATION);
    VkResult result =
        DEVICE(vkCreateRayTracingPipelinesKHR)(device, operation, cache, infos->count, infos->infos, NULL, pipelines);
    if (result == VK_OPERATION_DEFERRED_KHR) {
        join_to_the_end(operation);
        result = DEVICE(vkGetDeferredOperationResultKHR)(device, operation);
    } else if (result == VK_OPERATION_NOT_DEFERRED_KHR) {
        result = VK_SUCCESS;
    }
    DEVICE(vkDestroyDeferredOperationKHR)(device, operation, NULL);
    return result;
}

static void create_pipelines(void)
{
    enum BindPoint point = (enum BindPoint)below(3);
    uint32_t count = chance(2) ? 1 + below(MOST_INFOS) : 1 + below(3);
    if (!has_room(OBJECT_PIPELINE, count))
        return;
    current = make_infos(point, count);
    VkPipelineCache cache = choose_cache(&current);
    VkPipeline *pipelines = room(count * sizeof *pipelines);
    memset(pipelines, 0xa5, count * sizeof *pipelines);
    VkResult result;
    bool early = false;
    for (uint32_t i = 0; i < count; i++)
        early |= (flags_of(info_at(&current, i)) & EARLY_RETURN) != 0;
    if (point == BIND_GRAPHICS)
        result = DEVICE(vkCreateGraphicsPipelines)(device, cache, count, current.infos, NULL, pipelines);
    else if (point == BIND_COMPUTE)
        result = DEVICE(vkCreateComputePipelines)(device, cache, count, current.infos, NULL, pipelines);
    else if (!early && chance(8)) /* VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587 */
        result = create_deferred(cache, &current, pipelines);
    else
        result = DEVICE(vkCreateRayTracingPipelinesKHR)(device, VK_NULL_HANDLE, cache, count, current.infos, NULL,
                                                        pipelines);
    take_pipelines(result, count, pipelines);
    current.count = 0;
}

static void create_binaries(void)
{
    PFN_vkCreatePipelineBinariesKHR create = DEVICE(vkCreatePipelineBinariesKHR);
    uint32_t count = below(5);
    if (!create || !has_room(OBJECT_BINARY, 8))
        return;
    VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR};
    VkPipelineBinaryKeysAndDataKHR *both = room(sizeof *both);
    VkPipelineCreateInfoKHR *of = room(sizeof *of);
    unsigned from = below(3);
    if (from == 0) {
        VkPipelineBinaryKeyKHR *keys = room((count + 1) * sizeof *keys);
        VkPipelineBinaryDataKHR *data = room((count + 1) * sizeof *data);
        for (uint32_t i = 0; i < count; i++) {
            fill_key(&keys[i]);
            data[i].dataSize = chance(2) ? 0 : below(40);
            data[i].pData = data[i].dataSize ? bytes(data[i].dataSize) : NULL;
        }
        *both = (VkPipelineBinaryKeysAndDataKHR){count, keys, data};
        info.pKeysAndDataInfo = both;
    } else if (from == 1 && own[OBJECT_PIPELINE].count) {
        info.pipeline = (VkPipeline)any_of(OBJECT_PIPELINE);
    } else {
        current = make_infos((enum BindPoint)below(3), 1);
        of->sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR;
        of->pNext = current.infos;
        info.pPipelineCreateInfo = of;
    }
    uint32_t space = below(9);
    VkPipelineBinaryKHR *handles = room((space + 1) * sizeof *handles);
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                          .pipelineBinaryCount = space,
                                          .pPipelineBinaries = chance(12) ? handles : NULL};
    create(device, &info, NULL, &out);
    current.count = 0;
    expect(!out.pPipelineBinaries || out.pipelineBinaryCount <= space, "more binaries than there is room for");
    for (uint32_t i = 0; out.pPipelineBinaries && i < space; i++)
        if (handles[i] != VK_NULL_HANDLE)
            remember(OBJECT_BINARY, (uint64_t)handles[i]);
}

static void read_binary(void)
{
    PFN_vkGetPipelineBinaryDataKHR read = DEVICE(vkGetPipelineBinaryDataKHR);
    if (!read || !own[OBJECT_BINARY].count)
        return;
    VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                        .pipelineBinary = (VkPipelineBinaryKHR)any_of(OBJECT_BINARY)};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    size_t size = take8();
    read(device, &info, &key, &size, chance(12) ? room(size ? size : 1) : NULL);
}

/* Names that there are, that there are not, and that the layer hides. */
static void ask_names(void)
{
    static const char *const names[] = {"vkCreateDevice",
                                        "vkNothing",
                                        "",
                                        "vkGetPipelineKeyKHR",
                                        "vkCmdDraw",
                                        "vkCmdBindIndexBuffer2KHR",
                                        "vkGetDeviceProcAddr",
                                        "vkMergePipelineCaches"};
    get_instance_proc_addr(chance(4) ? VK_NULL_HANDLE : instance, names[below(8)]);
    get_device_proc_addr(device, names[below(8)]);
    uint32_t count = below(3);
    INSTANCE(vkEnumerateDeviceExtensionProperties)(driver_physical_device, LAYER_NAME, &count, NULL);
}

/* ---- the program -------------------------------------------------------------------------------- */

static void destroy(enum ObjectKind kind, uint64_t handle)
{
    if (kind == OBJECT_CACHE)
        DEVICE(vkDestroyPipelineCache)(device, (VkPipelineCache)handle, NULL);
    else if (kind == OBJECT_PIPELINE)
        DEVICE(vkDestroyPipeline)(device, (VkPipeline)handle, NULL);
    else if (kind == OBJECT_MODULE)
        DEVICE(vkDestroyShaderModule)(device, (VkShaderModule)handle, NULL);
    else if (handle)
        DEVICE(vkDestroyPipelineBinaryKHR)(device, (VkPipelineBinaryKHR)handle, NULL);
}

static void destroy_any(void)
{
    enum ObjectKind kind = (enum ObjectKind)below(OBJECT_OPERATION);
    destroy(kind, forget_any(kind));
}

static void step(void)
{
    static void (*const steps[16])(void) = {create_cache,  read_cache,        merge_caches,     create_module,
                                            create_module, destroy_any,       create_binaries,  read_binary,
                                            ask_names,     command_of_policy, command_of_policy};
    void (*what)(void) = steps[below(16)];
    (what ? what : create_pipelines)();
}

static void live(void)
{
    for (unsigned i = 0; i < MOST_STEPS && !source_is_empty(); i++)
        step();
    for (int kind = 0; kind < OBJECT_OPERATION; kind++)
        while (own[kind].count)
            destroy((enum ObjectKind)kind, forget_any((enum ObjectKind)kind));
    DEVICE(vkDestroyDevice)(device, NULL);
    policy_forgets_device();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    VkNegotiateLayerInterface interface = {.sType = LAYER_NEGOTIATE_INTERFACE_STRUCT, .loaderLayerInterfaceVersion = 2};
    vkNegotiateLoaderLayerInterfaceVersion(&interface);
    get_instance_proc_addr = interface.pfnGetInstanceProcAddr;
    get_device_proc_addr = interface.pfnGetDeviceProcAddr;
    source_open(data, size);
    policy_runs = !chance(1);
    memset(live_objects, 0, sizeof live_objects);
    if (create_instance()) {
        if (chance(4))
            ask_properties();
        for (unsigned devices = 0; devices < 2; devices++)
            if (create_device())
                live();
        INSTANCE(vkDestroyInstance)(instance, NULL);
    }
    source_close();
    return 0;
}
