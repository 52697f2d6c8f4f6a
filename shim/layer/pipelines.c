/*
 * pipelines.c - vkCreateGraphicsPipelines, vkCreateComputePipelines, vkCreateRayTracingPipelinesKHR.
 *
 * A hit is one call to the driver: the application's call with FAIL_ON_PIPELINE_COMPILE_REQUIRED, against
 * its own cache or, when it passed none, the layer's. Pipelines that this leaves out are created one by one,
 * each in a cell. The binaries carrier goes by pipeline keys instead, where the application passed no cache. Results are those that the driver would have given without the layer (Vulkan, 'Multiple Pipeline
 * Creation').
 */
#include <stdlib.h>
#include <string.h>

#include "binaries.h"
#include "create_info.h"

/* Create infos in one call that fit on the stack; applications rarely pass more than one. */
#define STACK_ELEMENTS 8

typedef struct Batch {
    PipelineCall *call;
    AppCache *app_cache; /* NULL: the application passed none, or one the layer does not know */
    Element *elements;
    char *infos; /* changed copies, in the call's own layout */
    VkResult result;
    Shard *late_shard;     /* the probe was done in this one, which lacks something of the layer's cache */
    bool after_load;       /* the probe saw everything that the store holds */
    uint32_t created_here; /* pipelines that this call compiled so far */
} Batch;

/* Several pipelines may fail in different ways; an error outweighs a success code such as
 * VK_PIPELINE_COMPILE_REQUIRED. */
static VkResult worse(VkResult sofar, VkResult result)
{
    if (result == VK_SUCCESS || (sofar < 0 && result > 0))
        return sofar;
    return result;
}

VkResult pipelines_pass_through(const PipelineCall *call)
{
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    Device *device = call->device;
    /* The layer may be merging into it for other calls. In the child of a fork no lock may be taken. */
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(device, call->cache);
    count(&device->counters.passed, call->count);
    if (app_cache)
        cache_use_begin(&app_cache->use, true);
    VkResult result = call_driver(call, call->cache, call->count, call->infos, call->pipelines);
    if (app_cache)
        cache_use_end(device, &app_cache->use, call->cache, true);
    return result;
}

/* NULL: a cell, or one that the layer does not merge into. */
static CacheUse *use_of(Batch *batch, VkPipelineCache cache)
{
    if (cache == batch->call->device->merged)
        return &batch->call->device->merged_use;
    return batch->app_cache && cache == batch->call->cache ? &batch->app_cache->use : NULL;
}

/* duration_ns: NULL where nobody wants to know. */
static VkResult call_with_cache(Batch *batch, VkPipelineCache cache, bool may_compile, uint32_t info_count,
                                const void *infos, VkPipeline *pipelines, uint64_t *duration_ns)
{
    CacheUse *use = use_of(batch, cache);
    if (use)
        cache_use_begin(use, may_compile);
    uint64_t start = duration_ns ? now_ns() : 0;
    VkResult result = call_driver(batch->call, cache, info_count, infos, pipelines);
    if (duration_ns)
        *duration_ns = now_ns() - start;
    if (use)
        cache_use_end(batch->call->device, use, cache, may_compile);
    return result;
}

/* One element of the batch by itself. infos is NULL-safe storage for its changed copy. */
static VkResult create_one(Batch *batch, uint32_t index, VkPipelineCache cache, uint64_t set, VkPipeline *pipeline,
                           uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    Element *element = &batch->elements[index];
    AnyCreateInfo info;
    uint64_t clear = create_info_flags_to_clear(call, index, element->flags);
    element_release(element);
    bool prepared = element_prepare(element, call, index, set, clear, &info);
    if (!prepared && (set & FAIL_ON_COMPILE))
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    create_info_detach(call, index, element->flags, &info);
    *pipeline = VK_NULL_HANDLE;
    bool may_compile = !((element->flags | set) & FAIL_ON_COMPILE);
    return call_with_cache(batch, cache, may_compile, 1, &info, pipeline, duration_ns);
}

