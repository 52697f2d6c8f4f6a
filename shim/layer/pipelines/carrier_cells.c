/*
 * carrier_cells.c - creates pipelines with a VkPipelineCache. A hit is one call to the driver for each pipeline: the
 * application's create info with FAIL_ON_PIPELINE_COMPILE_REQUIRED, against its own cache or, if it passed none, the
 * layer's. Each pipeline that misses is compiled in a cell.
 */
#include <string.h>

#include "caches/stored.h"
#include "device/device.h"
#include "caches/cells.h"
#include "caches/contents.h"
#include "pipelines/batch.h"
#include "caches/driver_cache.h"
#include "pipelines/driver_ask.h"
#include "pipelines/pass.h"
#include "pipelines/carrier_cells.h"

/* Tells policy what is in a cell, and merges it. Not inlined: the description is not on the stack while the driver
 * compiles. */
NOT_INLINED static bool keep_cell(Batch *batch, uint32_t index, VkPipelineCache cell, uint8_t flags, uint64_t create_ns,
                                  uint64_t given_before)
{
    PylayerCell about;
    batch_about_cell(batch, index, flags, create_ns, &about);
    bool kept = cell_finish(&batch->call->device->caches, cell, batch->app_cache, &about, given_before);
    if (kept && batch->app_cache)
        contents_add(batch->app_cache, about.fingerprint);
    return kept;
}

/*
 * The driver's own disk cache had the pipeline, so nothing was compiled, and the store lacks it. Creating the pipeline
 * a second time, in a cell, costs one more disk cache hit, once. Returns false if the pipeline could not be created in
 * a cell, or the cell stayed empty.
 */
static bool adopt_now(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    SavedFeedback saved;
    VkPipelineCache cell = cell_create(&device->caches, element, true);
    if (cell == VK_NULL_HANDLE || !feedback_save(&saved, element)) {
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
        return false;
    }
    VkPipeline again = VK_NULL_HANDLE;
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cell, CREATE_TO_ADOPT, &again, &duration);
    feedback_restore(&saved, element);
    if (again != VK_NULL_HANDLE)
        device->driver.destroy_pipeline(device->driver.handle, again, call->allocator);
    if (result != VK_SUCCESS) {
        /* Without the layer's cache the driver would have to compile. So that cache had the pipeline, whatever the
         * feedback says, and adopting pipelines of this kind is useless. */
        if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT)
            call_switch_off(&device->crash.added_calls, PYLAYER_MARK_ADOPT, element->kind);
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
        return false;
    }
    bool kept = keep_cell(batch, index, cell, PYLAYER_CELL_ADOPTED, duration, UINT64_MAX);
    if (kept)
        count(&counters_of(&device->run)->totals.adopted, 1);
    return kept;
}

static bool adopts(const Device *device, unsigned kind)
{
    return device->run.plan.adopt && !call_is_off(&device->crash.added_calls, PYLAYER_MARK_ADOPT, kind);
}

/*
 * The driver's own cache returned the pipeline within driver_ns. Returns true if it was adopted. A pipeline that an earlier
 * run created, too, needs no budget: it is wanted again, and adopted once. So are others with its fingerprint. But the
 * first with it may be the stored one: NVIDIA takes linked pipelines from its own cache even if it was given the stored
 * data. To adopt these in each run cost 11 times the driver's time (H100). known: of its fingerprint, before it was created.
 */
static bool adopt(Batch *batch, uint32_t index, unsigned known, uint64_t driver_ns)
{
    Device *device = batch->call->device;
    const Element *element = &batch->elements[index];
    if (!adopts(device, element->kind) || call_is_off(&device->crash.added_calls, PYLAYER_MARK_CELL, element->kind))
        return false;
    /* The layer's cache was not probed, so nothing tells the pipeline from a stored one with this fingerprint. */
    if (batch->call->cache && (known & SEEN_MERGED || stored_has(&device->caches, element->fingerprint)))
        return false;
    bool may_be_stored = known & (SEEN_MERGED | SEEN_ALONE) && !(known & SEEN_CREATED);
    if (known & SEEN_BEFORE && !may_be_stored)
        return adopt_now(batch, index);
    Adoption adoption;
    if (!adoption_begin(&device->caches.adoption, driver_ns, &adoption))
        return false;
    bool adopted = adopt_now(batch, index);
    adoption_end(&device->caches.adoption, &adoption);
    return adopted;
}

