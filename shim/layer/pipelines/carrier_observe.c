/*
 * carrier_observe.c - passes the application's call unchanged, and times and counts it, for users who want to know
 * what compiles.
 *
 * The driver gets the application's cache, flags and device. If the application's own device has creation feedback, the
 * layer asks for it in addition to what the application chained. Feedback reports what the driver did and changes
 * nothing.
 */
#include "device/device.h"
#include "pipelines/carrier_observe.h"

/* Counts a hit in the application's own cache, if the driver's feedback reports one. */
static void note_own_hit(Batch *batch, uint32_t index)
{
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(&batch->elements[index]);
    if (!feedback || !(feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT))
        return;
    count(&counters_of(&batch->call->device->run)->kind_hits[batch->elements[index].kind], 1);
    count(&counters_of(&batch->call->device->run)->totals.application_hits, 1);
}

VkResult carrier_observe_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    uint64_t duration = 0;
    VkResult result = batch_create_together(batch, call->cache, &duration);
    for (uint32_t i = 0; i < call->count; i++) {
        bool must_not_compile = batch->elements[i].flags & FAIL_ON_COMPILE;
        if (call->pipelines[i] == VK_NULL_HANDLE) {
            count(must_not_compile ? &counters_of(&device->run)->totals.compile_required
                                   : &counters_of(&device->run)->totals.failed,
                  1);
        } else if (batch->elements[i].from_binaries) {
            count(&counters_of(&device->run)->totals.passed, 1); /* there was nothing to compile */
        } else {
            batch_note_plain(batch, i, i == 0 ? duration : 0);
            note_own_hit(batch, i);
        }
    }
    creation_tell_plain(batch, duration);
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return result;
}