/* A pipeline was created for the application, whichever way. */
static void note_created(const Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    count(&hot_counters(device)->pipelines, 1);
    fingerprints_note(device, batch->elements[index].fingerprint);
}

#define CAPTURES                                                                                                       \
    (uint64_t)(VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |                                                         \
               VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR)

static PylayerCell about_cell(const Batch *batch, uint32_t index, uint8_t flags, uint64_t create_ns)
{
    const Element *element = &batch->elements[index];
    if (element->flags & CAPTURES)
        flags |= PYLAYER_CELL_INTERNALS;
    return (PylayerCell){.kind = (uint8_t)element->kind,
                         .flags = flags | (batch->after_load ? PYLAYER_CELL_AFTER_LOAD : 0),
                         .create_ns = create_ns,
                         .fingerprint = element->fingerprint};
}

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
    VkPipelineCache cell = stages <= SAVED_STAGES ? cell_create(device) : VK_NULL_HANDLE;
    if (cell == VK_NULL_HANDLE)
        return false;
    VkPipelineCreationFeedbackEXT saved = {0}, saved_stages[SAVED_STAGES];
    if (app)
        saved = *app->pPipelineCreationFeedback;
    if (stages)
        memcpy(saved_stages, app->pPipelineStageCreationFeedbacks, stages * sizeof *saved_stages);
    VkPipeline again = VK_NULL_HANDLE;
    uint64_t duration = 0;
    VkResult result = create_one(batch, index, cell, FAIL_ON_COMPILE, &again, &duration);
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
    bool kept = cell_finish(device, cell, batch->app_cache, about_cell(batch, index, PYLAYER_CELL_ADOPTED, duration));
    if (kept)
        count(&device->counters.adopted, 1);
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
        count(&hot_counters(device)->hit_ns, feedback->duration);
    if (from_layer)
        element_clear_application_hit(element);
    note_created(batch, index);
    unsigned not_adopted = atomic_load_explicit(&device->kinds_not_adopted, memory_order_relaxed);
    if (!in_cache && device->plan.adopt && !(not_adopted >> element->kind & 1) && adopt(batch, index))
        return;
    count(&hot_counters(device)->hits, 1);
    if (!from_layer)
        count(&hot_counters(device)->application_hits, 1);
}

static void note_plain(Batch *batch, uint32_t index, bool from_layer, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
    note_created(batch, index);
    count(&device->counters.plain, 1);
    count(&device->counters.plain_ns, duration_ns);
    /* A driver that was asked and does not tell may have compiled; of fast links drivers have nothing to tell. */
    bool compiled = feedback ? !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT)
                             : device->feedback && batch->elements[index].kind != PYLAYER_KIND_GRAPHICS_FAST_LINKED;
    if (compiled)
        count(&device->counters.plain_compiled, 1);
    if (compiled && batch->app_cache)
        atomic_store(&batch->app_cache->holds_plain, true);
    if (from_layer)
        element_clear_application_hit(&batch->elements[index]);
}

static bool probe_one(Batch *batch, uint32_t index, VkPipelineCache cache)
{
    VkPipeline *pipeline = &batch->call->pipelines[index];
    return create_one(batch, index, cache, FAIL_ON_COMPILE, pipeline, NULL) == VK_SUCCESS && *pipeline;
}