/* A probe created the pipeline. from_layer: the probe used the layer's cache, not one that the application passed. */
static void note_hit(Batch *batch, uint32_t index, bool from_layer)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    bool in_cache =
        !feedback || (feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT);
    if (feedback)
        count(&counters_of(&device->run)->totals.hit_ns, feedback->duration);
    if (from_layer)
        element_clear_application_hit(element);
    unsigned known = in_cache ? 0 : fingerprint_known(&device->run.seen, element->fingerprint);
    batch_note_created(batch, index);
    if (!in_cache && adopt(batch, index, known, feedback->duration))
        return;
    count(&counters_of(&device->run)->kind_hits[element->kind], 1);
    if (feedback)
        creation_tell_hit(batch, index, feedback->duration);
    if (!from_layer)
        count(&counters_of(&device->run)->totals.application_hits, 1);
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
    if (result == VK_SUCCESS) {
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

/* Nothing was compiled: the driver's own cache had a pipeline that was not probed for, and has put it into the cell. */
static void note_found(Batch *batch, uint32_t index, VkPipelineCache cell, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    unsigned kind = batch->elements[index].kind;
    count(&counters_of(&device->run)->totals.hit_ns, duration_ns);
    bool wanted = adopts(device, kind);
    if (wanted && keep_cell(batch, index, cell, PYLAYER_CELL_ADOPTED, duration_ns, UINT64_MAX)) {
        count(&counters_of(&device->run)->totals.adopted, 1);
        return;
    }
    if (!wanted)
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
    count(&counters_of(&device->run)->kind_hits[kind], 1);
    creation_tell_hit(batch, index, duration_ns);
}

/* unprobed: the driver's own cache may have the pipeline. */
static VkResult compile_into_cell(Batch *batch, uint32_t index, bool unprobed)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipelineCache cell = cell_create(&device->caches, element, true);
    if (cell == VK_NULL_HANDLE)
        return create_as_asked(batch, index);
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cell, CREATE_IN_CELL, &call->pipelines[index], &duration);
    if (result != VK_SUCCESS) {
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
        return create_as_asked(batch, index);
    }
    batch_note_created(batch, index);
    element_clear_application_hit(element);
    if (unprobed && element_was_found(element)) {
        note_found(batch, index, cell, duration);
        return VK_SUCCESS;
    }
    count(&counters_of(&device->run)->totals.compile_ns, duration);
    bool kept = keep_cell(batch, index, cell, 0, duration, batch->given_before);
    count(kept ? &counters_of(&device->run)->totals.compiled : &counters_of(&device->run)->totals.uncacheable, 1);
    return VK_SUCCESS;
}

/* A graphics pipeline with tessellation and a geometry shader has the most stages. */
#define MAX_STAGES 5

/*
 * Returns true if the pipeline need not be probed for: neither the store nor this run knows it, and the driver's feedback
 * on its stages will tell whether the driver's own cache had it. With Mesa's disk cache a probe that misses makes up to
 * 1,000 system calls, 0.3 ms, and the compile makes them once more. Pipelines whose stages were met may be the same to
 * the driver as one in the layer's cache.
 */
static bool may_go_unprobed(const Batch *batch, uint32_t index, Fetch fetch)
{
    const PipelineCall *call = batch->call;
    Device *device = call->device;
    const Element *element = &batch->elements[index];
    if (!device->run.plan.compiles_unknown || !device->driver.feedback || fetch.may_be_merged ||
        fetch.alone != VK_NULL_HANDLE || element->stages_met || element->kind > PYLAYER_KIND_GRAPHICS_LIBRARY ||
        element->flags & FAIL_ON_COMPILE || call->probe_after_load ||
        call_is_off(&device->crash.added_calls, PYLAYER_MARK_CELL, element->kind))
        return false;
    uint32_t stage_count;
    create_info_stages(call, index, element->kind, &stage_count);
    return element->app_feedback ? element->app_feedback->pipelineStageCreationFeedbackCount == stage_count
                                 : stage_count <= MAX_STAGES;
}

/* Returns true if the application's cache lacks the pipeline unless one with the same stages was created with it. What
 * the driver's own cache has gets into the application's by a probe, or in a cell that is adopted. */
static bool is_new_to_cache(const Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    uint64_t fingerprint = batch->elements[index].fingerprint;
    return device->run.plan.compiles_unknown && batch->app_cache && !atomic_load(&batch->app_cache->holds_unknown) &&
           adopts(device, batch->elements[index].kind) && fingerprint &&
           !(fingerprint_known(&device->run.seen, fingerprint) & (SEEN_CREATED | SEEN_MERGED));
}

/* The layer's cache is not probed. If it holds the pipeline all the same, under another fingerprint alone, the pipeline is
 * stored again under its own, or each run would compile it. */
static void note_unprobed(Batch *batch)
{
    batch->given_before = 0;
    batch->probed = PROBED_NOT;
}

/* Not inlined: the feedback is not on the stack of other creations. */
NOT_INLINED static VkResult create_unprobed(Batch *batch, uint32_t index)
{
    Element *element = &batch->elements[index];
    VkPipelineCreationFeedbackEXT feedback[MAX_STAGES] = {{0}};
    note_unprobed(batch);
    create_info_stages(batch->call, index, element->kind, &element->stage_count);
    element->stage_feedback = feedback;
    VkResult result = compile_into_cell(batch, index, true);
    element->stage_feedback = NULL;
    element->stage_count = 0;
    return result;
}

