/*
 * create.c - see create.h. Results are those that the driver would give without the layer (Vulkan, 'Multiple Pipeline
 * Creation').
 */
#include "process/process.h"
#include "pipelines/create.h"

#include <stdlib.h>

#include "pipelines/carrier_binaries.h"
#include "pipelines/carrier_cells.h"
#include "pipelines/carrier_observe.h"
#include "device/device.h"
#include "shaders/fingerprints.h"
#include "pipelines/pass.h"

/* Calls with up to this many create infos need no heap. Applications rarely pass more than one. */
#define STACK_ELEMENTS 4

static VkResult create_by_carrier(Batch *batch, int carrier)
{
    bool untouchable = false;
    for (uint32_t i = 0; i < batch->call->count; i++)
        untouchable |= element_is_untouchable(&batch->elements[i]);
    batch->app_cache = app_cache_find(&batch->call->device->caches, batch->call->cache);
    if (carrier == PYLAYER_CARRIER_OBSERVE)
        return carrier_observe_create(batch);
    if (untouchable || needs_internal_cache(batch->call))
        return pass_pipelines(batch->call);
    if (carrier == PYLAYER_CARRIER_BINARIES && batch->call->cache == VK_NULL_HANDLE) {
        batch_wait_for_load(batch);
        return carrier_binaries_create(batch);
    }
    return carrier_cells_create(batch);
}

VkResult pipelines_create(const PipelineCall *asked)
{
    PipelineCall call = *asked;
    int carrier = atomic_load_explicit(&call.device->run.carrier, memory_order_relaxed);
    if (carrier == PYLAYER_CARRIER_OFF || call.deferred != VK_NULL_HANDLE || call.count == 0 ||
        process_is_forked_child())
        return pass_pipelines(&call);
    Element few[STACK_ELEMENTS];
    AnyCreateInfo few_infos[STACK_ELEMENTS];
    void *heap = NULL;
    Batch batch = {.call = &call, .elements = few, .infos = (char *)few_infos};
    if (call.count > STACK_ELEMENTS) {
        heap = malloc((size_t)call.count * (sizeof(Element) + sizeof(AnyCreateInfo)));
        if (!heap)
            return pass_pipelines(&call);
        batch.infos = heap;
        batch.elements = (Element *)(void *)((AnyCreateInfo *)heap + call.count);
    }
    for (uint32_t i = 0; i < call.count; i++) {
        if (call.extent != CREATE_MISSING)
            call.pipelines[i] = VK_NULL_HANDLE;
        element_read(&batch.elements[i], &call, i);
        batch.elements[i].fingerprint = fingerprint_of(&call.device->shaders, &call, i, batch.elements[i].kind);
    }
    const uint64_t began_ns = call.device->state.on ? now_ns() : 0;
    VkResult result = create_by_carrier(&batch, carrier);
    const uint64_t each_ns = began_ns ? (now_ns() - began_ns) / call.count : 0;
    for (uint32_t i = 0; i < call.count; i++) {
        if (began_ns && call.pipelines[i] != VK_NULL_HANDLE)
            state_note_pipeline(&call.device->state, &call, i, &batch.elements[i], each_ns);
        if (call.device->driver.set_object_name)
            object_names_note(&call.device->shaders, call.pipelines[i], batch.elements[i].fingerprint);
        if (batch.elements[i].flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR && call.pipelines[i] != VK_NULL_HANDLE)
            fingerprint_note_library(&call.device->shaders, call.pipelines[i], batch.elements[i].fingerprint);
    }
    free(heap);
    return result;
}

bool needs_internal_cache(const PipelineCall *call)
{
    const Device *device = call->device;
    return call->cache == VK_NULL_HANDLE && atomic_load_explicit(&device->binaries.app_keeps, memory_order_relaxed);
}
