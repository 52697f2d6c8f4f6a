/* pipelines.c - the commands that create pipelines, in batches, and what they say of each. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

#define UNWRITTEN ((VkPipeline)(uintptr_t)0x2bababab)

typedef struct Batch {
    Point point;
    uint32_t count;
    int slots[MAX_BATCH];
    Build *builds[MAX_BATCH];
    VkPipelineCache cache;
    bool deferred;
} Batch;

static const char *set_base(State *state, Batch *batch, uint32_t index, const char *base)
{
    AnyCreateInfo *info = &batch->builds[index]->info;
    VkPipeline *handle = batch->point == POINT_COMPUTE    ? &info->compute.basePipelineHandle
                         : batch->point == POINT_GRAPHICS ? &info->graphics.basePipelineHandle
                                                          : &info->rays.basePipelineHandle;
    int32_t *number = batch->point == POINT_COMPUTE    ? &info->compute.basePipelineIndex
                      : batch->point == POINT_GRAPHICS ? &info->graphics.basePipelineIndex
                                                       : &info->rays.basePipelineIndex;
    if (base[0] == '#') {
        *number = atoi(base + 1);
        /* VUID-vkCreateGraphicsPipelines-flags-00720 and -00721 */
        bool good = *number >= 0 && (uint32_t)*number < index && batch->builds[*number]->traits.derivable;
        return good ? NULL : "VUID-vkCreateGraphicsPipelines-flags-00720";
    }
    int slot = slot_of(base, 'P');
    if (slot < 0 || !state->pipelines[slot].handle || state->pipelines[slot].wording.point != batch->point)
        return base;
    *handle = state->pipelines[slot].handle;
    return state->pipelines[slot].traits.derivable ? NULL : "VUID-vkCreateGraphicsPipelines-flags-00721";
}

static const char *build_from_binaries(State *state, Batch *batch, uint32_t index, const Words *words, const char *name)
{
    int slot = slot_of(name, 'B');
    const BinarySlot *binaries = slot < 0 ? NULL : &state->binaries[slot];
    /* None at all is as if there were no structure: then the code is needed. */
    if (!binaries || !binaries->complete || binaries->count == 0 || binaries->wording.point != batch->point)
        return name;
    return build_again(state, batch->builds[index], &binaries->wording, FOR_CREATION, binaries, words);
}

static const char *build_at(State *state, Batch *batch, uint32_t index, const Words *words)
{
    const char *binaries = words_value(words, "binaries"), *base = words_value(words, "base");
    batch->slots[index] = words->count ? slot_of(words->word[0], 'P') : -1;
    if (batch->slots[index] < 0)
        return "slot";
    batch->builds[index] = allocate(1, sizeof(Build));
    Build *out = batch->builds[index];
    const char *why = binaries ? build_from_binaries(state, batch, index, words, binaries)
                               : build(state, out, batch->point, words, FOR_CREATION);
    if (why)
        return why;
    /* VUID-vkCreateComputePipelines-pNext-09616 and -09617 */
    if (batch->cache && (out->binary_info.binaryCount || out->traits.captured))
        return "VUID-vkCreateComputePipelines-pNext-09616";
    /* VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587 */
    if (batch->deferred && (out->flags & VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT))
        return "VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587";
    return base && !binaries ? set_base(state, batch, index, base) : NULL;
}

static VkResult create_rays(State *state, Batch *batch, const VkRayTracingPipelineCreateInfoKHR *infos,
                            VkPipeline *pipelines)
{
    const Commands *commands = &state->device->commands;
    VkDeferredOperationKHR operation = VK_NULL_HANDLE;
    if (batch->deferred &&
        commands->create_deferred(state->device->handle, state->device->allocator, &operation) != VK_SUCCESS)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult result = commands->create_rays(state->device->handle, operation, batch->cache, batch->count, infos,
                                            state->device->allocator, pipelines);
    if (!operation)
        return result;
    if (result == VK_OPERATION_DEFERRED_KHR) {
        VkResult join = VK_THREAD_IDLE_KHR;
        while (join == VK_THREAD_IDLE_KHR)
            join = commands->join_deferred(state->device->handle, operation);
        result = commands->deferred_result(state->device->handle, operation);
    } else if (result == VK_OPERATION_NOT_DEFERRED_KHR) {
        result = VK_SUCCESS;
    }
    commands->destroy_deferred(state->device->handle, operation, state->device->allocator);
    return result;
}