/* Creates a pipeline that no cache has, or a suspect, for which no cache was probed. */
static VkResult create_absent(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    if (batch->call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(&batch->call->device->run)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    bool kept =
        !element->plain && !call_is_off(&batch->call->device->crash.added_calls, PYLAYER_MARK_CELL, element->kind);
    return kept ? compile_into_cell(batch, index, false) : create_as_asked(batch, index);
}

/* Without a probe a miss cannot be detected, so what the store has must be in the application's cache beforehand. */
static void seed_before(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    batch_wait_for_load(batch);
    if (!loading_is_under_way(&device->caches)) /* not in a load: each 8 records would cause a merge */
        seed(batch, index);
}

/* For a pipeline of a kind that probes do not find, or whose flags cannot be changed. */
static VkResult create_without_probe(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    bool from_layer = call->cache == VK_NULL_HANDLE;
    batch_fetch(batch, index, false);
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (batch->app_cache)
        seed_before(batch, index);
    if (batch->elements[index].suspect)
        return create_absent(batch, index);
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, from_layer ? device->caches.merged : call->cache, CREATE_AS_ASKED,
                                       &call->pipelines[index], &duration);
    if (result == VK_ERROR_DEVICE_LOST)
        return result;
    if (call->pipelines[index] == VK_NULL_HANDLE)
        return create_absent(batch, index);
    batch_note_plain(batch, index, from_layer, duration);
    creation_tell_plain(batch, duration);
    return VK_SUCCESS;
}

/* For a pipeline that the application's cache lacks. */
static VkResult create_with_layer(Batch *batch, uint32_t index)
{
    if (batch->app_cache)
        batch_wait_for_load(batch);
    Fetch fetch = batch_fetch(batch, index, false);
    if (!batch->elements[index].suspect && may_go_unprobed(batch, index, fetch)) {
        note_unprobed(batch);
        return compile_into_cell(batch, index, false); /* the application's cache was probed */
    }
    if (!batch->elements[index].suspect && (probe_annex(batch, index) || probe_layer(batch, index)))
        return VK_SUCCESS;
    return create_absent(batch, index);
}

/* Returns true if the layer's cache has all that the application's has: that was empty when it was created. */
static bool layer_has_all(const Batch *batch)
{
    return batch->app_cache && !atomic_load_explicit(&batch->app_cache->holds_unknown, memory_order_relaxed) &&
           atomic_load_explicit(&batch->call->device->store.stored.open, memory_order_relaxed);
}

/* Probes the layer's cache before the application's if the store has the pipeline. */
static bool probe_layer_first(Batch *batch, uint32_t index)
{
    Element *element = &batch->elements[index];
    if (!element->fingerprint || !layer_has_all(batch))
        return false;
    element->known = stored_fetch(&batch->call->device->caches, element->fingerprint, false).known;
    return element->known & SEEN_MERGED && probe_layer(batch, index);
}

VkResult carrier_cells_create_one(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    bool from_layer = call->cache == VK_NULL_HANDLE;
    element->plain = call_is_off(&device->crash.added_calls, PYLAYER_MARK_PROBE, element->kind) ||
                     !element_flags_can_change(element, call, index);
    if (element->suspect)
        return create_absent(batch, index);
    if (!element->plain && probe_layer_first(batch, index))
        return VK_SUCCESS;
    if (element->plain)
        return create_without_probe(batch, index);
    VkPipeline *pipeline = &call->pipelines[index];
    VkPipelineCache probed;
    bool is_new = !from_layer && is_new_to_cache(batch, index);
    if (is_new)
        batch_wait_for_load(batch);
    Fetch fetch = {.may_be_merged = true};
    if (from_layer)
        driver_ask(batch, index);
    if (from_layer || is_new)
        fetch = batch_fetch(batch, index, from_layer);
    if (!element->suspect && may_go_unprobed(batch, index, fetch))
        return create_unprobed(batch, index);
    VkResult result = from_layer ? batch_probe(batch, index, fetch, &probed, NULL)
                                 : batch_create_one(batch, index, call->cache, CREATE_BY_PROBE, pipeline, NULL);
    if (result == VK_ERROR_DEVICE_LOST)
        return result;
    if (result == VK_SUCCESS && *pipeline != VK_NULL_HANDLE) {
        note_hit(batch, index, from_layer);
        return VK_SUCCESS;
    }
    if (!from_layer)
        return create_with_layer(batch, index);
    return probe_annex(batch, index) ? VK_SUCCESS : create_absent(batch, index);
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
    for (uint32_t i = 0; i < call->count; i++)
        call->pipelines[i] = VK_NULL_HANDLE;
    batch_create_each(batch, carrier_cells_create_one);
    if (call->probe_after_load)
        *call->probe_after_load = batch->after_load;
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}
