/*
 * carrier_binaries.c - creates pipelines by their keys (binaries.c) if the application passed no VkPipelineCache.
 * carrier_cells.c creates those that cannot be made from binaries.
 */
#include "device/device.h"
#include "pipelines/carrier_binaries.h"

#include "binaries/create_by_key.h"
#include "pipelines/carrier_cells.h"

/* Compiles the pipeline and keeps its binaries. Returns false if the driver cannot create it with CAPTURE_DATA, or if a
 * process died over that. What is stored stays in use then. */
static bool capture(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    if (call_is_off(&device->crash.added_calls, PYLAYER_MARK_CAPTURE, element->kind))
        return false;
    uint64_t duration = 0;
    PylayerCell about;
    batch_about_cell(batch, index, 0, &about);
    if (!binaries_capture(&device->binaries, batch->call, index, element, key, &about, &batch->call->pipelines[index],
                          &duration))
        return false;
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.compiled, 1);
    count(&counters_of(&device->run)->totals.compile_ns, duration);
    element_clear_application_hit(element);
    return true;
}

static VkResult create_by_key(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipelineBinaryKeyKHR key;
    if (!binaries_key(&device->binaries, call, index, element, &key))
        return carrier_cells_create_one(batch, index);
    VkResult result;
    uint64_t duration = 0;
    if (!element->suspect &&
        binaries_create(&device->binaries, call, index, element, &key, &call->pipelines[index], &result, &duration)) {
        if (result != VK_SUCCESS)
            return result;
        batch_note_created(batch, index);
        Counters *counters = counters_of(&device->run);
        count(&counters->kind_hits[element->kind], 1);
        count(&counters->totals.binary_hits, 1);
        count(&counters->totals.hit_ns, duration);
        creation_tell_hit(batch, index, duration);
        return VK_SUCCESS;
    }
    if (call->extent == CREATE_FOUND)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(&device->run)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return capture(batch, index, &key) ? VK_SUCCESS : carrier_cells_create_one(batch, index);
}

VkResult carrier_binaries_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    batch_create_each(batch, create_by_key);
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}
