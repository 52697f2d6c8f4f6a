/* batch.c - see batch.h */
#include <string.h>

#include "caches/stored.h"
#include "device/device.h"
#include "pipelines/batch.h"
#include "crash/sentinel.h"
#include "crash/suspects.h"
#include "mailbox/mailbox.h"
#include "shaders/fingerprints.h"

void batch_find_suspects(Batch *batch)
{
    const PipelineCall *call = batch->call;
    for (uint32_t i = 0; i < call->count; i++) {
        Element *element = &batch->elements[i];
        element->suspect = suspects_find(&call->device->crash, element->fingerprint, element->kind);
        batch->suspects |= element->suspect;
    }
}

void batch_wait_for_load(Batch *batch)
{
    batch->after_load = loading_wait(&batch->call->device->caches);
    batch_find_suspects(batch);
}

/* Returns NULL for a cell, and for a cache that the layer does not merge into: its use needs no lock. */
static CacheUse *use_of(Batch *batch, VkPipelineCache cache)
{
    if (cache == batch->call->device->caches.merged)
        return &batch->call->device->caches.merged_use;
    return batch->app_cache && cache == batch->call->cache ? &batch->app_cache->use : NULL;
}

/* Elements of the batch, from `first` on, as the driver gets them. */
typedef struct Part {
    uint32_t first, count;
    const void *infos;
    VkPipeline *pipelines;
    bool may_compile;
} Part;

/* What a death in this call says: stored data that the driver may be using comes first. Otherwise the layer may have
 * added the call. */
static Mark mark_call(Batch *batch, VkPipelineCache cache, enum Purpose purpose, const Part *part)
{
    Device *device = batch->call->device;
    const Element *element = &batch->elements[part->first];
    bool in_cell = purpose == CREATE_IN_CELL || purpose == CREATE_TO_ADOPT;
    Mark mark = mark_pipelines(&device->crash, element, part->count,
                               cache == batch->call->cache ? app_cache_data_id(batch->app_cache) : 0,
                               cache != VK_NULL_HANDLE && !in_cell, part->may_compile);
    if (mark.taken[0] || purpose == CREATE_AS_ASKED || purpose == CREATE_IN_CELL)
        return mark;
    return mark_added(&device->crash, purpose == CREATE_TO_ADOPT ? PYLAYER_MARK_ADOPT : PYLAYER_MARK_PROBE,
                      element->kind, element->fingerprint);
}

static void note_probe(Batch *batch, bool absent)
{
    batch->probed = absent && batch->probed != PROBED_UNCLEAR ? PROBED_ABSENT : PROBED_UNCLEAR;
}

/*
 * Returns a number for what the driver is about to create from a cache, if this run has created the same before; 0 if it
 * has not, or if that is not known. What the driver has created three times without harm need not be marked: programs that
 * end while their threads create the same pipelines again would set them aside. Pipelines with the same fingerprint may
 * have other layouts and render passes, and other data.
 */
static uint64_t number_again(const Batch *batch, VkPipelineCache cache, enum Purpose purpose, const Part *part)
{
    const Element *element = &batch->elements[part->first];
    if (purpose != CREATE_BY_PROBE || !(element->known & SEEN_CREATED) || element->kind > PYLAYER_KIND_GRAPHICS)
        return 0;
    const AnyCreateInfo *info = part->infos;
    const bool compute = element->kind == PYLAYER_KIND_COMPUTE;
    const uint64_t all[] = {
        element->fingerprint,
        (uint64_t)cache,
        (uint64_t)(compute ? info->compute.layout : info->graphics.layout),
        compute ? 0 : (uint64_t)info->graphics.renderPass,
    };
    return digest64(all, sizeof all, 0);
}

static void note_harmless(Batch *batch, uint64_t again, unsigned known)
{
    fingerprints_note(&batch->call->device->run.seen, again,
                      known & SEEN_HARMLESS ? SEEN_HARMLESS_TWICE : SEEN_HARMLESS);
}