typedef union Infos {
    VkComputePipelineCreateInfo compute[MAX_BATCH];
    VkGraphicsPipelineCreateInfo graphics[MAX_BATCH];
    VkRayTracingPipelineCreateInfoKHR rays[MAX_BATCH];
} Infos;

/* One behind the other, as commands want them. */
static void fill_infos(const Batch *batch, Infos *infos)
{
    memset(infos, 0, sizeof *infos);
    for (uint32_t i = 0; i < batch->count; i++) {
        const AnyCreateInfo *info = &batch->builds[i]->info;
        if (batch->point == POINT_COMPUTE)
            memcpy(&infos->compute[i], info, sizeof *infos->compute);
        else if (batch->point == POINT_GRAPHICS)
            memcpy(&infos->graphics[i], info, sizeof *infos->graphics);
        else
            memcpy(&infos->rays[i], info, sizeof *infos->rays);
    }
}

static VkResult create(State *state, Batch *batch, const Infos *infos, VkPipeline *pipelines)
{
    const Device *device = state->device;
    switch (batch->point) {
    case POINT_COMPUTE:
        return vkCreateComputePipelines(device->handle, batch->cache, batch->count, infos->compute, device->allocator,
                                        pipelines);
    case POINT_GRAPHICS:
        return vkCreateGraphicsPipelines(device->handle, batch->cache, batch->count, infos->graphics, device->allocator,
                                         pipelines);
    default:
        return create_rays(state, batch, infos->rays, pipelines);
    }
}

/* Whether anything changed that the program handed in, but for feedback. */
static bool was_changed(const Batch *batch, const Build *before, const Infos *infos)
{
    Infos expected;
    Build now;
    fill_infos(batch, &expected);
    bool changed = memcmp(&expected, infos, sizeof expected) != 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        memcpy(&now, batch->builds[i], sizeof now);
        memcpy(&now.feedback, &before[i].feedback, sizeof now.feedback);
        memcpy(now.stage_feedback, before[i].stage_feedback, sizeof now.stage_feedback);
        changed |= memcmp(&now, &before[i], sizeof now) != 0;
    }
    return changed;
}

/* V valid, H found in the application's cache, B base pipeline used, ? not written, ! bits that do not exist, 0 a valid
 * duration of nothing, - none. */
static void print_feedback(FILE *out, const VkPipelineCreationFeedback *feedback, bool with_duration)
{
    const VkPipelineCreationFeedbackFlags known = 7;
    if (feedback->flags == 0)
        fputc('-', out);
    else if (feedback->flags == POISON)
        fputc('?', out);
    else
        fprintf(out, "%s%s%s%s%s", feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT ? "V" : "",
                feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT ? "H" : "",
                feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_BASE_PIPELINE_ACCELERATION_BIT ? "B" : "",
                feedback->flags & ~known ? "!" : "", with_duration && feedback->duration == 0 ? "0" : "");
}

/* Two pipelines of one wording have the same; how a driver made them may not show. */
static void print_contents(const State *state, const Build *made, VkPipeline pipeline)
{
    if (pipeline && pipeline != UNWRITTEN && made->traits.statistics && !made->binary_info.binaryCount)
        fprintf(state->out, " contents=%016llx", (unsigned long long)statistics_digest(state->device, pipeline));
}

