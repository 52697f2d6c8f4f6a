/* pipelines.c - the commands that create pipelines, in batches, and what they say of each. */
#include "build.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define UNWRITTEN ((VkPipeline)(uintptr_t)0x2bababab)

typedef union Infos {
    VkComputePipelineCreateInfo compute[MAX_BATCH];
    VkGraphicsPipelineCreateInfo graphics[MAX_BATCH];
    VkRayTracingPipelineCreateInfoKHR rays[MAX_BATCH];
} Infos;

/* All that a deferred operation may read until it is complete. */
typedef struct Batch {
    Point point;
    uint32_t count, joiners;
    int slots[MAX_BATCH];
    Build *builds[MAX_BATCH], *before;
    Infos infos;
    VkPipeline pipelines[MAX_BATCH];
    VkPipelineCache cache;
    bool deferred;
    VkDeferredOperationKHR operation; /* VK_NULL_HANDLE with `deferred`: one of its own */
    VkResult begin;                   /* what the command returned */
} Batch;

/* What `operation O0` made, with the call that is pending in it, and the thread that joins beside. */
typedef struct Operation {
    const Device *device;
    VkDeferredOperationKHR handle;
    Batch *pending;
    pthread_t joiner;
    bool beside;
} Operation;

static const char *read_base(State *state, Batch *batch, uint32_t index, const char *base)
{
    AnyCreateInfo *info = &batch->builds[index]->info;
    if (base[0] == '#') {
        int32_t number = atoi(base + 1);
        set_base(info, batch->point, VK_NULL_HANDLE, number);
        /* VUID-vkCreateGraphicsPipelines-flags-00720 and -00721 */
        bool good = number >= 0 && (uint32_t)number < index && batch->builds[number]->traits.derivable;
        return good ? NULL : "VUID-vkCreateGraphicsPipelines-flags-00720";
    }
    int slot = slot_of(base, 'P');
    if (slot < 0 || !state->pipelines[slot].handle || state->pipelines[slot].wording.point != batch->point)
        return base;
    set_base(info, batch->point, state->pipelines[slot].handle, -1);
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
    return base && !binaries ? read_base(state, batch, index, base) : NULL;
}

/* ---- deferred operations ------------------------------------------------------------------------------------------ */

static void *join_beside(void *argument)
{
    const Operation *operation = argument;
    allocator_allow_thread();
    return (void *)(intptr_t)join_to_the_end(operation->device, operation->handle);
}

static Operation *operation_named(const State *state, const char *word)
{
    int slot = slot_of(word, 'O');
    return slot < 0 ? NULL : state->operations[slot];
}

static bool is_pending(const Operation *operation)
{
    return operation && operation->pending && operation->pending->begin == VK_OPERATION_DEFERRED_KHR;
}

/* operation O0 */
const char *run_operation(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'O');
    if (slot < 0 || state->operations[slot] || !state->device->has[RAYS])
        return words->word[1];
    Operation *made = state->operations[slot] = allocate(1, sizeof *made);
    made->device = state->device;
    must(state->device->commands.create_deferred(state->device->handle, state->device->allocator, &made->handle),
         "vkCreateDeferredOperationKHR");
    return done;
}

/* unoperation O0 */
const char *run_unoperation(State *state, const Words *words)
{
    Operation *operation = operation_named(state, words->word[1]);
    if (!operation || operation->pending)
        return words->word[1];
    state->device->commands.destroy_deferred(state->device->handle, operation->handle, state->device->allocator);
    state->operations[slot_of(words->word[1], 'O')] = NULL;
    free(operation);
    return done;
}

/* join O0 [beside]: to the end, here or in a thread. An operation that is complete, too. */
const char *run_join(State *state, const Words *words)
{
    Operation *operation = operation_named(state, words->word[1]);
    if (!operation || (operation->pending && !is_pending(operation)))
        return words->word[1];
    operation->beside = words_value(words, "beside") != NULL;
    if (!operation->beside)
        fprintf(state->out, "join=%d result=%d\n", join_to_the_end(state->device, operation->handle),
                operation->pending ? VK_SUCCESS
                                   : state->device->commands.deferred_result(state->device->handle, operation->handle));
    else if (pthread_create(&operation->joiner, NULL, join_beside, operation))
        die("no more threads");
    return operation->beside ? done : NULL;
}

