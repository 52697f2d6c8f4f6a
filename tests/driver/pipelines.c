/* Pipelines: found in a cache, made from binaries, or compiled. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define FAIL_ON_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT
#define EARLY_RETURN VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT

static void count_use(const DriverDevice *device, const Entry *used)
{
    unsigned traits = entry_traits(device->settings, used);
    count(COUNT_STALE_USES, !!(traits & TRAIT_STALE));
    count(COUNT_GUILTY_USES, !!(traits & TRAIT_GUILTY));
    count(COUNT_DAMAGED_USES, !!(traits & TRAIT_DAMAGED));
}

static bool is_guilty(void)
{
    static atomic_uint compiled;
    return atomic_fetch_add(&compiled, 1) + 1 == settings.guilty;
}

/* The entry of binaries, which are to be all of the pipeline's and in order (VUID 09603). */
static SharedEntry *of_binaries(const PipelineRequest *request)
{
    const VkPipelineBinaryInfoKHR *info = request->binaries;
    SharedEntry *found = NULL;
    for (uint32_t i = 0; i < info->binaryCount; i++) {
        Binary *of = object_of((uint64_t)info->pPipelineBinaries[i], MAGIC_BINARY, "VkPipelineBinaryKHR");
        bool another = request->has_code && memcmp(&of->entry->entry.key, &request->key, sizeof request->key) != 0;
        if (another || of->index != i || of->count != info->binaryCount)
            violation("a pipeline with binaries that are not its own");
        found = of->entry;
    }
    atomic_fetch_add(&found->users, 1);
    return found;
}

/* Where the code comes from; NULL: from nowhere yet. */
static SharedEntry *look_up(DriverDevice *device, VkPipelineCache handle, const PipelineRequest *request,
                            unsigned *traits)
{
    SharedEntry *found = NULL;
    if (request->binaries) {
        if (handle)
            violation("vkCreate*Pipelines with binaries and a VkPipelineCache"); /* VUID 09616 */
        *traits |= TRAIT_FROM_BINARIES;
        return of_binaries(request);
    }
    if (request->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR) {
        if (handle)
            violation("vkCreate*Pipelines with CAPTURE_DATA and a VkPipelineCache"); /* VUID 09617 */
        *traits |= TRAIT_CAPTURE | TRAIT_COMPILE;
        return NULL;
    }
    if (handle)
        found = cache_find(object_of((uint64_t)handle, MAGIC_CACHE, "VkPipelineCache"), &request->key);
    if (found) {
        *traits |= TRAIT_HIT;
        return found;
    }
    if (device->internal_cache)
        found = cache_find(&device->internal, &request->key);
    *traits |= found ? TRAIT_INTERNAL_HIT : request->flags & FAIL_ON_COMPILE ? TRAIT_PROBE : TRAIT_COMPILE;
    return found;
}

static void tell(const VkPipelineCreationFeedbackCreateInfo *feedback, unsigned traits)
{
    if (!feedback)
        return;
    VkPipelineCreationFeedbackFlags flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
    if (traits & TRAIT_HIT)
        flags |= VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    *feedback->pPipelineCreationFeedback = (VkPipelineCreationFeedback){flags, 1000};
    for (uint32_t i = 0; i < feedback->pipelineStageCreationFeedbackCount; i++)
        feedback->pPipelineStageCreationFeedbacks[i] = (VkPipelineCreationFeedback){0, 0};
}

static VkResult make_pipeline(SharedEntry *entry, const PipelineRequest *request, unsigned traits, VkPipeline *handle)
{
    Pipeline *made = allocate(sizeof *made);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->object = (Object){MAGIC_PIPELINE, entry->entry.key};
    made->entry = entry;
    made->binary_count = request->binary_count;
    made->captured = traits & TRAIT_CAPTURE;
    atomic_fetch_add(&entry->users, 1);
    *handle = (VkPipeline)(uintptr_t)made;
    return VK_SUCCESS;
}

static void count_way(unsigned traits)
{
    count(COUNT_COMPILES, !!(traits & TRAIT_COMPILE));
    count(COUNT_HITS, !!(traits & TRAIT_HIT));
    count(COUNT_INTERNAL_HITS, !!(traits & TRAIT_INTERNAL_HIT));
    count(COUNT_PROBES, !!(traits & TRAIT_PROBE));
    count(COUNT_CREATED_FROM_BINARIES, !!(traits & TRAIT_FROM_BINARIES));
}

static VkResult compile(DriverDevice *device, VkPipelineCache handle, const PipelineRequest *request,
                        const Verdict *verdict, SharedEntry **found, unsigned traits)
{
    if (!*found)
        *found = entry_make(device->settings, &request->key, is_guilty());
    if (!*found)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (verdict->action == ACT_IGNORE || (traits & (TRAIT_HIT | TRAIT_FROM_BINARIES | TRAIT_CAPTURE)))
        return VK_SUCCESS;
    /* A cache that is out of memory is no reason to fail: the pipeline is there. */
    if (handle)
        cache_add(object_of((uint64_t)handle, MAGIC_CACHE, "VkPipelineCache"), *found);
    if (device->internal_cache)
        cache_add(&device->internal, *found);
    return VK_SUCCESS;
}

