/*
 * carrier_binaries.c - creates pipelines by their keys (binaries.c) if the application passed no VkPipelineCache.
 * carrier_cells.c creates those that cannot be made from binaries.
 */
#include "device/device.h"
#include "pipelines/carrier_binaries.h"

#include "binaries/create_by_key.h"
#include "pipelines/carrier_cells.h"

static bool keep(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key, uint8_t flags, uint64_t create_ns)
{
    PylayerCell about;
    batch_about_cell(batch, index, flags, create_ns, &about);
    return binaries_keep(&batch->call->device->binaries, batch->call, index, &batch->elements[index], key, &about);
}

static bool capture(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key, VkPipeline *pipeline,
                    uint64_t *duration_ns)
{
    PylayerCell about;
    batch_about_cell(batch, index, 0, 0, &about);
    return binaries_capture(&batch->call->device->binaries, batch->call, index, &batch->elements[index], key, &about,
                            pipeline, duration_ns);
}

/* The driver's own cache returned the pipeline within driver_ns. The layer cannot tell which pipelines come back, because
 * policy reads binaries. So the limit holds for a program's first run, and later runs, which have a kept plan, adopt the
 * rest. Without a limit, the first run on RADV took 2.16 times as long as the driver alone. */
static bool adopt(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key, uint64_t driver_ns)
{
    Device *device = batch->call->device;
    if (store_has_plan(&device->store))
        return keep(batch, index, key, PYLAYER_CELL_ADOPTED, driver_ns);
    Adoption adoption;
    if (!adoption_begin(&device->caches.adoption, driver_ns, &adoption))
        return false;
    bool adopted = keep(batch, index, key, PYLAYER_CELL_ADOPTED, driver_ns);
    adoption_end(&device->caches.adoption, &adoption);
    return adopted;
}

/* The index lacks the pipeline, but cells that were stored earlier or the driver's own cache may have it. */
static bool probe_without_binaries(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    if (!device->driver.cache_control || call_is_off(&device->crash.added_calls, PYLAYER_MARK_PROBE, element->kind))
        return false;
    VkPipelineCache probed;
    uint64_t duration = 0;
    VkResult result = batch_probe(batch, index, batch_fetch(batch, index, true), &probed, &duration);
    if (result != VK_SUCCESS || call->pipelines[index] == VK_NULL_HANDLE)
        return false;
    const VkPipelineCreationFeedbackEXT *feedback = element_feedback(element);
    bool in_cells =
        probed != VK_NULL_HANDLE &&
        (!feedback || (feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT));
    element_clear_application_hit(element);
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.hit_ns, duration);
    bool adopted = !in_cells && device->run.plan.adopt && adopt(batch, index, key, duration);
    count(adopted ? &counters_of(&device->run)->totals.adopted : &counters_of(&device->run)->kind_hits[element->kind],
          1);
    return true;
}

static void note_compiled(Batch *batch, uint32_t index, uint64_t duration_ns)
{
    Device *device = batch->call->device;
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.compiled, 1);
    count(&counters_of(&device->run)->totals.compile_ns, duration_ns);
    element_clear_application_hit(&batch->elements[index]);
}

/* The driver compiled the pipeline but does not have its binaries, so the layer compiles it again, with CAPTURE_DATA.
 * Later pipelines of this kind are captured at once. */
static void capture_belatedly(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipeline again = VK_NULL_HANDLE;
    uint64_t duration = 0;
    /* This concerns one pipeline, so it must not mark the whole kind. */
    SavedFeedback saved;
    if (!element_flags_can_change(element, call, index) || !feedback_save(&saved, element))
        return;
    atomic_fetch_or(&device->binaries.kinds_captured, 1u << element->kind);
    bool captured = capture(batch, index, key, &again, &duration);
    feedback_restore(&saved, element);
    if (captured)
        device->driver.destroy_pipeline(device->driver.handle, again, call->allocator);
    else /* the driver can create it, but not capture it */
        call_switch_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind);
}

static VkResult compile_for_binaries(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    VkPipeline *pipeline = &call->pipelines[index];
    uint64_t duration = 0;
    if (binaries_want_capture(&device->binaries, element) && capture(batch, index, key, pipeline, &duration)) {
        note_compiled(batch, index, duration);
        return VK_SUCCESS;
    }
    VkResult result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_AS_ASKED, pipeline, &duration);
    if (result != VK_SUCCESS) {
        count(&counters_of(&device->run)->totals.failed, 1);
        creation_tell(batch, index, PYLAYER_OUTCOME_FAILED, duration, 1);
        return result;
    }
    note_compiled(batch, index, duration);
    if (!keep(batch, index, key, 0, duration)) {
        creation_tell(batch, index, PYLAYER_OUTCOME_COMPILED, duration, 1);
        capture_belatedly(batch, index, key);
    }
    return VK_SUCCESS;
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
    if (!element->suspect && probe_without_binaries(batch, index, &key))
        return VK_SUCCESS;
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(&device->run)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return compile_for_binaries(batch, index, &key);
}

VkResult carrier_binaries_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    for (uint32_t i = 0; i < call->count; i++)
        call->pipelines[i] = VK_NULL_HANDLE;
    batch_create_each(batch, create_by_key);
    if (call->probe_after_load)
        *call->probe_after_load = batch->after_load;
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}
