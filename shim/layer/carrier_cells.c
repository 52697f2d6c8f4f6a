/*
 * carrier_cells.c - pipelines through VkPipelineCache: a hit is one call to the driver, the application's call with
 * FAIL_ON_PIPELINE_COMPILE_REQUIRED, against its own cache or, when it passed none, the layer's. Pipelines that this
 * leaves out are created one by one, each in a cell.
 */
#include <string.h>

#include "batch.h"
#include "driver_cache.h"
#include "pass.h"

/* Stage feedbacks that fit here are put back after an adoption overwrote them. */
#define SAVED_STAGES 16

/*
 * The driver's own disk cache answered, so nothing was compiled, and the store lacks it. Creating the
 * pipeline once more, in a cell, costs what a disk cache hit costs, once. False: it could not be had there, or
 * nothing came of it.
 */
static bool adopt(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    const VkPipelineCreationFeedbackCreateInfoEXT *app = element->app_feedback;
    uint32_t stages = app ? app->pipelineStageCreationFeedbackCount : 0;
    VkPipelineCache cell = stages <= SAVED_STAGES ? driver_cache_create(device, true) : VK_NULL_HANDLE;
    if (cell == VK_NULL_HANDLE)
        return false;
    VkPipelineCreationFeedbackEXT saved = {0}, saved_stages[SAVED_STAGES];
    if (app)
        saved = *app->pPipelineCreationFeedback;
    if (stages)
        memcpy(saved_stages, app->pPipelineStageCreationFeedbacks, stages * sizeof *saved_stages);
    VkPipeline again = VK_NULL_HANDLE;
    uint64_t duration = 0;
    batch->cell = cell;
    VkResult result = batch_create_one(batch, index, cell, FAIL_ON_COMPILE, &again, &duration);
    if (app)
        *app->pPipelineCreationFeedback = saved;
    if (stages)
        memcpy(app->pPipelineStageCreationFeedbacks, saved_stages, stages * sizeof *saved_stages);
    if (again != VK_NULL_HANDLE)
        device->destroy_pipeline(device->handle, again, call->allocator);
    if (result != VK_SUCCESS) {
        /* Without our cache the driver would have to compile: ours it was, whatever the feedback says. */
        if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT)
            atomic_fetch_or(&device->kinds_not_adopted, 1u << element->kind);
        device->destroy_pipeline_cache(device->handle, cell, NULL);
        return false;
    }
    bool kept =
        cell_finish(device, cell, batch->app_cache, batch_about_cell(batch, index, PYLAYER_CELL_ADOPTED, duration));
    if (kept)
        count(&counters_of(device)->totals.adopted, 1);
    return kept;
}

/* A probe created the pipeline. from_layer: found in the layer's cache, not in one the application passed. */
static void note_hit(Batch *batch, uint32_t index, bool from_layer)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    bool in_cache =
        !feedback || (feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT);
    if (feedback)
        count(&counters_of(device)->totals.hit_ns, feedback->duration);
    if (from_layer)
        element_clear_application_hit(element);
    batch_note_created(batch, index);
    unsigned not_adopted = atomic_load_explicit(&device->kinds_not_adopted, memory_order_relaxed);
    if (!in_cache && device->plan.adopt && !(not_adopted >> element->kind & 1) && adopt(batch, index))
        return;
    count(&counters_of(device)->kind_hits[element->kind], 1);
    if (feedback)
        creation_tell_hit(batch, index, feedback->duration);
    if (!from_layer)
        count(&counters_of(device)->totals.application_hits, 1);
}

static bool probe_one(Batch *batch, uint32_t index, VkPipelineCache cache)
{
    VkPipeline *pipeline = &batch->call->pipelines[index];
    return batch_create_one(batch, index, cache, FAIL_ON_COMPILE, pipeline, NULL) == VK_SUCCESS && *pipeline;
}

/* What could not be merged into the layer's cache yet, because somebody compiles there. */
static bool probe_annex(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    if (!atomic_load_explicit(&device->merged_use.has_annex, memory_order_relaxed))
        return false;
    if (!patient_lock(&device->merge_mutex))
        return false;
    VkPipelineCache annex = device->merged_use.annex;
    bool found = annex != VK_NULL_HANDLE && probe_one(batch, index, annex);
    patient_unlock(&device->merge_mutex);
    if (found)
        note_hit(batch, index, true);
    return found;
}

/* Looks into the layer's cache. */
static bool probe_layer(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    if (!probe_one(batch, index, device->merged))
        return false;
    if (batch->app_cache && device->plan.seed_caches)
        cells_seed(device, batch->app_cache);
    if (batch->late_shard)
        shard_note_late_hit(batch->late_shard);
    note_hit(batch, index, true);
    return true;
}

