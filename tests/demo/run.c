#include "run.h"

#include "binaries.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The create infos that wait for the next call of one kind.
typedef struct {
    Recipe recipes[MAX_BATCH];
    union {
        VkComputePipelineCreateInfo compute[MAX_BATCH];
        VkGraphicsPipelineCreateInfo graphics[MAX_BATCH];
        VkRayTracingPipelineCreateInfoKHR rays[MAX_BATCH];
    } infos;
    VkPipeline handles[MAX_BATCH];
    uint32_t count;
    VkPipeline last; // of the call before: what a derivative may be based on
} Batch;

typedef struct {
    pthread_t thread;
    const Device *device;
    const Options *options;
    Kitchen kitchen;
    uint32_t begin, end;
    uint64_t began_ns, ended_ns;
    Batch batches[CALL_KINDS];
    Tally tally;
    Binaries *binaries; // NULL: it uses none
} Worker;

static const size_t info_sizes[CALL_KINDS] = {sizeof(VkComputePipelineCreateInfo), sizeof(VkGraphicsPipelineCreateInfo),
                                              sizeof(VkRayTracingPipelineCreateInfoKHR)};

// ---- Counting --------------------------------------------------------------------------------------------------

static void note_result(Tally *tally, VkResult result)
{
    for (uint32_t i = 0; i < tally->result_count; ++i)
        if (tally->results[i] == result)
            return;
    if (tally->result_count < MAX_RESULTS)
        tally->results[tally->result_count++] = result;
}

static void note_feedback(Tally *tally, const Recipe *recipe)
{
    VkPipelineCreationFeedbackFlags flags = recipe->feedback.flags;
    if (flags == FEEDBACK_UNTOUCHED) {
        ++tally->feedback_untouched;
        return;
    }
    if (!(flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT))
        return;
    ++tally->feedback_valid;
    if (flags & VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT)
        ++tally->feedback_cache_hit;
}

static void note_call(Tally *tally, const Options *options, const Batch *batch, VkResult result, uint64_t ns)
{
    bool refused =
        result == VK_PIPELINE_COMPILE_REQUIRED && (options->fail_on_compile_required || options->early_return);
    ++tally->calls;
    tally->create_ns_total += ns;
    note_result(tally, result);
    for (uint32_t i = 0; i < batch->count; ++i) {
        VkPipeline handle = batch->handles[i];
        tally->samples[tally->pipelines] = (double)ns / batch->count;
        tally->handles[tally->pipelines++] = handle;
        if (handle)
            ++tally->created;
        else
            ++tally->null_handles, ++*(refused ? &tally->compile_required : &tally->failed);
        if (options->feedback)
            note_feedback(tally, &batch->recipes[i]);
    }
}

// ---- Calls -----------------------------------------------------------------------------------------------------

void *info_of(Recipe *recipe, Call kind)
{
    return kind == CALL_COMPUTE    ? (void *)&recipe->compute
           : kind == CALL_GRAPHICS ? (void *)&recipe->graphics
                                   : &recipe->rays;
}

// A derivative is based on an earlier create info of the same call (index), or else on a pipeline of the call before
// (handle). Never both: VUID-VkGraphicsPipelineCreateInfo-flags-07986.
static void set_base(void *info, Call kind, const Batch *batch, uint32_t i)
{
    const VkPipeline handle = i ? VK_NULL_HANDLE : batch->last;
    const int32_t index = i ? (int32_t)(i - 1) / 2 : -1;
    const VkPipelineCreateFlags flags =
        VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT | (i || handle ? VK_PIPELINE_CREATE_DERIVATIVE_BIT : 0);
#define SET_BASE(type)                                                                                                 \
    (((type *)info)->flags |= flags, ((type *)info)->basePipelineHandle = handle,                                      \
     ((type *)info)->basePipelineIndex = index)
    if (kind == CALL_COMPUTE)
        SET_BASE(VkComputePipelineCreateInfo);
    else if (kind == CALL_GRAPHICS)
        SET_BASE(VkGraphicsPipelineCreateInfo);
    else
        SET_BASE(VkRayTracingPipelineCreateInfoKHR);
#undef SET_BASE
}

