/* create.c - vkCreate*Pipelines without a deferred operation, by the device's mode. Results are those that the driver
 * would give without the layer (Vulkan, 'Multiple Pipeline Creation'). */
#include <stdlib.h>

#include "frames/frames.h"
#include "pipelines/pipelines.h"
#include "process/process.h"

/* Calls with up to this many create infos need no heap. Applications rarely pass more than one. */
#define STACK_ELEMENTS 4

/* Several pipelines may fail in different ways. An error takes precedence over a success code such as
 * VK_PIPELINE_COMPILE_REQUIRED. */
static VkResult worse(VkResult sofar, VkResult result)
{
    if (result == VK_SUCCESS || (sofar < 0 && result > 0))
        return sofar;
    return result;
}

/* EARLY_RETURN_ON_FAILURE: this element and all later ones become VK_NULL_HANDLE, even those already created. */
static void return_early(const Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = index; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            call->device->driver.destroy_pipeline(call->device->driver.handle, call->pipelines[i], call->allocator);
        call->pipelines[i] = VK_NULL_HANDLE;
        element_clear_feedback(&batch->elements[i]);
    }
}

static VkResult create_each(Batch *batch, VkResult (*create)(Batch *batch, uint32_t index))
{
    PipelineCall *call = batch->call;
    VkResult all = VK_SUCCESS;
    for (uint32_t i = 0; i < call->count; i++) {
        VkResult result = create(batch, i);
        all = worse(all, result);
        if (result == VK_SUCCESS)
            continue;
        call->pipelines[i] = VK_NULL_HANDLE;
        if (batch->elements[i].flags & EARLY_RETURN) {
            return_early(batch, i);
            break;
        }
    }
    return all;
}

/* Passes the application's call unchanged, and times and counts it, for users who want to know what compiles. If the
 * application's own device has creation feedback, the layer asks for it in addition to what the application chained.
 * Feedback reports what the driver did and changes nothing. */
static VkResult observe(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Counters *counters = counters_of(&device->run);
    uint64_t duration = 0;
    uint32_t compiled = 0, first = 0;
    VkResult result = batch_create_together(batch, &duration);
    for (uint32_t i = 0; i < call->count; i++) {
        const Element *element = &batch->elements[i];
        const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
        if (call->pipelines[i] == VK_NULL_HANDLE) {
            count(element->flags & FAIL_ON_COMPILE ? &counters->totals.compile_required : &counters->totals.failed, 1);
        } else if (element->from_binaries) {
            count(&counters->totals.passed, 1); /* there was nothing to compile */
        } else if (batch_note_plain(batch, i, i == 0 ? duration : 0)) {
            first = compiled++ ? first : i;
        } else if (feedback) {
            count(&counters->totals.kind_hits[element->kind], 1);
            count(&counters->totals.application_hits, 1);
        }
    }
    count(&counters->totals.plain_compiled, compiled);
    /* Without creation feedback, only the duration suggests that the driver compiled. */
    if (compiled)
        creation_tell(batch, first, PYLAYER_OUTCOME_PLAIN, duration, compiled);
    else if (!device->driver.feedback && duration > PYLAYER_TOLD_NS)
        creation_tell(batch, 0, PYLAYER_OUTCOME_PLAIN, duration, call->count);
    return result;
}

static VkResult create_by_mode(Batch *batch, int mode)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    bool untouchable = false;
    for (uint32_t i = 0; i < call->count; i++)
        untouchable |= element_is_untouchable(&batch->elements[i]);
    batch->app_cache = app_cache_find(&device->caches, call->cache);
    if (mode == PYLAYER_MODE_OBSERVE)
        return observe(batch);
    if (untouchable || needs_internal_cache(call))
        return pass_pipelines(call);
    for (uint32_t i = 0; i < call->count; i++)
        batch->elements[i].blocked =
            blocks_pipeline(&device->crash, batch->elements[i].fingerprint, batch->elements[i].kind);
    bool by_key = mode == PYLAYER_MODE_BINARIES && call->cache == VK_NULL_HANDLE;
    return create_each(batch, by_key ? mode_binaries_create : mode_cells_create);
}

/* Notes what was created, and releases what a changed copy of the create infos needed. */
static void end(const Batch *batch, uint64_t began_ns)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    const uint64_t each_ns = began_ns ? (now_ns() - began_ns) / call->count : 0;
    for (uint32_t i = 0; i < call->count; i++) {
        Element *element = &batch->elements[i];
        element_release(element);
        if (began_ns && call->pipelines[i] != VK_NULL_HANDLE)
            state_note_pipeline(&device->state, call, i, element, each_ns);
        if (device->driver.set_object_name)
            object_names_note(&device->shaders, call->pipelines[i], element->fingerprint);
        if (element->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR && call->pipelines[i] != VK_NULL_HANDLE)
            fingerprint_note_library(&device->shaders, call->pipelines[i], element->fingerprint);
    }
}

static VkResult create(const PipelineCall *asked)
{
    PipelineCall call = *asked;
    int mode = atomic_load_explicit(&call.device->run.mode, memory_order_relaxed);
    if (mode == PYLAYER_MODE_OFF || call.deferred != VK_NULL_HANDLE || call.count == 0 || process_is_forked_child())
        return pass_pipelines(&call);
    Element few[STACK_ELEMENTS], *heap = NULL;
    if (call.count > STACK_ELEMENTS && !(heap = malloc(call.count * sizeof *heap)))
        return pass_pipelines(&call);
    Batch batch = {.call = &call, .elements = heap ? heap : few};
    for (uint32_t i = 0; i < call.count; i++) {
        call.pipelines[i] = VK_NULL_HANDLE;
        element_read(&batch.elements[i], &call, i);
        batch.elements[i].fingerprint = fingerprint_of(&call.device->shaders, &call, i, batch.elements[i].kind);
    }
    const uint64_t began_ns = call.device->state.on ? now_ns() : 0;
    VkResult result = create_by_mode(&batch, mode);
    end(&batch, began_ns);
    free(heap);
    return result;
}

VkResult pipelines_create(const PipelineCall *asked)
{
    const uint64_t began_ns = frames_begin_pipelines();
    VkResult result = create(asked);
    frames_end_pipelines(began_ns);
    return result;
}

bool needs_internal_cache(const PipelineCall *call)
{
    const Device *device = call->device;
    return call->cache == VK_NULL_HANDLE && atomic_load_explicit(&device->binaries.app_keeps, memory_order_relaxed);
}
