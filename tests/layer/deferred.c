/*
 * Creates ray tracing pipelines in deferred operations, in the ways that the specification allows, and prints for each
 * what vkCreateRayTracingPipelinesKHR returned, the operation's result, which pipelines came and their group handles.
 *
 * An argument names a way that is not in every run: "unjoined" leaves an operation pending when the device goes,
 * "unasked" destroys one without having asked for its result, "asked" asks while another thread is in its join.
 */
#include <pthread.h>
#include <sched.h>

#include "rays.h"

#define MOST 6

static Rays rays;

/* ---- an allocator that watches ------------------------------------------------------------------ */

/* Vulkan, 'Host Memory': callbacks are called by the thread that is in an API command, while it is. */
static _Thread_local bool in_command;
static int outside_commands;

static void *allocate(void *data, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    (void)data, (void)scope;
    outside_commands += !in_command;
    void *memory = NULL;
    return posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) ? NULL : memory;
}

static void *reallocate(void *data, void *original, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    (void)data, (void)scope, (void)alignment;
    outside_commands += !in_command;
    return realloc(original, size);
}

static void release(void *data, void *memory)
{
    (void)data;
    outside_commands += !in_command;
    free(memory);
}

static const VkAllocationCallbacks callbacks = {
    .pfnAllocation = allocate, .pfnReallocation = reallocate, .pfnFree = release};

/* ---- one call ----------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    VkDeferredOperationKHR operation;
    VkPipelineCache cache;
    const VkAllocationCallbacks *allocator;
    uint32_t count, joiners;
    RayPipeline *pipelines[MOST];
    VkRayTracingPipelineCreateInfoKHR *infos;
    VkPipeline created[MOST];
    VkResult begin, result;
} Attempt;

static void *join(void *argument)
{
    const Attempt *attempt = argument;
    in_command = true;
    VkResult result;
    do
        result = rays.join(rays.program.device, attempt->operation);
    while (result == VK_THREAD_IDLE_KHR);
    in_command = false;
    return (void *)(intptr_t)result;
}

static void join_with_threads(Attempt *attempt)
{
    pthread_t threads[8];
    void *result;
    bool complete = false;
    for (uint32_t i = 0; i < attempt->joiners; i++)
        if (pthread_create(&threads[i], NULL, join, attempt))
            exit(1);
    for (uint32_t i = 0; i < attempt->joiners; i++) {
        pthread_join(threads[i], &result);
        complete |= (VkResult)(intptr_t)result == VK_SUCCESS;
    }
    if (!complete)
        printf("%s: no thread completed the operation\n", attempt->name);
}

/* True: it was deferred, and is to be joined. */
static bool starts(Attempt *attempt)
{
    /* In memory that is the driver's and the layer's until the operation is complete, and no longer. */
    attempt->infos = calloc(attempt->count, sizeof *attempt->infos);
    for (uint32_t i = 0; i < attempt->count; i++)
        attempt->infos[i] = attempt->pipelines[i]->info;
    in_command = true;
    attempt->begin = rays.create(rays.program.device, attempt->operation, attempt->cache, attempt->count,
                                 attempt->infos, attempt->allocator, attempt->created);
    in_command = false;
    attempt->result = attempt->begin == VK_OPERATION_NOT_DEFERRED_KHR ? VK_SUCCESS : attempt->begin;
    return attempt->begin == VK_OPERATION_DEFERRED_KHR;
}

static void finish(Attempt *attempt)
{
    memset(attempt->infos, 0xa5, attempt->count * sizeof *attempt->infos);
    free(attempt->infos);
    printf("%s begin=%d result=%d pipelines=", attempt->name, attempt->begin, attempt->result);
    for (uint32_t i = 0; i < attempt->count; i++)
        printf("%d", attempt->created[i] != VK_NULL_HANDLE);
    for (uint32_t i = 0; i < attempt->count; i++) {
        if (attempt->created[i] == VK_NULL_HANDLE)
            continue;
        print_handles(&rays, attempt->created[i], 3);
        in_command = true;
        vkDestroyPipeline(rays.program.device, attempt->created[i], attempt->allocator);
        in_command = false;
    }
    printf("\n");
}

static void run(Attempt attempt)
{
    attempt.joiners = attempt.joiners ? attempt.joiners : 1;
    if (starts(&attempt)) {
        join_with_threads(&attempt);
        attempt.result = rays.get_result(rays.program.device, attempt.operation);
    }
    finish(&attempt);
}

/* ---- the ways ----------------------------------------------------------------------------------- */