VkResult create(const Device *device, VkPipelineCache cache, Call kind, VkDeferredOperationKHR operation,
                uint32_t count, const void *infos, VkPipeline *handles)
{
    if (kind == CALL_COMPUTE)
        return vkCreateComputePipelines(device->handle, cache, count, infos, NULL, handles);
    if (kind == CALL_GRAPHICS)
        return vkCreateGraphicsPipelines(device->handle, cache, count, infos, NULL, handles);
    return device->commands.create_rays(device->handle, operation, cache, count, infos, NULL, handles);
}

static VkResult create_deferred(const Worker *worker, Batch *batch)
{
    const Device *device = worker->device;
    const Commands *commands = &device->commands;
    VkDeferredOperationKHR operation;
    must(commands->create_deferred(device->handle, NULL, &operation), "vkCreateDeferredOperationKHR");
    VkResult result = create(device, worker->kitchen.objects->cache, CALL_RAYS, operation, batch->count, &batch->infos,
                             batch->handles);
    if (result == VK_OPERATION_DEFERRED_KHR) {
        join_with_threads(device, operation, worker->options->deferred);
        result = commands->deferred_result(device->handle, operation);
    } else if (result == VK_OPERATION_NOT_DEFERRED_KHR) {
        result = VK_SUCCESS;
    }
    commands->destroy_deferred(device->handle, operation, NULL);
    return result;
}

static VkResult call(Worker *worker, Call kind, Batch *batch)
{
    if (worker->binaries)
        return binaries_create(worker->binaries, batch->recipes, kind, batch->handles);
    if (worker->options->deferred)
        return create_deferred(worker, batch);
    return create(worker->device, worker->kitchen.objects->cache, kind, VK_NULL_HANDLE, batch->count, &batch->infos,
                  batch->handles);
}

// Does the call for everything in the batch; the handles stay readable until the next recipe comes in.
static void flush(Worker *worker, Call kind)
{
    // A create call has to write every handle; one that it leaves out counts as a failure.
    static const VkPipeline unwritten = (VkPipeline)(uintptr_t)0x5a5a5a5a5a5a5a5au;
    Batch *batch = &worker->batches[kind];
    if (batch->count == 0)
        return;
    for (uint32_t i = 0; i < batch->count; ++i) {
        void *info = (char *)&batch->infos + i * info_sizes[kind];
        memcpy(info, info_of(&batch->recipes[i], kind), info_sizes[kind]);
        if (worker->options->derivatives)
            set_base(info, kind, batch, i);
        batch->handles[i] = unwritten;
    }
    uint64_t before = now_ns();
    VkResult result = call(worker, kind, batch);
    uint64_t ns = now_ns() - before;
    for (uint32_t i = 0; i < batch->count; ++i)
        if (batch->handles[i] == unwritten)
            batch->handles[i] = VK_NULL_HANDLE;
    note_call(&worker->tally, worker->options, batch, result, ns);
    batch->last = batch->handles[batch->count - 1];
    batch->count = 0;
}

static Recipe *next_recipe(Worker *worker, Call kind)
{
    Batch *batch = &worker->batches[kind];
    return &batch->recipes[batch->count++];
}

static void flush_when_full(Worker *worker, Call kind, uint32_t size)
{
    if (worker->batches[kind].count >= size)
        flush(worker, kind);
}

// ---- Which pipelines -------------------------------------------------------------------------------------------

static void add_pipeline(Worker *worker, uint32_t number)
{
    static void (*const recipes[])(Recipe *, const Kitchen *, uint64_t) = {compute_recipe, graphics_recipe,
                                                                           ray_tracing_recipe};
    const Options *options = worker->options;
    bool mixed_kinds = options->kind == KIND_MIXED;
    Call kind = mixed_kinds                         ? (Call)(number % 2)
                : options->kind == KIND_COMPUTE     ? CALL_COMPUTE
                : options->kind == KIND_RAY_TRACING ? CALL_RAYS
                                                    : CALL_GRAPHICS;
    recipes[kind](next_recipe(worker, kind), &worker->kitchen, mixed_kinds ? number / 2 : number);
    flush_when_full(worker, kind, options->batch);
}