static void print_element(const State *state, const Batch *batch, uint32_t index, VkPipeline pipeline)
{
    const Build *made = batch->builds[index];
    fprintf(state->out, " P%d=%s", batch->slots[index],
            pipeline == UNWRITTEN ? "unwritten"
            : pipeline            ? "set"
                                  : "null");
    if (!made->wants_feedback)
        return;
    fputc(':', state->out);
    print_feedback(state->out, &made->feedback, true);
    for (uint32_t i = 0; i < made->feedback_info.pipelineStageCreationFeedbackCount; i++) {
        fputc(i ? ',' : ':', state->out);
        print_feedback(state->out, &made->stage_feedback[i], false);
    }
}

/* Prints what came of it. */
static void create_and_print(State *state, Batch *batch, VkPipeline *pipelines)
{
    Infos infos;
    Build *before = allocate(batch->count, sizeof *before);
    fill_infos(batch, &infos);
    for (uint32_t i = 0; i < batch->count; i++) {
        memcpy(&before[i], batch->builds[i], sizeof *before);
        pipelines[i] = UNWRITTEN; /* outputs: every one has to be written */
    }
    state->last = create(state, batch, &infos, pipelines);
    fprintf(state->out, "result=%d", state->last);
    for (uint32_t i = 0; i < batch->count; i++)
        print_element(state, batch, i, pipelines[i]);
    for (uint32_t i = 0; i < batch->count; i++)
        print_contents(state, batch->builds[i], pipelines[i]);
    fputs(was_changed(batch, before, &infos) ? " changed=1\n" : "\n", state->out);
    free(before);
}

void pipeline_slot_clear(State *state, PipelineSlot *slot)
{
    vkDestroyPipeline(state->device->handle, slot->handle, state->device->allocator);
    memset(slot, 0, sizeof *slot);
}

static void keep(State *state, const Batch *batch, uint32_t index, VkPipeline pipeline)
{
    PipelineSlot *slot = &state->pipelines[batch->slots[index]];
    pipeline_slot_clear(state, slot);
    *slot = (PipelineSlot){.handle = pipeline == UNWRITTEN ? VK_NULL_HANDLE : pipeline,
                           .serial = ++state->next_serial,
                           .wording = batch->builds[index]->wording,
                           .traits = batch->builds[index]->traits};
}

/* compute|graphics|rays C0|- [deferred] : P0 ... / P1 ... */
void run_pipelines(State *state, Point point, const Words *words, Words *elements, uint32_t count)
{
    Batch batch = {.point = point, .count = count, .deferred = words_value(words, "deferred") != NULL};
    const char *why = count == 0 || words->count < 2 ? "elements" : NULL;
    batch.cache = state->device->cache;
    if (!why && strcmp(words->word[1], "-") != 0) {
        int cache = slot_of(words->word[1], 'C');
        batch.cache = cache < 0 ? VK_NULL_HANDLE : state->caches[cache];
        why = batch.cache ? NULL : words->word[1];
    }
    if (batch.deferred && point != POINT_RAYS)
        why = "deferred";
    for (uint32_t i = 0; !why && i < count; i++)
        why = build_at(state, &batch, i, &elements[i]);
    if (why) {
        skip(state, why);
    } else {
        VkPipeline pipelines[MAX_BATCH];
        create_and_print(state, &batch, pipelines);
        for (uint32_t i = 0; i < count; i++)
            keep(state, &batch, i, pipelines[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        free(batch.builds[i]);
}

/* unpipeline P0 ... */
void run_unpipeline(State *state, const Words *words)
{
    bool any = false;
    for (int i = 1; i < words->count; i++) {
        int slot = slot_of(words->word[i], 'P');
        if (slot < 0 || !state->pipelines[slot].handle)
            continue;
        /* What it was made of stays known, for a key or a look into a cache. */
        vkDestroyPipeline(state->device->handle, state->pipelines[slot].handle, state->device->allocator);
        state->pipelines[slot].handle = VK_NULL_HANDLE;
        state->pipelines[slot].serial = ++state->next_serial;
        any = true;
    }
    if (any)
        fputs("done\n", state->out);
    else
        skip(state, words->word[1]);
}
