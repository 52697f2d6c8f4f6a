/*
 * mode_cells.c - creates pipelines with a VkPipelineCache, in at most three steps:
 *
 * 1. If the application's cache holds data that this run did not put there, that cache is probed: the driver gets the
 *    application's create info with FAIL_ON_PIPELINE_COMPILE_REQUIRED.
 * 2. If the store or this run knows the pipeline, the layer's cache is probed.
 * 3. Everything else is created in a cell. If the driver has it in a cache of its own, the cell gets it from there.
 */
#include "pipelines/pipelines.h"

/* Tells policy what is in a cell, and merges it. Not inlined: the description is not on the stack while the driver
 * compiles. */
NOT_INLINED static void keep_cell(Batch *batch, uint32_t index, VkPipelineCache cell, uint64_t create_ns)
{
    PylayerCounters *totals = &counters_of(&batch->call->device->run)->totals;
    PylayerCell about;
    batch_about_cell(batch, index, create_ns, &about);
    uint32_t codeless = batch->elements[index].codeless;
    bool kept = cell_finish(&batch->call->device->caches, cell, batch->app_cache, codeless, &about);
    if (codeless && about.flags & PYLAYER_CELL_EMPTY) {
        batch_note_hit(batch, index, create_ns);
        return;
    }
    batch_note_created(batch, index);
    count(&totals->compile_ns, create_ns);
    count(kept ? &totals->compiled : &totals->uncacheable, 1);
}

/* Counts a pipeline that a probe created. from_layer: without the layer the application's cache would lack it. */
static void note_found(const Batch *batch, uint32_t index, bool from_layer)
{
    const Element *element = &batch->elements[index];
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    uint64_t duration = feedback ? feedback->duration : 0;
    if (from_layer)
        element_clear_application_hit(element);
    else
        count(&counters_of(&batch->call->device->run)->totals.application_hits, 1);
    batch_note_hit(batch, index, duration);
}

/* Step 1: probes the application's cache. Returns true if *result is the creation's result: the pipeline was found, or
 * the device is lost. */
static bool probe_own(Batch *batch, uint32_t index, VkResult *result)
{
    const PipelineCall *call = batch->call;
    *result = VK_INCOMPLETE;
    /* A cache that the layer does not know may hold anything. */
    if (call->cache == VK_NULL_HANDLE ||
        (batch->app_cache && !atomic_load_explicit(&batch->app_cache->holds_unknown, memory_order_relaxed)))
        return false;
    *result = batch_create_one(batch, index, call->cache, CREATE_BY_PROBE, NULL);
    if (*result == VK_SUCCESS)
        note_found(batch, index, false);
    return *result == VK_SUCCESS || *result == VK_ERROR_DEVICE_LOST;
}

/* Returns true if the layer's cache has the pipeline, which is then created. */
static bool probe_merged(Batch *batch, uint32_t index)
{
    VkPipelineCache merged = batch->call->device->caches.merged;
    if (batch_create_one(batch, index, merged, CREATE_BY_PROBE, NULL) != VK_SUCCESS)
        return false;
    bool again = batch->app_cache && app_cache_owes(batch->app_cache, batch->elements[index].fingerprint);
    note_found(batch, index, !again);
    return true;
}

/* Step 2: probes the layer's cache, unless it probably lacks the pipeline. The cache may have the pipeline already,
 * from a chunk that was read for another one. Otherwise what is stored under its fingerprint is merged into the cache
 * first, one record at a time: there may be records of other pipelines with this fingerprint, or with keys that the
 * driver used in another process. */
static bool probe_layer(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    element->known = element->fingerprint ? fingerprint_known(&device->run.seen, element->fingerprint) : 0;
    do {
        if ((element->known & (SEEN_MERGED | SEEN_FETCHED)) == SEEN_MERGED && probe_merged(batch, index))
            return true;
    } while (stored_fetch(&device->caches, element->fingerprint, &element->known));
    /* The cell of a deferred operation of many pipelines is stored without a fingerprint. */
    if (element->kind >= PYLAYER_KIND_RAY_TRACING)
        stored_fetch(&device->caches, 0, NULL);
    bool likely =
        element->known & SEEN_MERGED || atomic_load_explicit(&device->run.seen.merged_unknown, memory_order_relaxed);
    return likely && probe_merged(batch, index);
}