static VkResult create_one(DriverDevice *device, VkPipelineCache handle, const PipelineRequest *request,
                           VkPipeline *out)
{
    unsigned traits = request->graphics ? TRAIT_GRAPHICS : TRAIT_COMPUTE;
    if ((request->flags & FAIL_ON_COMPILE) && !device->cache_control)
        violation("vkCreate*Pipelines that may not compile, without pipelineCreationCacheControl"); /* VUID 02878 */
    SharedEntry *found = look_up(device, handle, request, &traits);
    if (found) {
        traits |= entry_traits(device->settings, &found->entry);
        count_use(device, &found->entry);
    }
    count_way(traits);
    Verdict verdict = act(DO_PIPELINE, traits, found ? found->entry.code : NULL, found ? found->entry.size : 0);
    VkResult result = VK_SUCCESS;
    if (verdict.action == ACT_ERROR)
        result = verdict.result;
    else if (traits & TRAIT_PROBE)
        result = VK_PIPELINE_COMPILE_REQUIRED;
    else
        result = compile(device, handle, request, &verdict, &found, traits);
    if (result == VK_SUCCESS && verdict.action != ACT_NULL_HANDLE)
        result = make_pipeline(found, request, traits, out);
    tell(request->feedback, traits);
    entry_leave(found);
    return result;
}

typedef PipelineRequest (*Reader)(const void *infos, uint32_t index);

static PipelineRequest read_compute_at(const void *infos, uint32_t index)
{
    return read_compute((const VkComputePipelineCreateInfo *)infos + index);
}

static PipelineRequest read_graphics_at(const void *infos, uint32_t index)
{
    return read_graphics((const VkGraphicsPipelineCreateInfo *)infos + index);
}

static VkResult create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t info_count, Reader read,
                                 const void *infos, VkPipeline *pipelines)
{
    memset(pipelines, 0, info_count * sizeof *pipelines);
    VkResult result = act_or_error(DO_CREATE_PIPELINES);
    if (result != VK_SUCCESS)
        return result;
    Cache *used = cache_use_begin(cache);
    for (uint32_t i = 0; i < info_count; i++) {
        PipelineRequest request = read(infos, i);
        check_base(&request, i);
        VkResult one = create_one(device_of(device), cache, &request, &pipelines[i]);
        if (one != VK_SUCCESS && (result == VK_SUCCESS || one < 0))
            result = one;
        if (one != VK_SUCCESS && (request.flags & EARLY_RETURN))
            break;
    }
    cache_use_end(used);
    return result;
}

static VkResult VKAPI_CALL create_compute(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    (void)allocator;
    return create_pipelines(device, cache, info_count, read_compute_at, infos, pipelines);
}

static VkResult VKAPI_CALL create_graphics(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                           const VkGraphicsPipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    (void)allocator;
    return create_pipelines(device, cache, info_count, read_graphics_at, infos, pipelines);
}

static void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline handle, const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    if (!handle)
        return;
    Pipeline *gone = object_of((uint64_t)handle, MAGIC_PIPELINE, "VkPipeline");
    entry_leave(gone->entry);
    object_free(&gone->object);
}

/* ---- pipelines of other kinds ---- */

/* Nothing is known of them but the cache that they take. */
static VkResult create_more(VkPipelineCache cache, uint32_t info_count, VkPipeline *pipelines, bool deferred)
{
    memset(pipelines, 0, info_count * sizeof *pipelines);
    Cache *used = cache_use_begin(cache);
    VkResult result = act_or_error(DO_CREATE_MORE);
    if (!deferred) /* an operation that nobody joins: it goes on */
        cache_use_end(used);
    return result;
}

static VkResult VKAPI_CALL create_more_at_once(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                               const void *infos, const VkAllocationCallbacks *allocator,
                                               VkPipeline *pipelines)
{
    (void)device, (void)infos, (void)allocator;
    return create_more(cache, info_count, pipelines, false);
}

static VkResult VKAPI_CALL create_more_deferred(VkDevice device, VkDeferredOperationKHR deferred, VkPipelineCache cache,
                                                uint32_t info_count, const void *infos,
                                                const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    (void)device, (void)infos, (void)allocator;
    return create_more(cache, info_count, pipelines, deferred != VK_NULL_HANDLE);
}

const EntryPoint more_pipeline_commands[] = {
    ENTRY("vkCreateRayTracingPipelinesNV", create_more_at_once),
    ENTRY("vkCreateExecutionGraphPipelinesAMDX", create_more_at_once),
    ENTRY("vkCreateDataGraphPipelinesARM", create_more_deferred),
    {NULL, NULL},
};

const EntryPoint pipeline_commands[] = {
    ENTRY("vkCreateComputePipelines", create_compute),
    ENTRY("vkCreateGraphicsPipelines", create_graphics),
    ENTRY("vkDestroyPipeline", destroy_pipeline),
    {NULL, NULL},
};
