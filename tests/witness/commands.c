/* What is asked of a real driver: counted, compared with what it gave out, and looked at for what RADV does wrong. */
#include "witness.h"

#include <string.h>

static const void *in_chain(const void *chain, int type)
{
    const VkBaseInStructure *node = chain;
    while (node && (int)node->sType != type)
        node = node->pNext;
    return node;
}

/* ---- VkPipelineCache ---- */

static VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    count_call(DO_CREATE_CACHE);
    if (info->initialDataSize && !was_given_out(0, NULL, info->pInitialData, info->initialDataSize))
        violation("vkCreatePipelineCache: %zu bytes that this driver did not give out", info->initialDataSize);
    return watched_of(device)->create_cache(device, info, allocator, cache);
}

static VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data)
{
    count_call(DO_GET_DATA);
    VkResult result = watched_of(device)->get_cache_data(device, cache, size, data);
    if (data && (result == VK_SUCCESS || result == VK_INCOMPLETE) && *size)
        given_out(0, NULL, data, *size);
    return result;
}

static VkResult VKAPI_CALL merge_caches(VkDevice device, VkPipelineCache into, uint32_t source_count,
                                        const VkPipelineCache *sources)
{
    count_call(DO_MERGE);
    return watched_of(device)->merge_caches(device, into, source_count, sources);
}

/* ---- pipelines ---- */

/* What RADV 25.0.7 does wrong with a pipeline from binaries; docs/internals/architecture.md. */
static void check_from_binaries(uint64_t flags)
{
    static const struct {
        uint64_t flags;
        const char *what;
    } hazards[] = {
        {VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT,
         "a library that keeps what optimized links need"},
        {VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
         "a pipeline that shows its executables"},
        {VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR,
         "a pipeline with handles for capture and replay"},
    };
    for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++)
        if (flags & hazards[i].flags)
            hazard("from binaries: %s", hazards[i].what);
}