/* What could not be merged into the layer's cache yet, because somebody compiles there. */
static bool probe_annex(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    if (!atomic_load_explicit(&device->merged_use.has_annex, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&device->merge_mutex);
    VkPipelineCache annex = device->merged_use.annex;
    bool found = annex != VK_NULL_HANDLE && probe_one(batch, index, annex);
    pthread_mutex_unlock(&device->merge_mutex);
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

/* Exactly as the application made it, by itself. */
static VkResult create_as_asked(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    uint64_t duration = 0;
    VkResult result = create_one(batch, index, call->cache, 0, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS) {
        note_created(batch, index);
        count(&device->counters.plain, 1);
        count(&device->counters.plain_ns, duration);
    } else if (result == VK_PIPELINE_COMPILE_REQUIRED_EXT) {
        count(&device->counters.compile_required, 1);
    } else {
        count(&device->counters.failed, 1);
    }
    return result;
}

static VkResult compile_into_cell(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipelineCache cell = cell_create(device);
    if (cell == VK_NULL_HANDLE)
        return create_as_asked(batch, index);
    uint64_t duration = 0;
    VkResult result = create_one(batch, index, cell, 0, &call->pipelines[index], &duration);
    if (result != VK_SUCCESS) {
        device->destroy_pipeline_cache(device->handle, cell, NULL);
        return create_as_asked(batch, index);
    }
    batch->created_here++;
    note_created(batch, index);
    count(&device->counters.compile_ns, duration);
    element_clear_application_hit(element);
    bool kept = cell_finish(device, cell, batch->app_cache, about_cell(batch, index, 0, duration));
    count(kept ? &device->counters.compiled : &device->counters.uncacheable, 1);
    return VK_SUCCESS;
}

/* Nothing has it. */
static VkResult create_absent(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    if (batch->call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&batch->call->device->counters.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return element->plain ? create_as_asked(batch, index) : compile_into_cell(batch, index);
}

static VkResult create_missing(Batch *batch, uint32_t index)
{
    Element *element = &batch->elements[index];
    if (batch->app_cache && !element->plain)
        batch->after_load = loading_wait(batch->call->device);
    /* What the application's cache lacks the layer's may have, or this call has just compiled it. */
    bool worth_it = batch->app_cache || batch->late_shard || batch->created_here > 0;
    if (!element->plain && (probe_annex(batch, index) || (worth_it && probe_layer(batch, index))))
        return VK_SUCCESS;
    return create_absent(batch, index);
}

/* EARLY_RETURN_ON_FAILURE: this element and all behind it are VK_NULL_HANDLE, also those already created. */
static void return_early(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = index; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            call->device->destroy_pipeline(call->device->handle, call->pipelines[i], call->allocator);
        call->pipelines[i] = VK_NULL_HANDLE;
        element_clear_feedback(&batch->elements[i]);
    }
}

typedef VkResult (*CreateFn)(Batch *batch, uint32_t index);

/* Creates, one by one, what is not there yet. */
static void create_each(Batch *batch, CreateFn create)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            continue;
        VkResult result = create(batch, i);
        batch->result = worse(batch->result, result);
        if (result == VK_SUCCESS)
            continue;
        call->pipelines[i] = VK_NULL_HANDLE;
        if (batch->elements[i].flags & EARLY_RETURN) {
            return_early(batch, i);
            return;
        }
    }
}

/* Without a probe a miss cannot be seen: what the store has must be in the application's cache before. */
static void seed_before(Batch *batch)
{
    Device *device = batch->call->device;
    batch->after_load = loading_wait(device);
    if (device->plan.seed_caches && !loading_is_under_way(device)) /* not between the slices of a load */
        cells_seed(device, batch->app_cache);
}

/* The whole call at once, not allowed to compile. Leaves VK_NULL_HANDLE where something is missing. */
static VkResult probe_all(Batch *batch)
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
        if (!element_prepare(element, call, i, element->plain ? 0 : FAIL_ON_COMPILE, EARLY_RETURN, info))
            element->plain = true;
        may_compile |= element->plain && !(element->flags & FAIL_ON_COMPILE);
        call->pipelines[i] = VK_NULL_HANDLE;
        without_probe |= element->plain;
    }
    if (without_probe && batch->app_cache)
        seed_before(batch);
    Shard *shard = from_layer && !without_probe ? shard_take(device) : NULL;
    if (shard)
        cache = shard_cache(shard);
    /* Of hits the driver's feedback tells how long they took; to read the clock costs 1 % of one (measured). */
    uint64_t duration = 0;
    VkResult result = call_with_cache(batch, cache, may_compile, call->count, batch->infos, call->pipelines,
                                      may_compile ? &duration : NULL);
    if (shard) {
        batch->late_shard = shard_is_late(device, shard) ? shard : NULL;
        shard_give_back(shard);
    }
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] == VK_NULL_HANDLE)
            continue;
        if (batch->elements[i].plain)
            note_plain(batch, i, from_layer, call->count == 1 ? duration : 0);
        else
            note_hit(batch, i, from_layer);
    }
    return result;
}