/* Something came to nothing, and it may be the doing of what was merged from the store into the application's cache. */
static bool may_be_the_stores_doing(const Batch *batch, VkPipelineCache cache, VkResult result, VkPipeline pipeline)
{
    if (cache == VK_NULL_HANDLE || !atomic_load_explicit(&batch->call->device->holds_stored, memory_order_relaxed))
        return false;
    return result == VK_SUCCESS ? pipeline == VK_NULL_HANDLE : result < 0 && result != VK_ERROR_DEVICE_LOST;
}

/* Exactly as the application made it, by itself; a suspect without the cache, into which what is stored was merged. */
static VkResult create_as_asked(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    VkPipelineCache cache = batch->elements[index].suspect ? VK_NULL_HANDLE : call->cache;
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cache, 0, &call->pipelines[index], &duration);
    if (may_be_the_stores_doing(batch, cache, result, call->pipelines[index]))
        result = batch_create_one(batch, index, VK_NULL_HANDLE, 0, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS) {
        batch_note_created(batch, index);
        count(&counters_of(device)->totals.plain, 1);
        count(&counters_of(device)->totals.plain_ns, duration);
        const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
        if (feedback ? !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT)
                     : duration > PYLAYER_TOLD_NS)
            creation_tell(batch, index, PYLAYER_OUTCOME_PLAIN, duration, 1);
    } else if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT) {
        count(&counters_of(device)->totals.compile_required, 1);
    } else {
        count(&counters_of(device)->totals.failed, 1);
        creation_tell(batch, index, PYLAYER_OUTCOME_FAILED, duration, 1);
    }
    return result;
}

static VkResult compile_into_cell(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipelineCache cell = driver_cache_create(device, true);
    if (cell == VK_NULL_HANDLE)
        return create_as_asked(batch, index);
    uint64_t duration = 0;
    batch->cell = cell;
    VkResult result = batch_create_one(batch, index, cell, 0, &call->pipelines[index], &duration);
    if (result != VK_SUCCESS) {
        device->destroy_pipeline_cache(device->handle, cell, NULL);
        return create_as_asked(batch, index);
    }
    batch->created_here++;
    batch_note_created(batch, index);
    count(&counters_of(device)->totals.compile_ns, duration);
    element_clear_application_hit(element);
    bool kept = cell_finish(device, cell, batch->app_cache, batch_about_cell(batch, index, 0, duration));
    count(kept ? &counters_of(device)->totals.compiled : &counters_of(device)->totals.uncacheable, 1);
    return VK_SUCCESS;
}

