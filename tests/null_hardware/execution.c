/* Synchronization, queries, descriptor sets, command buffers and queues.
 * A submission is complete when the call that makes it returns. */
#include "null_hardware.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A fence and an event have the values 0 and 1; a timeline semaphore has its own; a binary one has no use for it. */
typedef struct {
    uint64_t value;
} sync_object;

static pthread_mutex_t signal_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t signal_changed; /* on the clock that does not jump */

__attribute__((constructor)) static void use_monotonic_clock(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&signal_changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static uint64_t get_value(const sync_object *object)
{
    pthread_mutex_lock(&signal_lock);
    uint64_t value = object->value;
    pthread_mutex_unlock(&signal_lock);
    return value;
}

static void set_value(sync_object *object, uint64_t value)
{
    if (!object)
        return;
    pthread_mutex_lock(&signal_lock);
    object->value = value;
    pthread_cond_broadcast(&signal_changed);
    pthread_mutex_unlock(&signal_lock);
}

void signal_fence(VkFence fence)
{
    set_value((sync_object *)fence, 1);
}

static VkResult create_signal(uint64_t value, uint64_t *handle)
{
    sync_object *object = malloc(sizeof *object);
    if (!object)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    object->value = value;
    *handle = (uint64_t)(uintptr_t)object;
    return VK_SUCCESS;
}

/* Stands in for the functions that destroy fences, events, semaphores and query pools. */
static void VKAPI_CALL destroy_object(VkDevice device, void *object, const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    free(object);
}

/* Waits until one or all of the objects reach their value; values == NULL stands for 1 each. */
static VkResult wait_for(uint32_t count, sync_object *const *objects, const uint64_t *values, bool all,
                         uint64_t timeout)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    uint64_t nanoseconds = (uint64_t)deadline.tv_nsec + timeout % 1000000000;
    /* A century is as good as forever, and does not overflow. */
    uint64_t seconds = timeout / 1000000000;
    if (seconds > 3000000000)
        seconds = 3000000000;
    deadline.tv_sec += (time_t)(seconds + nanoseconds / 1000000000);
    deadline.tv_nsec = (long)(nanoseconds % 1000000000);
    VkResult result = VK_SUCCESS;
    pthread_mutex_lock(&signal_lock);
    for (;;) {
        uint32_t reached = 0;
        for (uint32_t i = 0; i < count; i++)
            reached += objects[i]->value >= (values ? values[i] : 1);
        if (all ? reached == count : reached > 0)
            break;
        if (timeout == 0 || pthread_cond_timedwait(&signal_changed, &signal_lock, &deadline) == ETIMEDOUT) {
            result = VK_TIMEOUT;
            break;
        }
    }
    pthread_mutex_unlock(&signal_lock);
    return result;
}

static VkResult VKAPI_CALL create_fence(VkDevice device, const VkFenceCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkFence *fence)
{
    (void)device, (void)allocator;
    return create_signal(info->flags & VK_FENCE_CREATE_SIGNALED_BIT ? 1 : 0, (uint64_t *)fence);
}

static VkResult VKAPI_CALL reset_fences(VkDevice device, uint32_t count, const VkFence *fences)
{
    (void)device;
    for (uint32_t i = 0; i < count; i++)
        set_value((sync_object *)fences[i], 0);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL get_fence_status(VkDevice device, VkFence fence)
{
    (void)device;
    return get_value((sync_object *)fence) ? VK_SUCCESS : VK_NOT_READY;
}

static VkResult VKAPI_CALL wait_for_fences(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all,
                                           uint64_t timeout)
{
    (void)device;
    return wait_for(count, (sync_object *const *)fences, NULL, all, timeout);
}

static VkResult VKAPI_CALL create_semaphore(VkDevice device, const VkSemaphoreCreateInfo *info,
                                            const VkAllocationCallbacks *allocator, VkSemaphore *semaphore)
{
    (void)device, (void)allocator;
    uint64_t value = 0;
    for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO)
            value = ((const VkSemaphoreTypeCreateInfo *)next)->initialValue;
    return create_signal(value, (uint64_t *)semaphore);
}

