/*
 * creations.c - tells policy about created pipelines, for the timeline of the run (docs/internals/format.md,
 * 'Timelines'). Hits are only counted: one message would cost more than many hits.
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
    name(call->device, about, stages, stage_count);
    object_names_describe(&call->device->shaders, about, stages);
}

void creation_tell(const Batch *batch, uint32_t index, enum PylayerOutcome outcome, uint64_t create_ns,
                   uint32_t pipelines)
{
    Device *device = batch->call->device;
    if (!device->run.plan.tell_creations)
        return;
    PylayerCell about = {0};
    creation_describe(&about, batch->call, index, &batch->elements[index], create_ns);
    about.pipelines = pipelines;
    run_tell_creation(&device->run, &about, outcome);
}

/* Adds a call to those of this thread right before it that were too short to be told. Returns true if together they
 * are not: then *create_ns and *pipelines are theirs. */
static bool is_told(const Device *device, uint64_t *create_ns, uint32_t *pipelines)
{
    static _Thread_local struct {
        uint64_t serial, until, create_ns;
        uint32_t pipelines;
    } untold;
    const uint64_t now = now_ns();
    if (untold.serial != device->run.serial || now - *create_ns > untold.until + FRAME_GAP_NS)
        untold.create_ns = untold.pipelines = 0;
    untold.serial = device->run.serial;
    untold.until = now;
    *create_ns = untold.create_ns += *create_ns;
    *pipelines = untold.pipelines += *pipelines;
    if (untold.create_ns < PYLAYER_TOLD_NS)
        return false;
    untold.create_ns = untold.pipelines = 0;
    return true;
}

void creation_tell_passed(const PipelineCall *call, VkResult result, uint64_t create_ns)
{
    uint32_t pipelines = call->count;
    if (!create_ns || !pipelines || !is_told(call->device, &create_ns, &pipelines))
        return;
    Element element;
    PylayerCell about = {0};
    element_read(&element, call, 0);
    element.fingerprint = fingerprint_of(&call->device->shaders, call, 0, element.kind);
    creation_describe(&about, call, 0, &element, create_ns);
    element_release(&element);
    about.pipelines = pipelines;
    /* The driver still writes the handles of a deferred operation. */
    if (result != VK_OPERATION_DEFERRED_KHR)
        object_names_note(&call->device->shaders, call->pipelines[0], element.fingerprint);
    run_tell_creation(&call->device->run, &about, result < 0 ? PYLAYER_OUTCOME_FAILED : PYLAYER_OUTCOME_PASSED);
}