/* Nothing has it. */
static VkResult create_absent(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    if (batch->call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(batch->call->device)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return element->plain ? create_as_asked(batch, index) : compile_into_cell(batch, index);
}

static VkResult create_missing(Batch *batch, uint32_t index)
{
    Element *element = &batch->elements[index];
    if (!element->suspect && batch->app_cache && !element->plain)
        batch_wait_for_load(batch);
    if (element->suspect)
        return create_absent(batch, index);
    /* What the application's cache lacks the layer's may have, or this call has just compiled it. */
    bool worth_it = batch->app_cache || batch->late_shard || batch->created_here > 0;
    if (!element->plain && (probe_annex(batch, index) || (worth_it && probe_layer(batch, index))))
        return VK_SUCCESS;
    return create_absent(batch, index);
}

/* Without a probe a miss cannot be seen: what the store has must be in the application's cache before. */
static void seed_before(Batch *batch)
{
    Device *device = batch->call->device;
    batch_wait_for_load(batch);
    if (device->plan.seed_caches && !loading_is_under_way(device)) /* not between the slices of a load */
        cells_seed(device, batch->app_cache);
}

/* Its flags stand behind a struct of unknown size. */
static bool may_be_probed(Batch *batch, uint32_t index)
{
    AnyCreateInfo info;
    Element *element = &batch->elements[index];
    bool changed = element_build(element, batch->call, index, (Change){.set = FAIL_ON_COMPILE}, &info);
    element_release(element);
    return changed;
}

/* Beside a suspect, which must not be looked for: one by one. */
static VkResult create_beside_suspect(Batch *batch, uint32_t index)
{
    Element *element = &batch->elements[index];
    if (element->suspect || element->plain || batch->call->cache == VK_NULL_HANDLE)
        return element->plain ? create_as_asked(batch, index) : create_missing(batch, index);
    if (!probe_one(batch, index, batch->call->cache))
        return create_missing(batch, index);
    note_hit(batch, index, false);
    return VK_SUCCESS;
}

static void create_with_suspects(Batch *batch)
{
    PipelineCall *call = batch->call;
    unsigned plain_kinds = atomic_load_explicit(&call->device->plain_kinds, memory_order_relaxed);
    for (uint32_t i = 0; i < call->count; i++) {
        batch->elements[i].plain = plain_kinds >> batch->elements[i].kind & 1 || !may_be_probed(batch, i);
        call->pipelines[i] = VK_NULL_HANDLE;
    }
    batch->created_here = 1; /* nothing was looked for in the layer's cache yet */
    batch_create_each(batch, create_beside_suspect);
}

/* The whole call at once, not allowed to compile. Leaves VK_NULL_HANDLE where something is missing. False: nothing was
 * created, for it turned out that there are suspects. */
static bool probe_all(Batch *batch, VkResult *outcome)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    VkPipelineCache cache = call->cache != VK_NULL_HANDLE ? call->cache : device->merged;
    bool from_layer = call->cache == VK_NULL_HANDLE;
    size_t stride = create_info_size(call->point);
    unsigned plain_kinds = atomic_load_explicit(&device->plain_kinds, memory_order_relaxed);
    bool without_probe = false, may_compile = false;
    for (uint32_t i = 0; i < call->count; i++) {
        Element *element = &batch->elements[i];
        element->plain = plain_kinds >> element->kind & 1;
        AnyCreateInfo *info = (AnyCreateInfo *)(void *)(batch->infos + i * stride);
        /* EARLY_RETURN is the layer's to obey: a miss in front must not hide the hits behind it. */
        Change change = {.set = element->plain ? 0 : FAIL_ON_COMPILE, .clear = EARLY_RETURN, .feedback = true};
        if (!element_build(element, call, i, change, info))
            element->plain = true;
        may_compile |= element->plain && !(element->flags & FAIL_ON_COMPILE);
        call->pipelines[i] = VK_NULL_HANDLE;
        without_probe |= element->plain;
    }
    if (without_probe && batch->app_cache)
        seed_before(batch);
    if (batch->suspects)
        return false;
    Shard *shard = from_layer && !without_probe ? shard_take(device) : NULL;
    if (shard)
        cache = shard_cache(shard);
    /* Of hits the driver's feedback tells how long they took; to read the clock costs 1 % of one (measured). */
    uint64_t duration = 0;
    VkResult result = batch_call(batch, cache, may_compile, 0, call->count, batch->infos, call->pipelines,
                                 may_compile ? &duration : NULL);
    if (shard) {
        batch->late_shard = shard_is_late(device, shard) ? shard : NULL;
        shard_give_back(shard);
    }
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] == VK_NULL_HANDLE) {
            /* Whatever the driver says. */
            result = result == VK_SUCCESS ? VK_PIPELINE_COMPILE_REQUIRED_EXT : result;
            continue;
        }
        if (batch->elements[i].plain)
            batch_note_plain(batch, i, from_layer, call->count == 1 ? duration : 0);
        else
            note_hit(batch, i, from_layer);
    }
    if (may_compile)
        creation_tell_plain(batch, duration);
    *outcome = result;
    return true;
}

VkResult carrier_cells_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    /* What is about to arrive must not be compiled. With an application cache only a miss has to wait. */
    if (call->cache == VK_NULL_HANDLE)
        batch_wait_for_load(batch);
    else
        batch_find_suspects(batch);
    /* Policy may have learnt from the store that this driver keeps nothing. */
    if (atomic_load_explicit(&device->carrier, memory_order_relaxed) == PYLAYER_CARRIER_OFF)
        return pass_pipelines(call);
    VkResult result;
    if (batch->suspects || !probe_all(batch, &result))
        create_with_suspects(batch);
    else if (result == VK_ERROR_DEVICE_LOST)
        batch->result = result;
    else if (result != VK_SUCCESS)
        batch_create_each(batch, create_missing);
    if (call->probe_after_load)
        *call->probe_after_load = batch->after_load;
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}

VkResult carrier_cells_create_one(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    unsigned plain_kinds = atomic_load_explicit(&device->plain_kinds, memory_order_relaxed);
    element->plain = plain_kinds >> element->kind & 1 || !may_be_probed(batch, index);
    if (element->suspect)
        return create_absent(batch, index);
    if (!element->plain)
        return probe_annex(batch, index) || probe_layer(batch, index) ? VK_SUCCESS : create_absent(batch, index);
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, device->merged, 0, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS) {
        batch_note_plain(batch, index, true, duration);
        creation_tell_plain(batch, duration);
    }
    return result;
}