/* await O0: asks for the result until there is one, and says which pipelines are there then. */
const char *run_await(State *state, const Words *words)
{
    const Operation *operation = operation_named(state, words->word[1]);
    VkResult result = VK_NOT_READY;
    if (!is_pending(operation))
        return words->word[1];
    while (result == VK_NOT_READY) {
        result = state->device->commands.deferred_result(state->device->handle, operation->handle);
        sched_yield();
    }
    for (uint32_t i = 0; i < operation->pending->count; i++)
        fprintf(state->out, "P%d=%s%c", operation->pending->slots[i], operation->pending->pipelines[i] ? "set" : "null",
                i + 1 < operation->pending->count ? ' ' : '\n');
    return NULL;
}

/* ---- calls ---------------------------------------------------------------------------------------------------------- */

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

static VkResult create(const State *state, Batch *batch)
{
    const Device *device = state->device;
    switch (batch->point) {
    case POINT_COMPUTE:
        return vkCreateComputePipelines(device->handle, batch->cache, batch->count, batch->infos.compute,
                                        device->allocator, batch->pipelines);
    case POINT_GRAPHICS:
        return vkCreateGraphicsPipelines(device->handle, batch->cache, batch->count, batch->infos.graphics,
                                         device->allocator, batch->pipelines);
    default:
        return device->commands.create_rays(device->handle, batch->operation, batch->cache, batch->count,
                                            batch->infos.rays, device->allocator, batch->pipelines);
    }
}

/* Whether anything changed that the program handed in, but for feedback. */
static bool was_changed(const Batch *batch)
{
    Infos expected;
    Build now;
    const Build *before = batch->before;
    fill_infos(batch, &expected);
    bool changed = memcmp(&expected, &batch->infos, sizeof expected) != 0;
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

void pipeline_slot_clear(State *state, PipelineSlot *slot)
{
    vkDestroyPipeline(state->device->handle, slot->handle, state->device->allocator);
    memset(slot, 0, sizeof *slot);
}

static void keep(State *state, const Batch *batch, uint32_t index)
{
    PipelineSlot *slot = &state->pipelines[batch->slots[index]];
    VkPipeline pipeline = batch->pipelines[index];
    pipeline_slot_clear(state, slot);
    *slot = (PipelineSlot){.handle = pipeline == UNWRITTEN ? VK_NULL_HANDLE : pipeline,
                           .serial = ++state->next_serial,
                           .wording = batch->builds[index]->wording,
                           .traits = batch->builds[index]->traits};
}

/* Whoever reads it later than Vulkan allows reads garbage. */
static void batch_free(Batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->builds[i])
            memset(batch->builds[i], 0xa5, sizeof *batch->builds[i]);
        free(batch->builds[i]);
    }
    free(batch->before);
    memset(batch, 0xa5, sizeof *batch);
    free(batch);
}

static void begin(const State *state, Batch *batch)
{
    batch->before = allocate(batch->count, sizeof *batch->before);
    fill_infos(batch, &batch->infos);
    for (uint32_t i = 0; i < batch->count; i++) {
        memcpy(&batch->before[i], batch->builds[i], sizeof *batch->before);
        batch->pipelines[i] = UNWRITTEN; /* outputs: every one has to be written */
    }
    const Device *device = state->device;
    if (batch->deferred && !batch->operation &&
        device->commands.create_deferred(device->handle, device->allocator, &batch->operation) != VK_SUCCESS)
        batch->begin = VK_ERROR_OUT_OF_HOST_MEMORY;
    else
        batch->begin = create(state, batch);
}