static VkResult create_with_cells(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    /* What is about to arrive must not be compiled. With an application cache only a miss has to wait. */
    if (call->cache == VK_NULL_HANDLE)
        batch->after_load = loading_wait(device);
    /* Policy may have learnt from the store that this driver keeps nothing. */
    if (atomic_load_explicit(&device->carrier, memory_order_relaxed) == PYLAYER_CARRIER_OFF)
        return pipelines_pass_through(call);
    VkResult result = probe_all(batch);
    if (result == VK_ERROR_DEVICE_LOST)
        batch->result = result;
    else if (result != VK_SUCCESS)
        create_each(batch, create_missing);
    if (call->probe_after_load)
        *call->probe_after_load = batch->after_load;
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}

/* ---- binaries carrier -------------------------------------------------------------------------- */

/* Its flags stand behind a struct of unknown size. */
static bool may_be_probed(Batch *batch, uint32_t index)
{
    AnyCreateInfo info;
    Element *element = &batch->elements[index];
    bool changed = element_change_flags(element, batch->call, index, FAIL_ON_COMPILE, 0, &info);
    element_release(element);
    return changed;
}

/* One pipeline of which there are no binaries, through the layer's cache. */
static VkResult create_in_layer_cache(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    unsigned plain_kinds = atomic_load_explicit(&device->plain_kinds, memory_order_relaxed);
    element->plain = plain_kinds >> element->kind & 1 || !may_be_probed(batch, index);
    if (!element->plain)
        return probe_annex(batch, index) || probe_layer(batch, index) ? VK_SUCCESS : create_absent(batch, index);
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    uint64_t duration = 0;
    VkResult result = create_one(batch, index, device->merged, 0, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS)
        note_plain(batch, index, true, duration);
    return result;
}

/* The index lacks it, but cells that were stored before may have it, or the driver's own cache. */
static bool probe_without_binaries(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    if (!device->cache_control)
        return false;
    bool cells = atomic_load_explicit(&device->cells_generation, memory_order_relaxed) > 0;
    uint64_t duration = 0;
    VkResult result = create_one(batch, index, cells ? device->merged : VK_NULL_HANDLE, FAIL_ON_COMPILE,
                                 &call->pipelines[index], &duration);
    if (result != VK_SUCCESS || call->pipelines[index] == VK_NULL_HANDLE)
        return false;
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    bool in_cells = cells && (!feedback ||
                              (feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT));
    element_clear_application_hit(element);
    note_created(batch, index);
    count(&hot_counters(device)->hit_ns, duration);
    bool adopted = !in_cells && device->plan.adopt &&
                   binaries_keep(call, index, element, key, about_cell(batch, index, PYLAYER_CELL_ADOPTED, duration));
    count(adopted ? &device->counters.adopted : &hot_counters(device)->hits, 1);
    return true;
}

static void note_compiled(Batch *batch, uint32_t index, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    note_created(batch, index);
    count(&device->counters.compiled, 1);
    count(&device->counters.compile_ns, duration_ns);
    element_clear_application_hit(&batch->elements[index]);
}

/* The driver compiled it and does not have its binaries: compiled again, once for this kind of pipeline. */
static void capture_belatedly(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipeline again = VK_NULL_HANDLE;
    uint64_t duration = 0;
    atomic_fetch_or(&device->kinds_captured, 1u << element->kind);
    if (binaries_capture(call, index, element, key, about_cell(batch, index, 0, 0), &again, &duration))
        device->destroy_pipeline(device->handle, again, call->allocator);
    else /* it can be created, but not captured */
        atomic_fetch_or(&device->kinds_without_binaries, 1u << element->kind);
}