/* Does what merging into that cache and the crash sentinel need. */
static VkResult create_part(Batch *batch, VkPipelineCache cache, enum Purpose purpose, const Part *part,
                            uint64_t *duration_ns)
{
    CacheUse *use = use_of(batch, cache);
    if (use && !cache_use_begin(use, part->may_compile)) {
        if (!part->may_compile) {
            note_probe(batch, false);
            memset(part->pipelines, 0, part->count * sizeof *part->pipelines);
            return VK_PIPELINE_COMPILE_REQUIRED_EXT;
        }
        use = NULL;
        cache = VK_NULL_HANDLE;
    }
    uint64_t again = number_again(batch, cache, purpose, part);
    unsigned known = again ? fingerprint_known(&batch->call->device->run.seen, again) : 0;
    Mark mark = known & SEEN_HARMLESS_TWICE ? (Mark){0} : mark_call(batch, cache, purpose, part);
    uint64_t start = duration_ns ? now_ns() : 0;
    VkResult result = call_driver(batch->call, cache, part->count, part->infos, part->pipelines);
    if (duration_ns)
        *duration_ns = now_ns() - start;
    bool created = result == VK_SUCCESS && *part->pipelines != VK_NULL_HANDLE;
    if (created)
        mark_end_created(mark);
    else
        mark_end(mark);
    if (again && created && !(known & SEEN_HARMLESS_TWICE))
        note_harmless(batch, again, known);
    if (purpose == CREATE_BY_PROBE)
        note_probe(batch, result == VK_PIPELINE_COMPILE_REQUIRED_EXT);
    if (use)
        cache_use_end(&batch->call->device->caches, use, cache, part->may_compile);
    return result;
}

VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, enum Purpose purpose,
                          VkPipeline *pipeline, uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    Element *element = &batch->elements[index];
    AnyCreateInfo info;
    uint64_t set = purpose == CREATE_BY_PROBE || purpose == CREATE_TO_ADOPT ? FAIL_ON_COMPILE : 0;
    bool built = element_build(element, call, index, (Change){.set = set, .alone = true, .feedback = true}, &info);
    if (!built)
        note_probe(batch, false);
    if (!built)
        return set ? VK_PIPELINE_COMPILE_REQUIRED_EXT : VK_ERROR_OUT_OF_HOST_MEMORY;
    *pipeline = VK_NULL_HANDLE;
    Part part = {index, 1, &info, pipeline, !((element->flags | set) & FAIL_ON_COMPILE)};
    return create_part(batch, cache, purpose, &part, duration_ns);
}

VkResult batch_create_together(Batch *batch, VkPipelineCache cache, uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    size_t stride = create_info_size(call->point);
    Part all = {0, call->count, batch->infos, call->pipelines, false};
    for (uint32_t i = 0; i < call->count; i++) {
        all.may_compile |= !(batch->elements[i].flags & FAIL_ON_COMPILE);
        AnyCreateInfo changed;
        element_build(&batch->elements[i], call, i, (Change){.feedback = true}, &changed);
        memcpy(batch->infos + i * stride, &changed, stride);
        call->pipelines[i] = VK_NULL_HANDLE;
    }
    return create_part(batch, cache, CREATE_AS_ASKED, &all, duration_ns);
}

Fetch batch_fetch(Batch *batch, uint32_t index, bool may_be_alone)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    Fetched fetched = stored_fetch(&device->caches, element->fingerprint, may_be_alone && device->run.plan.cells_alone);
    /* The cell of a deferred operation of many pipelines is stored without a fingerprint. */
    if (element->kind >= PYLAYER_KIND_RAY_TRACING && fetched.cell == VK_NULL_HANDLE)
        stored_fetch(&device->caches, 0, false);
    element->known = fetched.known;
    if (device->run.plan.compiles_unknown && !(element->known & SEEN_CREATED))
        element->stages_met = fingerprints_meet_stages(
            &device->run.seen, fingerprint_of_stages(&device->shaders, batch->call, index, element->kind));
    batch->given_before = atomic_load_explicit(&device->caches.last_given, memory_order_acquire);
    uint32_t stage_count;
    create_info_stages(batch->call, index, element->kind, &stage_count);
    /* What has no fingerprint may have the pipeline of a deferred operation. Without shaders there is nothing that the
     * driver's own cache would find sooner. */
    bool may_be_merged = !batch->after_load || element->kind >= PYLAYER_KIND_RAY_TRACING || stage_count == 0 ||
                         fingerprint_may_be_merged(&device->run.seen, element->fingerprint, element->known);
    return (Fetch){may_be_merged, fetched.cell};
}

