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
static Entry *of_binaries(const PipelineRequest *request)
{
    const VkPipelineBinaryInfoKHR *info = request->binaries;
    Entry *found = NULL;
    for (uint32_t i = 0; i < info->binaryCount; i++) {
        Binary *of = object_of((uint64_t)info->pPipelineBinaries[i], KIND_BINARY);
        bool another = request->has_code && memcmp(&of->entry->key, &request->key, sizeof request->key) != 0;
        if (another || of->index != i || of->count != info->binaryCount)
            violation("a pipeline with binaries that are not its own");
        found = of->entry;
    }
    return found;
}

/* Where the code comes from; NULL: from nowhere yet. */
static Entry *look_up(DriverDevice *device, VkPipelineCache handle, const PipelineRequest *request, unsigned *traits)
{
    Entry *found = NULL;
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
        found = cache_find(object_of((uint64_t)handle, KIND_CACHE), &request->key);
    if (found) {
        *traits |= TRAIT_HIT;
        return found;
    }
    if (device->internal_cache)
        found = cache_find(&device->internal, &request->key);
    if (!found && device->internal_cache && device->settings->warm)
        found = entry_make(device->settings, &request->key, false);
    if (!found)
        *traits |= request->flags & FAIL_ON_COMPILE ? TRAIT_PROBE : TRAIT_COMPILE;
    return found;
}

void tell(const VkPipelineCreationFeedbackCreateInfo *feedback, unsigned traits)
{
    if (!feedback || settings.feedback == FEEDBACK_NO)
        return;
    VkPipelineCreationFeedbackFlags flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT;
    bool hit = (traits & TRAIT_HIT) != 0 && settings.feedback != FEEDBACK_NO_HITS;
    if (settings.feedback == FEEDBACK_WRONG ? !hit : hit || settings.feedback == FEEDBACK_HITS)
        flags |= VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    *feedback->pPipelineCreationFeedback = (VkPipelineCreationFeedback){flags, 1000};
    for (uint32_t i = 0; i < feedback->pipelineStageCreationFeedbackCount; i++)
        feedback->pPipelineStageCreationFeedbacks[i] =
            (VkPipelineCreationFeedback){flags, traits & TRAIT_COMPILE ? 1000 : 0}; /* as RADV does */
}