static VkResult compile_for_binaries(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipeline *pipeline = &call->pipelines[index];
    uint64_t duration = 0;
    if (binaries_want_capture(device, element) &&
        binaries_capture(call, index, element, key, about_cell(batch, index, 0, 0), pipeline, &duration)) {
        note_compiled(batch, index, duration);
        return VK_SUCCESS;
    }
    VkResult result = create_one(batch, index, VK_NULL_HANDLE, 0, pipeline, &duration);
    if (result != VK_SUCCESS) {
        count(&device->counters.failed, 1);
        return result;
    }
    note_compiled(batch, index, duration);
    if (!binaries_keep(call, index, element, key, about_cell(batch, index, 0, duration)))
        capture_belatedly(batch, index, key);
    return VK_SUCCESS;
}

static VkResult create_by_key(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipelineBinaryKeyKHR key;
    if (!binaries_key(call, index, element, &key))
        return create_in_layer_cache(batch, index);
    VkResult result;
    uint64_t duration = 0;
    if (binaries_create(call, index, element, &key, &call->pipelines[index], &result, &duration)) {
        if (result != VK_SUCCESS)
            return result;
        note_created(batch, index);
        HotCounters *counters = hot_counters(device);
        count(&counters->hits, 1);
        count(&counters->binary_hits, 1);
        count(&counters->hit_ns, duration);
        return VK_SUCCESS;
    }
    if (probe_without_binaries(batch, index, &key))
        return VK_SUCCESS;
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&device->counters.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return compile_for_binaries(batch, index, &key);
}

/* The application passed no VkPipelineCache. */
static VkResult create_with_binaries(Batch *batch)
{
    PipelineCall *call = batch->call;
    batch->after_load = loading_wait(call->device);
    for (uint32_t i = 0; i < call->count; i++)
        call->pipelines[i] = VK_NULL_HANDLE;
    create_each(batch, create_by_key);
    if (call->probe_after_load)
        *call->probe_after_load = batch->after_load;
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}

/* The snapshot carrier: the application's call with the layer's cache where it passed none. */
static VkResult create_with_snapshot(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    bool from_layer = call->cache == VK_NULL_HANDLE;
    if (from_layer)
        loading_wait(device);
    else if (batch->app_cache && device->plan.seed_caches && !loading_is_under_way(device))
        cells_seed(device, batch->app_cache); /* when more was loaded since; not between the slices of a load */
    size_t stride = create_info_size(call->point);
    bool may_compile = false;
    for (uint32_t i = 0; i < call->count; i++) {
        may_compile |= !(batch->elements[i].flags & FAIL_ON_COMPILE);
        AnyCreateInfo changed;
        element_prepare(&batch->elements[i], call, i, 0, 0, &changed);
        memcpy(batch->infos + i * stride, &changed, stride);
        call->pipelines[i] = VK_NULL_HANDLE;
    }
    uint64_t duration = 0;
    VkResult result = call_with_cache(batch, from_layer ? device->merged : call->cache, may_compile, call->count,
                                      batch->infos, call->pipelines, &duration);
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            note_plain(batch, i, from_layer, i == 0 ? duration : 0);
        element_release(&batch->elements[i]);
    }
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
            binaries_keep_captured(call, i, &batch->elements[i], about_cell(batch, i, 0, 0));
    return result;
}

static VkResult create_pipelines(PipelineCall call)
{
    Device *device = call.device;
    int carrier = atomic_load_explicit(&device->carrier, memory_order_relaxed);
    if (carrier == PYLAYER_CARRIER_OFF || call.count == 0 || process_is_forked_child())
        return pipelines_pass_through(&call);
    if (call.deferred != VK_NULL_HANDLE)
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
    batch.app_cache = app_cache_find(device, call.cache);
    if (untouchable)
        result = pass_untouched(&batch);
    else if (carrier == PYLAYER_CARRIER_SNAPSHOT)
        result = create_with_snapshot(&batch);
    else if (carrier == PYLAYER_CARRIER_BINARIES && call.cache == VK_NULL_HANDLE)
        result = create_with_binaries(&batch);
    else
        result = create_with_cells(&batch);
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