/* The pipeline exists, or no other cache can help. */
static bool is_settled(VkResult result, VkPipeline pipeline)
{
    return result == VK_ERROR_DEVICE_LOST || (result == VK_SUCCESS && pipeline != VK_NULL_HANDLE);
}

VkResult batch_probe(Batch *batch, uint32_t index, Fetch fetch, VkPipelineCache *probed, uint64_t *duration_ns)
{
    Device *device = batch->call->device;
    VkPipeline *pipeline = &batch->call->pipelines[index];
    if (fetch.alone != VK_NULL_HANDLE) {
        *probed = device->caches.merged;
        VkResult result = batch_create_one(batch, index, fetch.alone, CREATE_BY_PROBE, pipeline, duration_ns);
        device->driver.destroy_pipeline_cache(device->driver.handle, fetch.alone, NULL);
        if (is_settled(result, *pipeline))
            return result;
        fetch = batch_fetch(batch, index, false);
    }
    if (!fetch.may_be_merged && device->run.plan.cells_alone) {
        *probed = VK_NULL_HANDLE;
        VkResult result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_BY_PROBE, pipeline, duration_ns);
        bool nothing_merged = atomic_load_explicit(&device->caches.generation, memory_order_relaxed) == 0;
        if (nothing_merged || is_settled(result, *pipeline))
            return result;
    }
    *probed = device->caches.merged;
    return batch_create_one(batch, index, device->caches.merged, CREATE_BY_PROBE, pipeline, duration_ns);
}

void batch_note_created(const Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    count(&counters_of(&device->run)->totals.pipelines, 1);
    mailbox_stir();
    note_created(&device->run, batch->elements[index].fingerprint, batch->elements[index].known);
}

#define CAPTURES                                                                                                       \
    (uint64_t)(VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |                                                         \
               VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR)

void batch_about_cell(const Batch *batch, uint32_t index, uint8_t flags, uint64_t create_ns, PylayerCell *about)
{
    const Element *element = &batch->elements[index];
    if (element->flags & CAPTURES)
        flags |= PYLAYER_CELL_INTERNALS;
    if (batch->after_load && !atomic_load_explicit(&batch->call->device->caches.loading.refused, memory_order_relaxed))
        flags |= PYLAYER_CELL_AFTER_LOAD;
    if (batch->probed == PROBED_ABSENT)
        flags |= PYLAYER_CELL_NOT_FOUND;
    *about = (PylayerCell){.flags = flags};
    creation_describe(about, batch->call, index, element, create_ns);
}

void batch_note_plain(Batch *batch, uint32_t index, bool from_layer, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.plain, 1);
    count(&counters_of(&device->run)->totals.plain_ns, duration_ns);
    /* A driver that gives no feedback although it was asked may have compiled. Drivers give none about fast links. */
    bool compiled = feedback
                        ? !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT)
                        : device->driver.feedback && batch->elements[index].kind != PYLAYER_KIND_GRAPHICS_FAST_LINKED;
    if (compiled) {
        count(&counters_of(&device->run)->totals.plain_compiled, 1);
        if (batch->plain_compiled++ == 0)
            batch->first_compiled = index;
    }
    if (compiled && batch->app_cache)
        atomic_store(&batch->app_cache->holds_plain, true);
    if (from_layer)
        element_clear_application_hit(&batch->elements[index]);
}

/* Several pipelines may fail in different ways. An error takes precedence over a success code such as
 * VK_PIPELINE_COMPILE_REQUIRED. */
static VkResult worse(VkResult sofar, VkResult result)
{
    if (result == VK_SUCCESS || (sofar < 0 && result > 0))
        return sofar;
    return result;
}

/* EARLY_RETURN_ON_FAILURE: this element and all later ones become VK_NULL_HANDLE, even those already created. */
static void return_early(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = index; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            call->device->driver.destroy_pipeline(call->device->driver.handle, call->pipelines[i], call->allocator);
        call->pipelines[i] = VK_NULL_HANDLE;
        element_clear_feedback(&batch->elements[i]);
    }
}

void batch_create_each(Batch *batch, CreateFn create)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            continue;
        batch->probed = PROBED_NOT;
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