/* Prints what came of it, keeps it, and frees the batch. incomplete: no thread has completed the operation. */
static void finish(State *state, Batch *batch, VkResult result, bool named, bool incomplete)
{
    state->last = result;
    fprintf(state->out, "result=%d", result);
    if (named)
        fprintf(state->out, " begin=%d%s", batch->begin, incomplete ? " incomplete=1" : "");
    for (uint32_t i = 0; i < batch->count; i++)
        print_element(state, batch, i, batch->pipelines[i]);
    for (uint32_t i = 0; i < batch->count; i++)
        print_contents(state, batch->builds[i], batch->pipelines[i]);
    fputs(was_changed(batch) ? " changed=1\n" : "\n", state->out);
    for (uint32_t i = 0; i < batch->count; i++)
        keep(state, batch, i);
    batch_free(batch);
}

/* With `deferred` alone in an operation of its own, which is completed here. */
static void begin_and_finish(State *state, Batch *batch, bool named)
{
    const Device *device = state->device;
    bool incomplete = false;
    begin(state, batch);
    VkResult result = batch->begin == VK_OPERATION_NOT_DEFERRED_KHR ? VK_SUCCESS : batch->begin;
    if (result == VK_OPERATION_DEFERRED_KHR) {
        incomplete = !join_with_threads(device, batch->operation, batch->joiners);
        result = device->commands.deferred_result(device->handle, batch->operation);
    }
    if (batch->deferred && !named)
        device->commands.destroy_deferred(device->handle, batch->operation, device->allocator);
    finish(state, batch, result, named, incomplete);
}

/* finish O0 [unasked]: of a pending call that was joined what came of it */
const char *run_finish(State *state, const Words *words)
{
    Operation *operation = operation_named(state, words->word[1]);
    Batch *batch = operation ? operation->pending : NULL;
    if (!batch)
        return words->word[1];
    VkResult result = batch->begin == VK_OPERATION_NOT_DEFERRED_KHR ? VK_SUCCESS : batch->begin;
    if (result == VK_OPERATION_DEFERRED_KHR)
        result = words_value(words, "unasked")
                     ? VK_SUCCESS
                     : state->device->commands.deferred_result(state->device->handle, operation->handle);
    if (operation->beside)
        pthread_join(operation->joiner, NULL);
    operation->beside = false;
    operation->pending = NULL;
    finish(state, batch, result, true, false);
    return NULL;
}

/* By its name what drivers keep of an operation that nobody completes is known for no leak. */
__attribute__((noinline)) static void leave_pending(State *state, Operation *operation, Batch *batch)
{
    operation->pending = batch;
    begin(state, batch);
}

static const char *read_call(const State *state, Batch *batch, const Words *words, Operation **operation)
{
    const char *deferred = words_value(words, "deferred");
    batch->deferred = deferred != NULL;
    batch->joiners = words_number(words, "joiners", 1);
    batch->cache = objects.cache;
    *operation = operation_named(state, deferred);
    if (batch->count == 0 || words->count < 2)
        return "elements";
    if (strcmp(words->word[1], "-") != 0) {
        int cache = slot_of(words->word[1], 'C');
        batch->cache = cache < 0 ? VK_NULL_HANDLE : state->caches[cache];
        if (!batch->cache)
            return words->word[1];
    }
    if (deferred && (batch->point != POINT_RAYS || (*deferred && (!*operation || (*operation)->pending))))
        return "deferred";
    batch->operation = *operation ? (*operation)->handle : VK_NULL_HANDLE;
    return NULL;
}

/* compute|graphics|rays C0|- [deferred] : P0 ... / P1 ...
 * rays C0|- deferred=O0 [joiners=THREADS|pending] : ...           pending: `join`, `await` and `finish` follow */
const char *run_pipelines(State *state, Point point, const Words *words, Words *elements, uint32_t count)
{
    Operation *operation;
    Batch *batch = allocate(1, sizeof *batch);
    batch->point = point;
    batch->count = count;
    const char *why = read_call(state, batch, words, &operation);
    for (uint32_t i = 0; !why && i < count; i++)
        why = build_at(state, batch, i, &elements[i]);
    if (why) {
        batch_free(batch);
        return why;
    }
    if (operation && words_value(words, "pending")) {
        leave_pending(state, operation, batch);
        return done;
    }
    begin_and_finish(state, batch, operation != NULL);
    return NULL;
}

/* unpipeline P0 ... */
const char *run_unpipeline(State *state, const Words *words)
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
    return any ? done : words->word[1];
}