static VkResult make_pipeline(const CreateCall *call, Entry *entry, const PipelineRequest *request, unsigned traits,
                              VkPipeline *handle)
{
    Pipeline *made = object_make(call->device, KIND_PIPELINE, sizeof *made, call->allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->object.contents = entry->key;
    made->entry = entry;
    made->binary_count = request->binary_count;
    made->captured = traits & TRAIT_CAPTURE;
    *handle = (VkPipeline)(uintptr_t)made;
    return VK_SUCCESS;
}

static void count_way(unsigned traits)
{
    count(COUNT_COMPILES, !!(traits & TRAIT_COMPILE));
    count(COUNT_HITS, !!(traits & TRAIT_HIT));
    count(COUNT_PROBES, !!(traits & TRAIT_PROBE));
    count(COUNT_CREATED_FROM_BINARIES, !!(traits & TRAIT_FROM_BINARIES));
    count(COUNT_CAPTURED, !!(traits & TRAIT_CAPTURE));
}

static VkResult compile(DriverDevice *device, VkPipelineCache handle, const PipelineRequest *request,
                        const Verdict *verdict, Entry **found, unsigned traits)
{
    if (!*found)
        *found = entry_make(device->settings, &request->key, is_guilty());
    if (!*found)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (verdict->action == ACT_IGNORE || (traits & (TRAIT_HIT | TRAIT_FROM_BINARIES | TRAIT_CAPTURE)))
        return VK_SUCCESS;
    /* A cache that is out of memory is no reason to fail: the pipeline is there. */
    if (handle)
        cache_add(object_of((uint64_t)handle, KIND_CACHE), *found);
    if (device->internal_cache)
        cache_add(&device->internal, *found);
    return VK_SUCCESS;
}

/* What is known of a pipeline before it is looked up. */
static unsigned traits_of(const PipelineRequest *request)
{
    /* About one in four, and the same ones in every process. */
    unsigned traits = request->key.a % 4 == 0 ? TRAIT_CHOSEN : 0;
    if (request->flags & FAIL_ON_COMPILE)
        traits |= TRAIT_MAY_NOT_COMPILE;
    if (request->point == VK_PIPELINE_BIND_POINT_COMPUTE)
        return traits | TRAIT_COMPUTE;
    return request->point == VK_PIPELINE_BIND_POINT_GRAPHICS ? traits | TRAIT_GRAPHICS : traits;
}

static void check_request(const CreateCall *call, const PipelineRequest *request)
{
    const VkPipelineCreationFeedbackCreateInfo *feedback = request->feedback;
    if ((request->flags & (FAIL_ON_COMPILE | EARLY_RETURN)) && !call->device->cache_control)
        violation("vkCreate*Pipelines with a flag of pipelineCreationCacheControl, which is off"); /* VUID 02878 */
    if (request->binaries && (request->flags & FAIL_ON_COMPILE))
        violation("vkCreate*Pipelines with binaries and FAIL_ON_PIPELINE_COMPILE_REQUIRED");
    if ((request->binaries || (request->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR)) && !call->device->binaries)
        violation("vkCreate*Pipelines with binaries or CAPTURE_DATA, without pipelineBinaries");
    if (feedback && (!call->device->feedback || !feedback->pPipelineCreationFeedback))
        violation("vkCreate*Pipelines with creation feedback that is not enabled, or has nowhere to go");
    if (feedback && feedback->pipelineStageCreationFeedbackCount &&
        feedback->pipelineStageCreationFeedbackCount != request->stage_count)
        violation("vkCreate*Pipelines with feedback for %u of %u stages", feedback->pipelineStageCreationFeedbackCount,
                  request->stage_count);
}

static VkResult create_one(const CreateCall *call, const PipelineRequest *request, VkPipeline *out)
{
    DriverDevice *device = call->device;
    unsigned traits = traits_of(request);
    check_request(call, request);
    Entry *found = look_up(device, call->cache, request, &traits);
    if (found) {
        traits |= entry_traits(device->settings, found);
        count_use(device, found);
    }
    count_way(traits);
    Verdict verdict = act(DO_PIPELINE, traits);
    VkResult result = VK_SUCCESS;
    if (verdict.action == ACT_ERROR)
        result = verdict.result;
    else if (traits & TRAIT_PROBE)
        result = VK_PIPELINE_COMPILE_REQUIRED;
    else
        result = compile(device, call->cache, request, &verdict, &found, traits);
    if (result == VK_SUCCESS && verdict.action != ACT_NULL_HANDLE)
        result = make_pipeline(call, found, request, traits, out);
    tell(request->feedback, traits);
    return result;
}

VkResult create_element(const CreateCall *call, uint32_t index)
{
    PipelineRequest request = call->read(call->infos, index);
    check_base(&request, index);
    return create_one(call, &request, &call->pipelines[index]);
}

VkResult create_elements(const CreateCall *call)
{
    VkResult result = VK_SUCCESS;
    bool alone = cache_needs_synchronization(call->cache);
    Cache *used = cache_use_begin(call->cache, alone);
    for (uint32_t i = 0; i < call->count; i++) {
        VkResult one = create_element(call, i);
        if (one != VK_SUCCESS && (result == VK_SUCCESS || one < 0))
            result = one;
        if (one != VK_SUCCESS && (call->read(call->infos, i).flags & EARLY_RETURN))
            break;
    }
    cache_use_end(used, alone);
    return result;
}

static VkResult create_pipelines(const CreateCall *call)
{
    memset(call->pipelines, 0, call->count * sizeof *call->pipelines);
    VkResult result = act_or_error(DO_CREATE_PIPELINES);
    return result == VK_SUCCESS ? create_elements(call) : result;
}

static VkResult VKAPI_CALL create_compute(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    COMMAND_OF(device, self);
    return create_pipelines(&(CreateCall){self, cache, info_count, read_compute, infos, allocator, pipelines});
}

static VkResult VKAPI_CALL create_graphics(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                           const VkGraphicsPipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    COMMAND_OF(device, self);
    return create_pipelines(&(CreateCall){self, cache, info_count, read_graphics, infos, allocator, pipelines});
}

static void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline handle, const VkAllocationCallbacks *allocator)
{
    COMMAND_OF(device, self);
    if (!handle)
        return;
    Pipeline *gone = object_of((uint64_t)handle, KIND_PIPELINE);
    object_free(self, &gone->object, allocator);
}

/* ---- pipelines of other kinds ---- */

/* Nothing is known of them but the cache that they take. */
static VkResult create_more(VkPipelineCache cache, uint32_t info_count, VkPipeline *pipelines, bool deferred)
{
    memset(pipelines, 0, info_count * sizeof *pipelines);
    Cache *used = cache_use_begin(cache, false);
    VkResult result = act_or_error(DO_CREATE_MORE);
    if (!deferred) /* an operation that nobody joins: it goes on */
        cache_use_end(used, false);
    return result;
}

static VkResult VKAPI_CALL create_more_at_once(VkDevice device, VkPipelineCache cache, uint32_t info_count,
                                               const void *infos, const VkAllocationCallbacks *allocator,
                                               VkPipeline *pipelines)
{
    return create_more(cache, info_count, pipelines, false);
}

static VkResult VKAPI_CALL create_more_deferred(VkDevice device, VkDeferredOperationKHR deferred, VkPipelineCache cache,
                                                uint32_t info_count, const void *infos,
                                                const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
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
