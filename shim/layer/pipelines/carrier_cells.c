/*
 * carrier_cells.c - creates pipelines with a VkPipelineCache, in at most three steps:
 *
 * 1. If the application's cache holds data that this run did not put there, that cache is probed: the application's create
 *    info with FAIL_ON_PIPELINE_COMPILE_REQUIRED.
 * 2. If the store or this run knows the pipeline, the layer's cache is probed.
 * 3. Everything else is created in a cell. If the driver has it in a cache of its own, the cell gets it from there.
 */
#include <string.h>

#include "caches/stored.h"
#include "device/device.h"
#include "caches/cells.h"
#include "caches/contents.h"
#include "pipelines/batch.h"
#include "caches/driver_cache.h"
#include "pipelines/pass.h"
#include "pipelines/carrier_cells.h"

/* Tells policy what is in a cell, and merges it. Not inlined: the description is not on the stack while the driver
 * compiles. */
NOT_INLINED static void keep_cell(Batch *batch, uint32_t index, VkPipelineCache cell, uint64_t create_ns)
{
    Counters *counters = counters_of(&batch->call->device->run);
    PylayerCell about;
    batch_about_cell(batch, index, create_ns, &about);
    bool kept = cell_finish(&batch->call->device->caches, cell, batch->app_cache, &about);
    if (kept && batch->app_cache)
        contents_add(batch->app_cache, about.fingerprint);
    if (cell_is_of_a_link(&about)) {
        count(&counters->kind_hits[about.kind], 1);
        count(&counters->totals.hit_ns, create_ns);
        creation_tell_hit(batch, index, create_ns);
        return;
    }
    count(&counters->totals.compile_ns, create_ns);
    count(kept ? &counters->totals.compiled : &counters->totals.uncacheable, 1);
}

/* A probe created the pipeline. from_layer: the probe used the layer's cache, not one that the application passed. */
static void note_hit(Batch *batch, uint32_t index, bool from_layer)
{
    Counters *counters = counters_of(&batch->call->device->run);
    const Element *element = &batch->elements[index];
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    if (from_layer)
        element_clear_application_hit(element);
    batch_note_created(batch, index);
    count(&counters->kind_hits[element->kind], 1);
    if (!from_layer)
        count(&counters->totals.application_hits, 1);
    if (feedback) {
        count(&counters->totals.hit_ns, feedback->duration);
        creation_tell_hit(batch, index, feedback->duration);
    }
}

static bool probe_one(Batch *batch, uint32_t index, VkPipelineCache cache)
{
    VkPipeline *pipeline = &batch->call->pipelines[index];
    return batch_create_one(batch, index, cache, CREATE_BY_PROBE, pipeline, NULL) == VK_SUCCESS && *pipeline;
}

/* Puts what the layer has of a pipeline into the application's cache, as if it had been compiled there. */
static void seed(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    uint64_t fingerprint = batch->elements[index].fingerprint;
    if (!fingerprint || !stored_give_to(&device->caches, batch->app_cache, &fingerprint, 1))
        cells_seed(&device->caches, batch->app_cache);
    contents_add(batch->app_cache, fingerprint);
}

/* The program creates a stored pipeline with a cache of its own. If it does so again, it probes its own cache first, unless
 * that was empty: so then the pipeline has to be there. */
static void seed_later(Batch *batch, uint32_t index, bool again)
{
    AppCache *app_cache = batch->app_cache;
    bool read = atomic_load_explicit(&batch->call->device->store.stored.open, memory_order_relaxed);
    if (!read || (again && atomic_load(&app_cache->holds_unknown)) ||
        !contents_owe(app_cache, batch->elements[index].fingerprint))
        seed(batch, index);
}

/* The layer's cache had the pipeline, so the application's gets it, as if it had been compiled there. */
static void note_layer_hit(Batch *batch, uint32_t index)
{
    bool again = batch->app_cache && contents_has(batch->app_cache, batch->elements[index].fingerprint);
    if (batch->app_cache)
        seed_later(batch, index, again);
    note_hit(batch, index, !again);
}

/* Probes the layer's cache. */
static bool probe_layer(Batch *batch, uint32_t index)
{
    if (!probe_one(batch, index, batch->call->device->caches.merged))
        return false;
    note_layer_hit(batch, index);
    return true;
}

/* Probes the annex: data not yet merged into the layer's cache, because a thread compiles with that cache. */
static bool probe_annex(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    if (!atomic_load_explicit(&device->caches.merged_use.has_annex, memory_order_relaxed))
        return false;
    if (!patient_lock(&device->caches.merge_mutex))
        return false;
    VkPipelineCache annex = device->caches.merged_use.annex;
    bool found = annex != VK_NULL_HANDLE && probe_one(batch, index, annex);
    patient_unlock(&device->caches.merge_mutex);
    if (found)
        note_layer_hit(batch, index);
    return found;
}