static RayPipeline variants[20];

static void create_some(VkDeferredOperationKHR operation)
{
    run((Attempt){"one", operation, .count = 1, .pipelines = {&variants[1]}});
    /* A complete operation may be used again. */
    run((Attempt){"again", operation, .count = 1, .pipelines = {&variants[1]}});
    run((Attempt){"batch", operation, .count = 3, .pipelines = {&variants[2], &variants[3], &variants[4]}});
    /* The first is in a cache by now, the others derive from each other. */
    variants[3].info.flags |= VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
    variants[5].info.flags |= VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT | VK_PIPELINE_CREATE_DERIVATIVE_BIT;
    variants[6].info.flags |= VK_PIPELINE_CREATE_DERIVATIVE_BIT;
    variants[5].info.basePipelineIndex = 0;
    variants[6].info.basePipelineIndex = 2;
    run((Attempt){"partly", operation, .count = 4,
                  .pipelines = {&variants[3], &variants[2], &variants[5], &variants[6]}});
    run((Attempt){
        "threads", operation, .count = 6, .joiners = 4,
        .pipelines = {&variants[7], &variants[8], &variants[9], &variants[10], &variants[11], &variants[12]}});
    run((Attempt){"allocator", operation, .allocator = &callbacks, .count = 2, .joiners = 2,
                  .pipelines = {&variants[13], &variants[1]}});
    printf("callbacks outside_commands=%d\n", outside_commands);
}

static void create_with_cache(VkDeferredOperationKHR operation)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    must(vkCreatePipelineCache(rays.program.device, &info, NULL, &cache), "vkCreatePipelineCache");
    run((Attempt){"cache", operation, cache, .count = 2, .joiners = 2, .pipelines = {&variants[14], &variants[1]}});
    /* What the operation created is in the cache that was passed. */
    RayPipeline found = variants[14];
    found.info.flags |= VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
    run((Attempt){"cached", VK_NULL_HANDLE, cache, .count = 1, .pipelines = {&found}});
    vkDestroyPipelineCache(rays.program.device, cache, NULL);
}

/* The second is in the cache into which the first was compiled; the application passed none. */
static void create_with_feedback(VkDeferredOperationKHR operation)
{
    RayPipeline same = variants[15];
    VkPipelineCreationFeedback whole[2] = {{0}}, stages[2][3] = {{{0}}};
    VkPipelineCreationFeedbackCreateInfo feedbacks[2];
    for (int i = 0; i < 2; i++)
        feedbacks[i] =
            (VkPipelineCreationFeedbackCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
                                                   .pPipelineCreationFeedback = &whole[i],
                                                   .pipelineStageCreationFeedbackCount = 3,
                                                   .pPipelineStageCreationFeedbacks = stages[i]};
    variants[15].info.pNext = &feedbacks[0];
    same.info.pNext = &feedbacks[1];
    run((Attempt){"feedback", operation, .count = 2, .pipelines = {&variants[15], &same}});
    printf("told valid=%u,%u hits=%u\n", whole[0].flags & 1, whole[1].flags & 1,
           (whole[0].flags | whole[1].flags | stages[0][0].flags | stages[1][0].flags) & 2);
}

/* With pipelineBinaries the layer has to leave the whole call alone (VUID 09617). */
static void create_captured(VkDeferredOperationKHR operation)
{
    Flags2 capture = {TYPE_FLAGS2, NULL, CAPTURE_DATA};
    variants[16].info.pNext = &capture;
    run((Attempt){"captured", operation, .count = 2, .pipelines = {&variants[1], &variants[16]}});
}

/* Left alone too; a cache of the application's is used all the same. */
static void create_replayable(VkDeferredOperationKHR operation)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    must(vkCreatePipelineCache(rays.program.device, &info, NULL, &cache), "vkCreatePipelineCache");
    variants[0].info.flags |= VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR;
    run((Attempt){"replayable", operation, .count = 1, .pipelines = {&variants[0]}});
    run((Attempt){"replayable-cache", operation, cache, .count = 1, .pipelines = {&variants[0]}});
    size_t size = 0;
    must(vkGetPipelineCacheData(rays.program.device, cache, &size, NULL), "vkGetPipelineCacheData");
    printf("filled cache=%d\n", size > 1000);
    vkDestroyPipelineCache(rays.program.device, cache, NULL);
}