static uint64_t flags_of(const void *chain, VkPipelineCreateFlags flags)
{
    const VkPipelineCreateFlags2CreateInfoKHR *wide =
        in_chain(chain, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
    return wide ? wide->flags : flags;
}

static void look_at_pipeline(VkPipelineCache cache, const void *chain, VkPipelineCreateFlags own_flags)
{
    const VkPipelineBinaryInfoKHR *binaries = in_chain(chain, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
    uint64_t flags = flags_of(chain, own_flags);
    count_call(DO_PIPELINE);
    count(COUNT_WITH_CACHE, cache != VK_NULL_HANDLE);
    if (binaries && binaries->binaryCount) {
        count(COUNT_CREATED_FROM_BINARIES, 1);
        check_from_binaries(flags);
    } else if (flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR) {
        count(COUNT_CAPTURED, 1);
    }
}

#define CREATE(name, type, member)                                                                                     \
    static VkResult VKAPI_CALL name(VkDevice device, VkPipelineCache cache, uint32_t info_count, const type *infos,    \
                                    const VkAllocationCallbacks *allocator, VkPipeline *pipelines)                     \
    {                                                                                                                  \
        for (uint32_t i = 0; i < info_count; i++)                                                                      \
            look_at_pipeline(cache, infos[i].pNext, infos[i].flags);                                                   \
        return watched_of(device)->member(device, cache, info_count, infos, allocator, pipelines);                     \
    }
CREATE(create_compute, VkComputePipelineCreateInfo, create_compute)
CREATE(create_graphics, VkGraphicsPipelineCreateInfo, create_graphics)

static VkResult VKAPI_CALL create_rays(VkDevice device, VkDeferredOperationKHR deferred, VkPipelineCache cache,
                                       uint32_t info_count, const VkRayTracingPipelineCreateInfoKHR *infos,
                                       const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < info_count; i++)
        look_at_pipeline(cache, infos[i].pNext, infos[i].flags);
    return watched_of(device)->create_rays(device, deferred, cache, info_count, infos, allocator, pipelines);
}

/* ---- VK_KHR_pipeline_binary ---- */

/* RADV 25.0.7 crashes on both; later versions give every fast-linked pipeline the same key. */
static void check_key_stages(const VkPipelineShaderStageCreateInfo *stages, uint32_t stage_count)
{
    for (uint32_t i = 0; i < stage_count; i++)
        if (!stages[i].module && !stages[i].pNext)
            hazard("the key of a stage without a shader");
}

static void check_key(const VkPipelineCreateInfoKHR *info)
{
    const VkBaseInStructure *head = info->pNext;
    if (head && head->sType == VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO)
        check_key_stages(&((const VkComputePipelineCreateInfo *)(const void *)head)->stage, 1);
    if (head && head->sType == VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR) {
        const VkRayTracingPipelineCreateInfoKHR *rays = (const void *)head;
        check_key_stages(rays->pStages, rays->stageCount);
    }
    if (head && head->sType == VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO) {
        const VkGraphicsPipelineCreateInfo *graphics = (const void *)head;
        const VkPipelineLibraryCreateInfoKHR *libraries =
            in_chain(graphics->pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
        check_key_stages(graphics->pStages, graphics->stageCount);
        if (libraries && libraries->libraryCount &&
            !(flags_of(graphics->pNext, graphics->flags) & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT))
            hazard("the key of a fast-linked pipeline");
    }
}

static VkResult VKAPI_CALL get_key(VkDevice device, const VkPipelineCreateInfoKHR *info, VkPipelineBinaryKeyKHR *key)
{
    count_call(DO_GET_KEY);
    if (info)
        check_key(info);
    return watched_of(device)->get_key(device, info, key);
}

/* The bytes of a key behind its size are anything. */
typedef struct {
    uint8_t bytes[KEY_BYTES];
} Key;

static Key whole_key(const VkPipelineBinaryKeyKHR *key)
{
    Key whole = {{0}};
    memcpy(whole.bytes, key->key, key->keySize < KEY_BYTES ? key->keySize : KEY_BYTES);
    return whole;
}

static void check_data(const VkPipelineBinaryKeysAndDataKHR *all)
{
    for (uint32_t i = 0; i < all->binaryCount; i++) {
        const VkPipelineBinaryDataKHR *data = &all->pPipelineBinaryData[i];
        Key key = whole_key(&all->pPipelineBinaryKeys[i]);
        if (!data->dataSize)
            violation("vkCreatePipelineBinariesKHR with a binary that has no data");
        else if (!was_given_out(0, &key, data->pData, data->dataSize))
            violation("vkCreatePipelineBinariesKHR: %zu bytes that this driver did not give out under their key",
                      data->dataSize);
    }
}

static VkResult VKAPI_CALL create_binaries(VkDevice device, const VkPipelineBinaryCreateInfoKHR *info,
                                           const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    count_call(DO_CREATE_BINARIES);
    if (info->pKeysAndDataInfo)
        check_data(info->pKeysAndDataInfo);
    if (out->pPipelineBinaries)
        count(info->pKeysAndDataInfo ? COUNT_FROM_DATA
              : info->pipeline       ? COUNT_FROM_PIPELINE
                                     : COUNT_FROM_CREATE_INFO,
              1);
    else if (out->pipelineBinaryCount) /* RADV 25.0.7 adds what it counts to what is there */
        hazard("a count query that begins with %u", out->pipelineBinaryCount);
    return watched_of(device)->create_binaries(device, info, allocator, out);
}

static VkResult VKAPI_CALL get_binary_data(VkDevice device, const VkPipelineBinaryDataInfoKHR *info,
                                           VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    count_call(DO_BINARY_DATA);
    VkResult result = watched_of(device)->get_binary_data(device, info, key, size, data);
    if (result == VK_SUCCESS && data) {
        Key whole = whole_key(key);
        given_out(0, &whole, data, *size);
    }
    return result;
}

static VkResult VKAPI_CALL release_captured(VkDevice device, const VkReleaseCapturedPipelineDataInfoKHR *info,
                                            const VkAllocationCallbacks *allocator)
{
    count_call(DO_RELEASE_CAPTURED);
    return watched_of(device)->release_captured(device, info, allocator);
}

const EntryPoint watched_commands[] = {
    ENTRY("vkCreatePipelineCache", create_cache),
    ENTRY("vkGetPipelineCacheData", get_cache_data),
    ENTRY("vkMergePipelineCaches", merge_caches),
    ENTRY("vkCreateComputePipelines", create_compute),
    ENTRY("vkCreateGraphicsPipelines", create_graphics),
    ENTRY("vkCreateRayTracingPipelinesKHR", create_rays),
    ENTRY("vkGetPipelineKeyKHR", get_key),
    ENTRY("vkCreatePipelineBinariesKHR", create_binaries),
    ENTRY("vkGetPipelineBinaryDataKHR", get_binary_data),
    ENTRY("vkReleaseCapturedPipelineDataKHR", release_captured),
    {NULL, NULL},
};
