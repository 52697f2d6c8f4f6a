/* batch.c - see pipelines.h */
#include <stdlib.h>
#include <string.h>

#include "pipelines/pipelines.h"

/* Returns NULL for a cell, and for a cache that the layer does not merge into: its use needs no lock. */
static SpreadLock *lock_of(Batch *batch, VkPipelineCache cache)
{
    if (cache == batch->call->device->caches.merged)
        return &batch->call->device->caches.merged_lock;
    return batch->app_cache && cache == batch->call->cache ? &batch->app_cache->lock : NULL;
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
    bool stored = purpose == CREATE_FROM_BINARIES || (cache != VK_NULL_HANDLE && purpose != CREATE_IN_CELL);
    Mark mark = mark_pipelines(&device->crash, element, part->count,
                               cache == batch->call->cache ? app_cache_data_id(batch->app_cache) : 0, stored,
                               part->may_compile);
    if (mark || (purpose != CREATE_BY_PROBE && purpose != CREATE_AND_CAPTURE))
        return mark;
    return mark_added(&device->crash, purpose == CREATE_BY_PROBE ? PYLAYER_MARK_PROBE : PYLAYER_MARK_CAPTURE,
                      element->kind, element->fingerprint);
}

/*
 * Returns a number for what the driver is about to create from a cache, if this run has created the same before; 0 if
 * it has not, or if that is not known. What the driver has created three times without harm need not be marked:
 * programs that end while their threads create the same pipelines again would block them. Pipelines with the same
 * fingerprint may have other layouts and render passes, and other data.
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

/* Does what merging into that cache and the crash marker need. */
static VkResult create_part(Batch *batch, VkPipelineCache cache, enum Purpose purpose, const Part *part,
                            uint64_t *duration_ns)
{
    SpreadLock *lock = lock_of(batch, cache);
    if (lock && !spread_lock_read(lock, part->may_compile)) {
        if (!part->may_compile) {
            memset(part->pipelines, 0, part->count * sizeof *part->pipelines);
            return VK_PIPELINE_COMPILE_REQUIRED_EXT;
        }
        lock = NULL;
        cache = VK_NULL_HANDLE;
    }
    uint64_t again = number_again(batch, cache, purpose, part);
    unsigned known = again ? fingerprint_known(&batch->call->device->run.seen, again) : 0;
    Mark mark = known & SEEN_HARMLESS_TWICE ? NULL : mark_call(batch, cache, purpose, part);
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
        fingerprints_note(&batch->call->device->run.seen, again,
                          known & SEEN_HARMLESS ? SEEN_HARMLESS_TWICE : SEEN_HARMLESS);
    if (lock)
        spread_unlock_read(lock, part->may_compile);
    return result;
}

VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, enum Purpose purpose,
                          uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    Element *element = &batch->elements[index];
    AnyCreateInfo info;
    static const uint64_t sets[] = {[CREATE_BY_PROBE] = FAIL_ON_COMPILE, [CREATE_AND_CAPTURE] = CAPTURE_DATA};
    const uint64_t set = sets[purpose];
    Change change = {.set = set, .alone = true, .feedback = true};
    if (purpose == CREATE_FROM_BINARIES) {
        change.clear = FAIL_ON_COMPILE; /* VUID-vkCreateGraphicsPipelines-binaryCount-09622 */
        change.binaries = &batch->binaries;
    }
    if (!element_build(element, call, index, change, &info))
        return set ? VK_PIPELINE_COMPILE_REQUIRED_EXT : VK_ERROR_OUT_OF_HOST_MEMORY;
    call->pipelines[index] = VK_NULL_HANDLE;
    bool may_compile = !((element->flags | set) & FAIL_ON_COMPILE) && purpose != CREATE_FROM_BINARIES;
    Part part = {index, 1, &info, &call->pipelines[index], may_compile};
    VkResult result = create_part(batch, cache, purpose, &part, duration_ns);
    bool none = result == VK_SUCCESS && call->pipelines[index] == VK_NULL_HANDLE && purpose >= CREATE_BY_PROBE;
    return none ? VK_INCOMPLETE : result;
}

VkResult batch_create_together(Batch *batch, uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    size_t stride = create_info_size(call->point);
    char *infos = malloc(call->count * stride);
    Part all = {0, call->count, infos ? infos : call->infos, call->pipelines, false};
    for (uint32_t i = 0; i < call->count; i++) {
        all.may_compile |= !(batch->elements[i].flags & FAIL_ON_COMPILE);
        AnyCreateInfo changed;
        element_build(&batch->elements[i], call, i, (Change){.feedback = true}, &changed);
        if (infos)
            memcpy(infos + i * stride, &changed, stride);
    }
    VkResult result = create_part(batch, call->cache, CREATE_AS_ASKED, &all, duration_ns);
    free(infos);
    return result;
}

void batch_note_created(const Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    count(&counters_of(&device->run)->totals.pipelines, 1);
    note_created(&device->run, batch->elements[index].fingerprint, batch->elements[index].known);
}

void batch_about_cell(const Batch *batch, uint32_t index, uint64_t create_ns, PylayerCell *about)
{
    *about = (PylayerCell){0};
    creation_describe(about, batch->call, index, &batch->elements[index], create_ns);
}

bool batch_note_plain(const Batch *batch, uint32_t index, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.plain, 1);
    count(&counters_of(&device->run)->totals.plain_ns, duration_ns);
    /* A driver that gives no feedback although it was asked may have compiled. Drivers give none about fast links. */
    return feedback ? !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT)
                    : device->driver.feedback && batch->elements[index].kind != PYLAYER_KIND_GRAPHICS_FAST_LINKED;
}

void batch_note_hit(const Batch *batch, uint32_t index, uint64_t duration_ns)
{
    Counters *counters = counters_of(&batch->call->device->run);
    batch_note_created(batch, index);
    count(&counters->totals.kind_hits[batch->elements[index].kind], 1);
    count(&counters->totals.hit_ns, duration_ns);
    if (duration_ns > PYLAYER_SLOW_NS)
        creation_tell(batch, index, PYLAYER_OUTCOME_SLOW, duration_ns, 1);
}
