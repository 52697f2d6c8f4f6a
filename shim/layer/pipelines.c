/*
 * pipelines.c - vkCreateGraphicsPipelines, vkCreateComputePipelines, vkCreateRayTracingPipelinesKHR: each call goes to the
 * device's carrier, or to the driver as it is. Results are those that the driver would have given without the layer
 * (Vulkan, 'Multiple Pipeline Creation').
 */
#include <stdlib.h>

#include "binaries.h"
#include "carrier_binaries.h"
#include "carrier_cells.h"
#include "carrier_observe.h"
#include "carrier_snapshot.h"
#include "creations.h"
#include "fingerprints.h"
#include "sentinel.h"
#include "suspects.h"

/* Create infos in one call that fit on the stack; applications rarely pass more than one. */
#define STACK_ELEMENTS 8

bool pipelines_have_suspects(const PipelineCall *call)
{
    if (!atomic_load_explicit(&call->device->suspects, memory_order_acquire))
        return false;
    for (uint32_t i = 0; i < call->count; i++) {
        Element element;
        element_read(&element, call, i);
        if (suspects_find(call->device, fingerprint_of(call, i, element.kind), element.kind))
            return true;
    }
    return false;
}

/* A use of the application's cache by a command that goes to the driver as it is. */
typedef struct PassedUse {
    AppCache *app_cache; /* NULL: the layer never merges into what the driver gets */
    VkPipelineCache cache;
    Mark mark;
} PassedUse;

static PassedUse pass_begin(Device *device, VkPipelineCache cache, uint32_t pipeline_count, bool deferred,
                            bool suspected)
{
    count(&device->counters.passed, pipeline_count);
    /* The layer may be merging into it for other calls. In the child of a fork no lock may be taken. */
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(device, cache);
    /* What is stored was merged into it; the driver hangs in a merge into it. */
    if (app_cache && (suspected || !cache_use_begin(&app_cache->use, true))) {
        app_cache = NULL;
        cache = VK_NULL_HANDLE;
    }
    if (app_cache && deferred)
        cache_use_for_ever(&app_cache->use);
    return (PassedUse){app_cache, cache, mark_pipelines(device, NULL, 1, app_cache, false, true)};
}

static void pass_end(Device *device, const PassedUse *use)
{
    mark_end(use->mark);
    if (use->app_cache)
        cache_use_end(device, &use->app_cache->use, use->cache, true);
}

VkResult pipelines_pass_through(const PipelineCall *call)
{
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    Device *device = call->device;
    bool forked = process_is_forked_child();
    bool told = device->plan.tell_creations && !forked;
    PassedUse use = pass_begin(device, call->cache, call->count, call->deferred != VK_NULL_HANDLE,
                               call->cache != VK_NULL_HANDLE && !forked && pipelines_have_suspects(call));
    uint64_t start = told ? now_ns() : 0;
    VkResult result = call_driver(call, use.cache, call->count, call->infos, call->pipelines);
    uint64_t duration = told ? now_ns() - start : 0;
    pass_end(device, &use);
    creation_tell_passed(call, result, duration);
    return result;
}

static VkResult pass_untouched(Batch *batch)
{
    PipelineCall *call = batch->call;
    VkResult result = pipelines_pass_through(call);
    if (atomic_load_explicit(&call->device->carrier, memory_order_relaxed) != PYLAYER_CARRIER_BINARIES)
        return result;
    /* What the application captures itself can be found by its create info later. */
    for (uint32_t i = 0; i < call->count; i++)
        if (batch->elements[i].captures && !batch->elements[i].from_binaries && call->pipelines[i] != VK_NULL_HANDLE)
            binaries_keep_captured(call, i, &batch->elements[i], batch_about_cell(batch, i, 0, 0));
    return result;
}

static VkResult create_pipelines(PipelineCall call)
{
    Device *device = call.device;
    int carrier = atomic_load_explicit(&device->carrier, memory_order_relaxed);
    if (carrier == PYLAYER_CARRIER_OFF || call.count == 0 || process_is_forked_child())
        return pipelines_pass_through(&call);
    if (call.deferred != VK_NULL_HANDLE && carrier != PYLAYER_CARRIER_OBSERVE)
        return deferred_create(&call);

    Element few[STACK_ELEMENTS];
    AnyCreateInfo few_infos[STACK_ELEMENTS];
    void *heap = NULL;
    Batch batch = {.call = &call, .elements = few, .infos = (char *)few_infos};
    if (call.count > STACK_ELEMENTS) {
        heap = malloc((size_t)call.count * (sizeof(Element) + sizeof(AnyCreateInfo)));
        if (!heap)
            return pipelines_pass_through(&call);
        batch.infos = heap;
        batch.elements = (Element *)(void *)((AnyCreateInfo *)heap + call.count);
    }
    bool untouchable = false;
    for (uint32_t i = 0; i < call.count; i++) {
        element_read(&batch.elements[i], &call, i);
        untouchable |= element_is_untouchable(&batch.elements[i]);
    }
    for (uint32_t i = 0; i < call.count; i++)
        batch.elements[i].fingerprint = fingerprint_of(&call, i, batch.elements[i].kind);
    VkResult result;
    if (carrier == PYLAYER_CARRIER_OBSERVE) {
        result = carrier_observe_create(&batch);
        free(heap);
        return result;
    }
    batch.app_cache = app_cache_find(device, call.cache);
    if (untouchable)
        result = pass_untouched(&batch);
    else if (carrier == PYLAYER_CARRIER_SNAPSHOT)
        result = carrier_snapshot_create(&batch);
    else if (carrier == PYLAYER_CARRIER_BINARIES && call.cache == VK_NULL_HANDLE)
        result = carrier_binaries_create(&batch);
    else
        result = carrier_cells_create(&batch);
    free(heap);
    return result;
}