/* Returns true if the creation failed and stored data, merged into the application's cache, may be the cause. */
static bool may_be_the_stores_doing(const Batch *batch, VkPipelineCache cache, VkResult result, VkPipeline pipeline)
{
    if (cache == VK_NULL_HANDLE ||
        !atomic_load_explicit(&batch->call->device->crash.holds_stored, memory_order_relaxed))
        return false;
    return result == VK_SUCCESS ? pipeline == VK_NULL_HANDLE : result < 0 && result != VK_ERROR_DEVICE_LOST;
}

/* Returns true for a pipeline without shaders of its own, once another one like it has left its cell empty. Drivers
 * differ in this: RADV caches some libraries without shaders, and searches its disk cache if its cache lacks them. */
static bool compiles_nothing(const Batch *batch, uint32_t index)
{
    return batch->elements[index].codeless &
           atomic_load_explicit(&batch->call->device->caches.left_nothing, memory_order_relaxed);
}

/* Creates the pipeline exactly as the application asked, in a call of its own. A blocked pipeline gets no cache,
 * because stored data was merged into the application's. */
static VkResult create_as_asked(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    VkPipelineCache cache = batch->elements[index].blocked ? VK_NULL_HANDLE : call->cache;
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cache, CREATE_AS_ASKED, &duration);
    if (may_be_the_stores_doing(batch, cache, result, call->pipelines[index]))
        result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_AS_ASKED, &duration);
    if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT) {
        count(&totals->compile_required, 1);
    } else if (result != VK_SUCCESS) {
        count(&totals->failed, 1);
        creation_tell(batch, index, PYLAYER_OUTCOME_FAILED, duration, 1);
    } else if (compiles_nothing(batch, index)) {
        batch_note_hit(batch, index, duration);
    } else if (batch_note_plain(batch, index, duration) || (!device->driver.feedback && duration > PYLAYER_TOLD_NS)) {
        creation_tell(batch, index, PYLAYER_OUTCOME_PLAIN, duration, 1);
    }
    return result;
}

static VkResult create_in_cell(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    const Element *element = &batch->elements[index];
    VkPipelineCache cell = cell_create(&device->caches, element);
    if (cell == VK_NULL_HANDLE)
        return create_as_asked(batch, index);
    uint64_t duration = 0;
    VkResult result = batch_create_one(batch, index, cell, CREATE_IN_CELL, &duration);
    if (result != VK_SUCCESS) {
        device->driver.destroy_pipeline_cache(device->driver.handle, cell, NULL);
        if (result != VK_PIPELINE_COMPILE_REQUIRED_EXT)
            return create_as_asked(batch, index);
        count(&counters_of(&device->run)->totals.compile_required, 1);
        return result;
    }
    element_clear_application_hit(element);
    keep_cell(batch, index, cell, duration);
    return VK_SUCCESS;
}

/* Returns true if the pipeline is not probed: there is nothing to find, a process died in a probe, or the pipeline's
 * flags cannot be changed. */
static bool is_beyond_probes(const Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    return compiles_nothing(batch, index) ||
           call_is_off(&batch->call->device->crash.added_calls, PYLAYER_MARK_PROBE, element->kind) ||
           !element_flags_can_change(element, batch->call, index);
}

VkResult mode_cells_create(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    bool probes = !element->blocked && !is_beyond_probes(batch, index);
    VkResult result;
    if (probes && probe_own(batch, index, &result))
        return result;
    if (probes && probe_layer(batch, index))
        return VK_SUCCESS;
    if (batch->call->probe)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    bool in_cell = (probes || element->blocked) &&
                   !call_is_off(&batch->call->device->crash.added_calls, PYLAYER_MARK_CELL, element->kind);
    return in_cell ? create_in_cell(batch, index) : create_as_asked(batch, index);
}