// Four libraries, a fast link and an optimized one: as an engine does that first needs any pipeline and then a good one.
static void add_libraries(Worker *worker, uint32_t number, Recipe *whole)
{
    uint32_t size = worker->options->batch < LIBRARY_PARTS ? worker->options->batch : LIBRARY_PARTS;
    VkPipeline parts[LIBRARY_PARTS];
    uint64_t first = worker->tally.pipelines;
    graphics_recipe(whole, &worker->kitchen, number);
    for (uint32_t i = 0; i < LIBRARY_PARTS; ++i) {
        library_recipe(next_recipe(worker, CALL_GRAPHICS), whole, &worker->kitchen, i);
        flush_when_full(worker, CALL_GRAPHICS, size);
    }
    flush(worker, CALL_GRAPHICS);
    for (uint32_t i = 0; i < LIBRARY_PARTS; ++i) {
        parts[i] = worker->tally.handles[first + i];
        if (!parts[i])
            return; // nothing to link
    }
    for (int optimized = 0; optimized < 2; ++optimized) {
        linked_recipe(next_recipe(worker, CALL_GRAPHICS), &worker->kitchen, parts, optimized);
        flush_when_full(worker, CALL_GRAPHICS, size);
    }
    flush(worker, CALL_GRAPHICS);
}

static pthread_barrier_t start;

static void *work(void *argument)
{
    Worker *worker = argument;
    Recipe *whole = allocate(1, sizeof *whole);
    pthread_barrier_wait(&start);
    worker->began_ns = now_ns();
    for (uint32_t number = worker->begin; number < worker->end; ++number)
        if (worker->options->kind == KIND_LIBRARIES)
            add_libraries(worker, number, whole);
        else
            add_pipeline(worker, number % worker->options->distinct);
    for (uint32_t kind = 0; kind < CALL_KINDS; ++kind)
        flush(worker, (Call)kind);
    worker->ended_ns = now_ns();
    free(whole);
    return NULL;
}

// ---- Workers ---------------------------------------------------------------------------------------------------

// The worker notes its pipelines in slots of their own of the sum.
static void worker_create(Worker *worker, const Device *device, const Objects *objects, const Options *options,
                          uint32_t number, const Tally *sum)
{
    worker->device = device;
    worker->options = options;
    worker->kitchen = (Kitchen){.objects = objects,
                                .options = options,
                                .ray_recursion = device->most_recursion < 2 ? device->most_recursion : 2};
    if (options->fail_on_compile_required)
        worker->kitchen.flags |= VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
    if (options->early_return)
        worker->kitchen.flags |= VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT;
    worker->begin = (uint32_t)((uint64_t)options->count * number / options->threads);
    worker->end = (uint32_t)((uint64_t)options->count * (number + 1) / options->threads);
    const uint64_t first = sum->slots / options->count * worker->begin;
    worker->tally.samples = sum->samples + first;
    worker->tally.handles = sum->handles + first;
}

static void add_tally(Tally *sum, const Tally *part)
{
#define ADD(name) sum->name += part->name;
    TALLY_NUMBERS(ADD)
    FEEDBACK_NUMBERS(ADD)
    for (uint32_t i = 0; i < part->result_count; ++i)
        note_result(sum, part->results[i]);
}

Tally run(const Device *device, const Objects *objects, const Options *options, Binaries *binaries)
{
    const uint64_t slots = (uint64_t)options->count * (options->kind == KIND_LIBRARIES ? LIBRARY_PARTS + 2 : 1);
    Tally sum = {
        .slots = slots, .samples = allocate(slots, sizeof(double)), .handles = allocate(slots, sizeof(VkPipeline))};
    Worker *workers = allocate(options->threads, sizeof *workers);
    for (uint32_t i = 0; i < options->threads; ++i)
        worker_create(&workers[i], device, objects, options, i, &sum);
    workers[0].binaries = binaries;
    pthread_barrier_init(&start, NULL, options->threads);
    for (uint32_t i = 1; i < options->threads; ++i)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            die("no more threads");
    work(&workers[0]);
    for (uint32_t i = 1; i < options->threads; ++i)
        pthread_join(workers[i].thread, NULL);
    uint64_t began = UINT64_MAX, ended = 0;
    for (uint32_t i = 0; i < options->threads; ++i) {
        add_tally(&sum, &workers[i].tally);
        began = workers[i].began_ns < began ? workers[i].began_ns : began;
        ended = workers[i].ended_ns > ended ? workers[i].ended_ns : ended;
    }
    sum.elapsed_ns = ended - began;
    free(workers);
    return sum;
}

void tally_destroy(Tally *tally, VkDevice device)
{
    for (uint64_t i = 0; i < tally->slots; ++i)
        vkDestroyPipeline(device, tally->handles[i], NULL);
    free(tally->handles);
    free(tally->samples);
}