/* Other outcomes where the pipeline is stored already. The operation that failed is used again. */
static void create_without_compiling(VkDeferredOperationKHR operation)
{
    RayPipeline may_not = variants[17];
    may_not.info.flags |= VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
    run((Attempt){"may-not-compile", operation, .count = 2, .pipelines = {&variants[1], &may_not}});
    run((Attempt){"not-found", operation, .count = 1, .pipelines = {&may_not}});
    run((Attempt){"after-failure", operation, .count = 1, .pipelines = {&variants[1]}});
    run((Attempt){"then-may", operation, .count = 1, .pipelines = {&variants[17]}});
    run((Attempt){"then-found", operation, .count = 1, .pipelines = {&may_not}});
}

/* Two operations are pending at once, and are completed in the other order. */
static void create_two(VkDeferredOperationKHR first_operation)
{
    VkDeferredOperationKHR second_operation;
    must(rays.create_operation(rays.program.device, NULL, &second_operation), "vkCreateDeferredOperationKHR");
    Attempt first = {"first", first_operation, .count = 1, .pipelines = {&variants[18]}};
    Attempt second = {"second", second_operation, .count = 1, .pipelines = {&variants[19]}};
    bool joins[] = {starts(&first), starts(&second)};
    if (joins[1]) {
        join(&second);
        second.result = rays.get_result(rays.program.device, second_operation);
    }
    finish(&second);
    if (joins[0]) {
        join(&first);
        first.result = rays.get_result(rays.program.device, first_operation);
    }
    finish(&first);
    rays.destroy_operation(rays.program.device, second_operation, NULL);
}

static void leave_pending(VkDeferredOperationKHR operation)
{
    Attempt attempt = {"unjoined", operation, .count = 1, .pipelines = {&variants[1]}};
    starts(&attempt);
    rays_close(&rays);
    exit(0);
}

/* The thread that asks is the first to learn that the operation is complete: the one that joined does not come back
 * before it asks again. */
static void ask_before_join_ends(VkDeferredOperationKHR operation)
{
    run((Attempt){"before", VK_NULL_HANDLE, .count = 1, .pipelines = {&variants[1]}});
    Attempt attempt = {"asked", operation, .count = 2, .pipelines = {&variants[1], &variants[2]}};
    pthread_t thread;
    if (!starts(&attempt) || pthread_create(&thread, NULL, join, &attempt))
        exit(1);
    while (rays.get_result(rays.program.device, operation) == VK_NOT_READY)
        sched_yield();
    printf("found pipelines=%d%d\n", attempt.created[0] != VK_NULL_HANDLE, attempt.created[1] != VK_NULL_HANDLE);
    attempt.result = rays.get_result(rays.program.device, operation);
    pthread_join(thread, NULL);
    finish(&attempt);
    rays.destroy_operation(rays.program.device, operation, NULL);
}

/* One pipeline of two is in a cache by then, the other is not. */
static void destroy_unasked(VkDeferredOperationKHR operation)
{
    run((Attempt){"before", VK_NULL_HANDLE, .count = 1, .pipelines = {&variants[1]}});
    Attempt attempt = {"unasked", operation, .count = 2, .pipelines = {&variants[1], &variants[2]}};
    bool deferred = starts(&attempt);
    printf("at-once pipelines=%d\n", attempt.created[0] != VK_NULL_HANDLE && attempt.created[1] != VK_NULL_HANDLE);
    if (deferred) {
        join(&attempt);
        attempt.result = VK_SUCCESS;
    }
    finish(&attempt);
    rays.destroy_operation(rays.program.device, operation, NULL);
}

int main(int argc, char **argv)
{
    rays_open(&rays);
    for (int32_t i = 0; i < 20; i++)
        ray_pipeline(&variants[i], &rays, i);
    VkDeferredOperationKHR operation;
    must(rays.create_operation(rays.program.device, NULL, &operation), "vkCreateDeferredOperationKHR");
    if (argc > 1 && strcmp(argv[1], "unjoined") == 0)
        leave_pending(operation);
    if (argc > 1) {
        (strcmp(argv[1], "unasked") == 0 ? destroy_unasked : ask_before_join_ends)(operation);
        rays_close(&rays);
        return 0;
    }
    create_some(operation);
    create_with_cache(operation);
    create_with_feedback(operation);
    create_captured(operation);
    create_replayable(operation);
    create_without_compiling(operation);
    create_two(operation);
    printf("complete join=%d result=%d\n", rays.join(rays.program.device, operation),
           rays.get_result(rays.program.device, operation));
    rays.destroy_operation(rays.program.device, operation, NULL);
    rays_close(&rays);
    return 0;
}