VkResult pipelines_create_now(const PipelineCall *call)
{
    PipelineCall now = *call;
    now.deferred = VK_NULL_HANDLE;
    return create_pipelines(now);
}

VkResult pipelines_probe(const PipelineCall *call, bool *after_load)
{
    PipelineCall probe = *call;
    probe.deferred = VK_NULL_HANDLE;
    probe.probe_after_load = after_load;
    return create_pipelines(probe);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateGraphicsPipelines(VkDevice handle, VkPipelineCache cache,
                                                             uint32_t info_count,
                                                             const VkGraphicsPipelineCreateInfo *infos,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkPipeline *pipelines)
{
    return create_pipelines((PipelineCall){.device = dispatch_find(&device_table, dispatch_key(handle)),
                                           .point = BIND_GRAPHICS,
                                           .cache = cache,
                                           .count = info_count,
                                           .infos = infos,
                                           .allocator = allocator,
                                           .pipelines = pipelines});
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateComputePipelines(VkDevice handle, VkPipelineCache cache, uint32_t info_count,
                                                            const VkComputePipelineCreateInfo *infos,
                                                            const VkAllocationCallbacks *allocator,
                                                            VkPipeline *pipelines)
{
    return create_pipelines((PipelineCall){.device = dispatch_find(&device_table, dispatch_key(handle)),
                                           .point = BIND_COMPUTE,
                                           .cache = cache,
                                           .count = info_count,
                                           .infos = infos,
                                           .allocator = allocator,
                                           .pipelines = pipelines});
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesKHR(VkDevice handle, VkDeferredOperationKHR deferred,
                                                                  VkPipelineCache cache, uint32_t info_count,
                                                                  const VkRayTracingPipelineCreateInfoKHR *infos,
                                                                  const VkAllocationCallbacks *allocator,
                                                                  VkPipeline *pipelines)
{
    return create_pipelines((PipelineCall){.device = dispatch_find(&device_table, dispatch_key(handle)),
                                           .point = BIND_RAY_TRACING,
                                           .deferred = deferred,
                                           .cache = cache,
                                           .count = info_count,
                                           .infos = infos,
                                           .allocator = allocator,
                                           .pipelines = pipelines});
}

/* ---- pipelines of which the layer knows nothing, but that their commands use a cache --------------- */

static VkResult create_unknown(Device *device, CreateUnknownPipelines create, VkPipelineCache cache,
                               uint32_t info_count, const void *infos, const VkAllocationCallbacks *allocator,
                               VkPipeline *pipelines)
{
    PassedUse use = pass_begin(device, cache, info_count, false, false);
    VkResult result = create(device->handle, use.cache, info_count, infos, allocator, pipelines);
    pass_end(device, &use);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesNV(VkDevice handle, VkPipelineCache cache,
                                                                 uint32_t info_count, const void *infos,
                                                                 const VkAllocationCallbacks *allocator,
                                                                 VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    return create_unknown(device, device->create_ray_tracing_pipelines_nv, cache, info_count, infos, allocator,
                          pipelines);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateExecutionGraphPipelinesAMDX(VkDevice handle, VkPipelineCache cache,
                                                                       uint32_t info_count, const void *infos,
                                                                       const VkAllocationCallbacks *allocator,
                                                                       VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    return create_unknown(device, device->create_execution_graph_pipelines, cache, info_count, infos, allocator,
                          pipelines);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDataGraphPipelinesARM(VkDevice handle, VkDeferredOperationKHR deferred,
                                                                 VkPipelineCache cache, uint32_t info_count,
                                                                 const void *infos,
                                                                 const VkAllocationCallbacks *allocator,
                                                                 VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    PassedUse use = pass_begin(device, cache, info_count, deferred != VK_NULL_HANDLE, false);
    VkResult result =
        device->create_data_graph_pipelines(handle, deferred, use.cache, info_count, infos, allocator, pipelines);
    pass_end(device, &use);
    return result;
}