static VkResult VKAPI_CALL get_semaphore_value(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    (void)device;
    *value = get_value((sync_object *)semaphore);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL signal_semaphore(VkDevice device, const VkSemaphoreSignalInfo *info)
{
    (void)device;
    set_value((sync_object *)info->semaphore, info->value);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL wait_semaphores(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    (void)device;
    return wait_for(info->semaphoreCount, (sync_object *const *)info->pSemaphores, info->pValues,
                    !(info->flags & VK_SEMAPHORE_WAIT_ANY_BIT), timeout);
}

static VkResult VKAPI_CALL create_event(VkDevice device, const VkEventCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkEvent *event)
{
    (void)device, (void)info, (void)allocator;
    return create_signal(0, (uint64_t *)event);
}

static VkResult VKAPI_CALL get_event_status(VkDevice device, VkEvent event)
{
    (void)device;
    return get_value((sync_object *)event) ? VK_EVENT_SET : VK_EVENT_RESET;
}

static VkResult VKAPI_CALL set_event(VkDevice device, VkEvent event)
{
    (void)device;
    set_value((sync_object *)event, 1);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL reset_event(VkDevice device, VkEvent event)
{
    (void)device;
    set_value((sync_object *)event, 0);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL refuse(void)
{
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- queries: every result is 0, and available ---- */

typedef struct {
    uint32_t values; /* of one query */
} query_pool;

static VkResult VKAPI_CALL create_query_pool(VkDevice device, const VkQueryPoolCreateInfo *info,
                                             const VkAllocationCallbacks *allocator, VkQueryPool *handle)
{
    (void)device, (void)allocator;
    query_pool *pool = malloc(sizeof *pool);
    if (!pool)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    pool->values = 1;
    if (info->queryType == VK_QUERY_TYPE_PIPELINE_STATISTICS)
        pool->values = (uint32_t)__builtin_popcount(info->pipelineStatistics);
    if (info->queryType == VK_QUERY_TYPE_TRANSFORM_FEEDBACK_STREAM_EXT)
        pool->values = 2;
    *handle = (VkQueryPool)pool;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL get_query_results(VkDevice device, VkQueryPool handle, uint32_t first, uint32_t count,
                                             size_t size, void *data, VkDeviceSize stride, VkQueryResultFlags flags)
{
    (void)device, (void)first;
    uint32_t values = ((query_pool *)handle)->values;
    size_t value_size = flags & VK_QUERY_RESULT_64_BIT ? 8 : 4;
    bool available = flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT;
    for (uint32_t i = 0; i < count; i++) {
        char *result = (char *)data + i * stride;
        if (result + (values + available) * value_size > (char *)data + size)
            break;
        memset(result, 0, (values + available) * value_size);
        if (available)
            memset(result + values * value_size, 1, 1);
    }
    return VK_SUCCESS;
}

/* ---- descriptor sets: nothing reads them ---- */

static VkResult VKAPI_CALL allocate_descriptor_sets(VkDevice device, const VkDescriptorSetAllocateInfo *info,
                                                    VkDescriptorSet *sets)
{
    (void)device;
    for (uint32_t i = 0; i < info->descriptorSetCount; i++)
        sets[i] = (VkDescriptorSet)new_handle();
    return VK_SUCCESS;
}

/* ---- command buffers: dispatchable, so the loader's data comes first ---- */

typedef struct command_buffer {
    void *loader_data;
    struct command_buffer *next;
    struct command_buffer **link; /* that points here */
} command_buffer;

typedef struct {
    command_buffer *first;
} command_pool;

static VkResult VKAPI_CALL create_command_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                               const VkAllocationCallbacks *allocator, VkCommandPool *handle)
{
    (void)device, (void)info, (void)allocator;
    command_pool *pool = calloc(1, sizeof *pool);
    *handle = (VkCommandPool)pool;
    return pool ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

static void free_command_buffer(command_buffer *commands)
{
    if (!commands)
        return;
    *commands->link = commands->next;
    if (commands->next)
        commands->next->link = commands->link;
    free(commands);
}

static void VKAPI_CALL destroy_command_pool(VkDevice device, VkCommandPool handle,
                                            const VkAllocationCallbacks *allocator)
{
    (void)device, (void)allocator;
    command_pool *pool = (command_pool *)handle;
    if (!pool)
        return;
    while (pool->first)
        free_command_buffer(pool->first);
    free(pool);
}

static void VKAPI_CALL free_command_buffers(VkDevice device, VkCommandPool pool, uint32_t count,
                                            const VkCommandBuffer *handles)
{
    (void)device, (void)pool;
    for (uint32_t i = 0; i < count; i++)
        free_command_buffer((command_buffer *)handles[i]);
}

static VkResult VKAPI_CALL allocate_command_buffers(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                                    VkCommandBuffer *handles)
{
    command_pool *pool = (command_pool *)info->commandPool;
    memset(handles, 0, info->commandBufferCount * sizeof *handles);
    for (uint32_t i = 0; i < info->commandBufferCount; i++) {
        command_buffer *commands = calloc(1, sizeof *commands);
        if (!commands || set_loader_data(device, commands) != VK_SUCCESS) {
            free(commands);
            free_command_buffers(device, info->commandPool, i, handles);
            memset(handles, 0, info->commandBufferCount * sizeof *handles);
            return VK_ERROR_OUT_OF_HOST_MEMORY;
        }
        commands->next = pool->first;
        commands->link = &pool->first;
        if (pool->first)
            pool->first->link = &commands->next;
        pool->first = commands;
        handles[i] = (VkCommandBuffer)commands;
    }
    return VK_SUCCESS;
}

/* ---- queues ---- */

static void signal_timelines(const void *chain, uint32_t count, const VkSemaphore *semaphores)
{
    for (const VkBaseInStructure *next = chain; next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO)
            continue;
        const VkTimelineSemaphoreSubmitInfo *info = (const VkTimelineSemaphoreSubmitInfo *)next;
        for (uint32_t i = 0; i < count && i < info->signalSemaphoreValueCount; i++)
            set_value((sync_object *)semaphores[i], info->pSignalSemaphoreValues[i]);
    }
}

static VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence)
{
    (void)queue;
    for (uint32_t i = 0; i < count; i++)
        signal_timelines(submits[i].pNext, submits[i].signalSemaphoreCount, submits[i].pSignalSemaphores);
    signal_fence(fence);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL queue_submit2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *submits, VkFence fence)
{
    (void)queue;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < submits[i].signalSemaphoreInfoCount; j++)
            set_value((sync_object *)submits[i].pSignalSemaphoreInfos[j].semaphore,
                      submits[i].pSignalSemaphoreInfos[j].value);
    signal_fence(fence);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL queue_bind_sparse(VkQueue queue, uint32_t count, const VkBindSparseInfo *binds,
                                             VkFence fence)
{
    (void)queue;
    for (uint32_t i = 0; i < count; i++)
        signal_timelines(binds[i].pNext, binds[i].signalSemaphoreCount, binds[i].pSignalSemaphores);
    signal_fence(fence);
    return VK_SUCCESS;
}

const entry_point execution_entry_points[] = {ENTRY("vkCreateFence", create_fence),
                                              ENTRY("vkDestroyFence", destroy_object),
                                              ENTRY("vkResetFences", reset_fences),
                                              ENTRY("vkGetFenceStatus", get_fence_status),
                                              ENTRY("vkWaitForFences", wait_for_fences),
                                              ENTRY("vkGetFenceFd", refuse),
                                              ENTRY("vkImportFenceFd", refuse),
                                              ENTRY("vkCreateSemaphore", create_semaphore),
                                              ENTRY("vkDestroySemaphore", destroy_object),
                                              ENTRY("vkGetSemaphoreCounterValue", get_semaphore_value),
                                              ENTRY("vkSignalSemaphore", signal_semaphore),
                                              ENTRY("vkWaitSemaphores", wait_semaphores),
                                              ENTRY("vkGetSemaphoreFd", refuse),
                                              ENTRY("vkImportSemaphoreFd", refuse),
                                              ENTRY("vkCreateEvent", create_event),
                                              ENTRY("vkDestroyEvent", destroy_object),
                                              ENTRY("vkGetEventStatus", get_event_status),
                                              ENTRY("vkSetEvent", set_event),
                                              ENTRY("vkResetEvent", reset_event),
                                              ENTRY("vkCreateQueryPool", create_query_pool),
                                              ENTRY("vkDestroyQueryPool", destroy_object),
                                              ENTRY("vkGetQueryPoolResults", get_query_results),
                                              ENTRY("vkResetQueryPool", succeed),
                                              ENTRY("vkCreateDescriptorPool", create_handle),
                                              ENTRY("vkDestroyDescriptorPool", succeed),
                                              ENTRY("vkResetDescriptorPool", succeed),
                                              ENTRY("vkAllocateDescriptorSets", allocate_descriptor_sets),
                                              ENTRY("vkFreeDescriptorSets", succeed),
                                              ENTRY("vkUpdateDescriptorSets", succeed),
                                              ENTRY("vkUpdateDescriptorSetWithTemplate", succeed),
                                              ENTRY("vkCreateCommandPool", create_command_pool),
                                              ENTRY("vkDestroyCommandPool", destroy_command_pool),
                                              ENTRY("vkResetCommandPool", succeed),
                                              ENTRY("vkTrimCommandPool", succeed),
                                              ENTRY("vkAllocateCommandBuffers", allocate_command_buffers),
                                              ENTRY("vkFreeCommandBuffers", free_command_buffers),
                                              ENTRY("vkBeginCommandBuffer", succeed),
                                              ENTRY("vkEndCommandBuffer", succeed),
                                              ENTRY("vkResetCommandBuffer", succeed),
                                              ENTRY("vkQueueSubmit", queue_submit),
                                              ENTRY("vkQueueSubmit2", queue_submit2),
                                              ENTRY("vkQueueBindSparse", queue_bind_sparse),
                                              ENTRY("vkQueueWaitIdle", succeed),
                                              ENTRY("vkDeviceWaitIdle", succeed),
                                              {NULL, NULL}};
