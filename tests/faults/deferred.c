/* Deferred operations: a driver that really defers, and what nobody may do with an operation that is pending.
 *
 * No driver that this is tested with defers anything.  This one copies nothing when it defers, so that whoever stands
 * above it must keep the create infos alive; each vkDeferredOperationJoinKHR creates one pipeline after another until
 * there is none left, and the thread that ends last completes the operation. */
#include "faults.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct operation {
    struct operation *next;
    VkDeferredOperationKHR handle;
    create_call call;
    object *cache;
    bool alone;        /* the cache is not synchronized by the driver */
    uint64_t contents; /* of the create infos when they came */
    uint32_t begun, working;
    bool pending;
    VkResult result;
    uint32_t asked; /* for the result, since it is complete */
} operation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t was_asked = PTHREAD_COND_INITIALIZER;
static operation *operations;

static operation *find_locked(VkDeferredOperationKHR handle)
{
    operation *found = operations;
    while (found && found->handle != handle)
        found = found->next;
    return found;
}

static uint64_t contents_of(const create_call *call)
{
    const uint8_t *bytes = call->infos;
    uint64_t hash = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < call->count * sizeof(VkRayTracingPipelineCreateInfoKHR); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

VkResult defer(const create_call *call, object *cache)
{
    pthread_mutex_lock(&lock);
    operation *deferred = find_locked(call->deferred);
    if (!deferred) {
        deferred = calloc(1, sizeof *deferred);
        if (!deferred)
            abort();
        deferred->handle = call->deferred;
        deferred->next = operations;
        operations = deferred;
    }
    if (deferred->pending)
        violation("vkCreateRayTracingPipelinesKHR with a deferred operation that is pending");
    deferred->call = *call;
    deferred->call.deferred = VK_NULL_HANDLE;
    deferred->cache = cache;
    deferred->alone = cache && (cache->flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT);
    deferred->contents = contents_of(call);
    deferred->begun = deferred->asked = 0;
    deferred->pending = true;
    deferred->result = VK_SUCCESS;
    pthread_mutex_unlock(&lock);
    return VK_OPERATION_DEFERRED_KHR;
}

static VkResult create_one(const operation *deferred, uint32_t index)
{
    if (contents_of(&deferred->call) != deferred->contents)
        violation("the create infos of a deferred operation changed while it was pending");
    deferred->call.pipelines[index] = VK_NULL_HANDLE;
    return create_element(&deferred->call, index);
}

static void complete_locked(operation *deferred)
{
    end_use(deferred->cache, deferred->alone);
    pipelines_exist(&deferred->call);
    deferred->pending = false;
}

static VkResult VKAPI_CALL join(VkDevice device, VkDeferredOperationKHR handle)
{
    device_state *state = begin_call(device, "vkDeferredOperationJoinKHR");
    pthread_mutex_lock(&lock);
    operation *deferred = find_locked(handle);
    if (!deferred || !deferred->pending) {
        pthread_mutex_unlock(&lock);
        VkResult complete = state->join(device, handle);
        end_call(state);
        return complete;
    }
    if (deferred->working && deferred->alone)
        violation("two threads create pipelines with a VkPipelineCache that is not synchronized");
    deferred->working++;
    while (deferred->begun < deferred->call.count) {
        uint32_t index = deferred->begun++;
        pthread_mutex_unlock(&lock);
        VkResult result = create_one(deferred, index);
        pthread_mutex_lock(&lock);
        if (result != VK_SUCCESS && (deferred->result >= 0))
            deferred->result = result;
    }
    bool last = --deferred->working == 0 && deferred->pending;
    if (last)
        complete_locked(deferred);
    while (last && faults.join_ends_late && deferred->asked < 2)
        pthread_cond_wait(&was_asked, &lock);
    pthread_mutex_unlock(&lock);
    end_call(state);
    return last ? VK_SUCCESS : VK_THREAD_DONE_KHR;
}

static VkResult VKAPI_CALL get_result(VkDevice device, VkDeferredOperationKHR handle)
{
    device_state *state = begin_call(device, "vkGetDeferredOperationResultKHR");
    pthread_mutex_lock(&lock);
    operation *deferred = find_locked(handle);
    VkResult result = deferred ? deferred->result : state->get_result(device, handle);
    if (deferred && deferred->pending) {
        result = VK_NOT_READY;
    } else if (deferred) {
        deferred->asked++;
        pthread_cond_broadcast(&was_asked);
    }
    pthread_mutex_unlock(&lock);
    end_call(state);
    return result;
}

static uint32_t VKAPI_CALL get_max_concurrency(VkDevice device, VkDeferredOperationKHR handle)
{
    device_state *state = begin_call(device, "vkGetDeferredOperationMaxConcurrencyKHR");
    pthread_mutex_lock(&lock);
    const operation *deferred = find_locked(handle);
    uint32_t threads = !deferred           ? state->get_max_concurrency(device, handle)
                       : deferred->pending ? deferred->call.count - deferred->begun
                                           : 0;
    pthread_mutex_unlock(&lock);
    end_call(state);
    return threads;
}

static void VKAPI_CALL destroy(VkDevice device, VkDeferredOperationKHR handle, const VkAllocationCallbacks *allocator)
{
    device_state *state = begin_call(device, "vkDestroyDeferredOperationKHR");
    pthread_mutex_lock(&lock);
    operation **link = &operations;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    operation *destroyed = *link;
    if (destroyed) {
        *link = destroyed->next;
        if (destroyed->pending)
            violation("vkDestroyDeferredOperationKHR of an operation that is pending");
        free(destroyed);
    }
    pthread_mutex_unlock(&lock);
    state->destroy_operation(device, handle, allocator);
    end_call(state);
}

void deferred_device_end(const void *device)
{
    pthread_mutex_lock(&lock);
    for (const operation *deferred = operations; deferred; deferred = deferred->next)
        if (deferred->call.state->handle == device && deferred->pending)
            violation("vkDestroyDevice with a deferred operation that is pending");
    pthread_mutex_unlock(&lock);
}

const entry_point deferred_entry_points[] = {ENTRY("vkDeferredOperationJoinKHR", join),
                                             ENTRY("vkGetDeferredOperationResultKHR", get_result),
                                             ENTRY("vkGetDeferredOperationMaxConcurrencyKHR", get_max_concurrency),
                                             ENTRY("vkDestroyDeferredOperationKHR", destroy),
                                             {NULL, NULL}};