/* Returns true if the creation failed and stored data, merged into the application's cache, may be the cause. */
static bool may_be_the_stores_doing(const Batch *batch, VkPipelineCache cache, VkResult result, VkPipeline pipeline)
{
    if (cache == VK_NULL_HANDLE ||
        !atomic_load_explicit(&batch->call->device->crash.holds_stored, memory_order_relaxed))
        return false;
    return result == VK_SUCCESS ? pipeline == VK_NULL_HANDLE : result < 0 && result != VK_ERROR_DEVICE_LOST;
}

/* Creates the pipeline exactly as the application asked, in a call of its own. A suspect gets no cache, because stored
 * data was merged into the application's. */
static VkResult create_as_asked(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    VkPipelineCache cache = batch->elements[index].suspect ? VK_NULL_HANDLE : call->cache;
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cache, CREATE_AS_ASKED, &call->pipelines[index], &duration);
    if (may_be_the_stores_doing(batch, cache, result, call->pipelines[index]))
        result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_AS_ASKED, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS && batch->elements[index].without_shaders) {
        batch_note_created(batch, index);
        count(&counters_of(&device->run)->kind_hits[PYLAYER_KIND_GRAPHICS_LIBRARY], 1);
        count(&counters_of(&device->run)->totals.hit_ns, duration);
    } else if (result == VK_SUCCESS) {
        batch_note_created(batch, index);
        count(&counters_of(&device->run)->totals.plain, 1);
        count(&counters_of(&device->run)->totals.plain_ns, duration);
        const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
        if (feedback ? !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT)
                     : duration > PYLAYER_TOLD_NS)
            creation_tell(batch, index, PYLAYER_OUTCOME_PLAIN, duration, 1);
    } else if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT) {
        count(&counters_of(&device->run)->totals.compile_required, 1);
    } else {
        count(&counters_of(&device->run)->totals.failed, 1);
        creation_tell(batch, index, PYLAYER_OUTCOME_FAILED, duration, 1);
    }
    return result;
}

static VkResult create_in_cell(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    const Element *element = &batch->elements[index];
    VkPipelineCache cell = cell_create(&device->caches, element, true);
    if (cell == VK_NULL_HANDLE)
        return create_as_asked(batch, index);
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cell, CREATE_IN_CELL, &call->pipelines[index], &duration);
    if (result != VK_SUCCESS) {
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
        if (result != VK_PIPELINE_COMPILE_REQUIRED_EXT)
            return create_as_asked(batch, index);
        count(&counters_of(&device->run)->totals.compile_required, 1);
        return result;
    }
    batch_note_created(batch, index);
    element_clear_application_hit(element);
    keep_cell(batch, index, cell, duration);
    return VK_SUCCESS;
}

/* Creates a pipeline that no cache has, or a suspect, for which no cache was probed. */
static VkResult create_absent(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    if (batch->call->extent == CREATE_FOUND)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    return call_is_off(&batch->call->device->crash.added_calls, PYLAYER_MARK_CELL, element->kind)
               ? create_as_asked(batch, index)
               : create_in_cell(batch, index);
}

/* Returns true if no probe is made: there is nothing to find, a process died in one, or flags cannot be changed. */
static bool is_beyond_probes(const Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    return element->without_shaders ||
           call_is_off(&batch->call->device->crash.added_calls, PYLAYER_MARK_PROBE, element->kind) ||
           !element_flags_can_change(element, batch->call, index);
}

/* Returns true if the application's cache may have what the layer's lacks: data, or a cache that the layer does not know. */
static bool holds_its_own(const Batch *batch)
{
    return batch->call->cache != VK_NULL_HANDLE &&
           (!batch->app_cache || atomic_load_explicit(&batch->app_cache->holds_unknown, memory_order_relaxed));
}

static bool is_found(Batch *batch, uint32_t index)
{
    return batch_fetch(batch, index) && (probe_layer(batch, index) || probe_annex(batch, index));
}

VkResult carrier_cells_create_one(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    VkPipeline *pipeline = &call->pipelines[index];
    if (batch->elements[index].suspect)
        return create_absent(batch, index);
    if (is_beyond_probes(batch, index))
        return call->extent == CREATE_FOUND ? VK_PIPELINE_COMPILE_REQUIRED_EXT : create_as_asked(batch, index);
    if (holds_its_own(batch)) {
        VkResult result = batch_create_one(batch, index, call->cache, CREATE_BY_PROBE, pipeline, NULL);
        if (result == VK_ERROR_DEVICE_LOST)
            return result;
        if (result == VK_SUCCESS && *pipeline != VK_NULL_HANDLE) {
            note_hit(batch, index, false);
            return VK_SUCCESS;
        }
    }
    if (is_found(batch, index))
        return VK_SUCCESS;
    return create_absent(batch, index);
}

VkResult carrier_cells_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    /* Pipelines that the load will bring must not be compiled. Also, before its end there may be no sentinel that marks
     * probes, and verdicts of earlier deaths are not known. */
    batch_wait_for_load(batch);
    /* Policy may have learnt from the store that this driver's caches keep nothing. */
    if (atomic_load_explicit(&call->device->run.carrier, memory_order_relaxed) == PYLAYER_CARRIER_OFF)
        return pass_pipelines(call);
    batch_create_each(batch, carrier_cells_create_one);
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}
