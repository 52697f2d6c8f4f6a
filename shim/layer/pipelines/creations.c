/*
 * creations.c - tells policy about created pipelines, for the timeline of the run (docs/internals/format.md, 'Timelines').
 * Hits are only counted: one message would cost more than many hits.
 */
#include <string.h>

#include "frames/frames.h"
#include "pipelines/pipelines.h"
#include "process/process.h"

/* Fills in what people recognize a pipeline by. */
static void name(Device *device, PylayerCell *about, const VkPipelineShaderStageCreateInfo *stages,
                 uint32_t stage_count)
{
    const char *entry_point = NULL;
    for (uint32_t i = 0; i < stage_count; i++) {
        about->stages |= stages[i].stage;
        entry_point = stages[i].pName;
        if (i < PYLAYER_SHADERS)
            about->shaders[i] =
                (PylayerShader){.code = shader_code_of_stage(&device->shaders, &stages[i]), .stage = stages[i].stage};
    }
    if (entry_point)
        strncpy(about->entry_point, entry_point, sizeof about->entry_point - 1);
}

void creation_describe(PylayerCell *about, const PipelineCall *call, uint32_t index, const Element *element,
                       uint64_t create_ns)
{
    uint32_t stage_count;
    const VkPipelineShaderStageCreateInfo *stages = create_info_stages(call, index, element->kind, &stage_count);
    about->kind = (uint8_t)element->kind;
    about->fingerprint = element->fingerprint;
    about->create_ns = create_ns;
    about->start_ns = now_ns() - create_ns;
    about->thread = thread_id();
    about->pipelines = 1;
    frames_note_pipeline(&call->device->run, create_ns);
    name(call->device, about, stages, stage_count);
    object_names_describe(&call->device->shaders, about, stages);
}

void creation_tell(const Batch *batch, uint32_t index, enum PylayerOutcome outcome, uint64_t create_ns,
                   uint32_t pipelines)
{
    Device *device = batch->call->device;
    if (!device->run.plan.tell_creations) {
        frames_note_pipeline(&device->run, create_ns);
        return;
    }
    PylayerCell about = {0};
    creation_describe(&about, batch->call, index, &batch->elements[index], create_ns);
    about.pipelines = pipelines;
    run_tell_creation(&device->run, &about, outcome);
}

void creation_tell_passed(const PipelineCall *call, VkResult result, uint64_t create_ns)
{
    if (create_ns < PYLAYER_TOLD_NS || call->count == 0)
        return;
    if (!call->device->run.plan.tell_creations) {
        frames_note_pipeline(&call->device->run, create_ns);
        return;
    }
    Element element;
    PylayerCell about = {0};
    element_read(&element, call, 0);
    element.fingerprint = fingerprint_of(&call->device->shaders, call, 0, element.kind);
    creation_describe(&about, call, 0, &element, create_ns);
    element_release(&element);
    about.pipelines = call->count;
    /* The driver still writes the handles of a deferred operation. */
    if (result != VK_OPERATION_DEFERRED_KHR)
        object_names_note(&call->device->shaders, call->pipelines[0], element.fingerprint);
    run_tell_creation(&call->device->run, &about, result < 0 ? PYLAYER_OUTCOME_FAILED : PYLAYER_OUTCOME_PASSED);
}
