/* Ray tracing pipelines, at once and in deferred operations. A driver that defers to the threads that join copies
 * nothing: whoever stands above it must keep the create infos alive. Each join creates one pipeline after another until
 * there is none left, and the thread that ends last completes the operation. */
#include "driver.h"

#include <string.h>

typedef struct {
    Object object;
    pthread_mutex_t mutex;
    pthread_cond_t was_asked;
    CreateCall call;
    Cache *cache;
    bool alone, pending;
    Hash contents; /* of the create infos when they came */
    uint32_t begun, working, asked;
    VkResult result;
} Operation;

static Operation *operation_of(VkDeferredOperationKHR handle)
{
    return object_of((uint64_t)handle, KIND_OPERATION);
}

static Hash contents_of(const CreateCall *call)
{
    Hash contents = hash_start(9);
    hash_bytes(&contents, call->infos, call->count * sizeof(VkRayTracingPipelineCreateInfoKHR));
    return contents;
}

/* ---- vkCreateRayTracingPipelinesKHR ---- */

static void check_call(const CreateCall *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        if (call->read(call->infos, i).flags & VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT)
            violation("vkCreateRayTracingPipelinesKHR deferred, with EARLY_RETURN_ON_FAILURE"); /* VUID 03587 */
}

static VkResult defer(Operation *operation, const CreateCall *call)
{
    bool alone = cache_needs_synchronization(call->cache);
    pthread_mutex_lock(&operation->mutex);
    if (operation->pending)
        violation("vkCreateRayTracingPipelinesKHR with a deferred operation that is pending");
    operation->call = *call;
    operation->alone = alone;
    operation->cache = cache_use_begin(call->cache, alone);
    operation->contents = contents_of(call);
    operation->begun = operation->asked = 0;
    operation->pending = true;
    operation->result = VK_SUCCESS;
    pthread_mutex_unlock(&operation->mutex);
    return VK_OPERATION_DEFERRED_KHR;
}

static VkResult VKAPI_CALL create(VkDevice device, VkDeferredOperationKHR deferred, VkPipelineCache cache,
                                  uint32_t info_count, const VkRayTracingPipelineCreateInfoKHR *infos,
                                  const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    COMMAND_OF(device, self);
    const CreateCall call = {self, cache, info_count, read_rays, infos, allocator, pipelines};
    VkResult result = act_or_error(DO_CREATE_PIPELINES);
    if (deferred)
        check_call(&call);
    if (result == VK_SUCCESS && deferred && settings.deferral == DEFERS_TO_JOIN)
        return defer(operation_of(deferred), &call);
    memset(pipelines, 0, info_count * sizeof *pipelines);
    if (result == VK_SUCCESS)
        result = create_elements(&call);
    if (result != VK_SUCCESS || !deferred)
        return result;
    return settings.deferral == DEFERS_NEVER ? VK_OPERATION_NOT_DEFERRED_KHR : VK_OPERATION_DEFERRED_KHR;
}

/* ---- deferred operations ---- */

static VkResult VKAPI_CALL create_operation(VkDevice device, const VkAllocationCallbacks *allocator,
                                            VkDeferredOperationKHR *handle)
{
    COMMAND_OF(device, self);
    Operation *made = object_make(self, KIND_OPERATION, sizeof *made, allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *handle = (VkDeferredOperationKHR)(uintptr_t)made;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_operation(VkDevice device, VkDeferredOperationKHR handle,
                                         const VkAllocationCallbacks *allocator)
{
    COMMAND_OF(device, self);
    if (!handle)
        return;
    Operation *gone = operation_of(handle);
    if (gone->pending)
        violation("vkDestroyDeferredOperationKHR of an operation that is pending");
    object_free(self, &gone->object, allocator);
}

static VkResult create_one(const Operation *operation, uint32_t index)
{
    Hash now = contents_of(&operation->call);
    if (memcmp(&now, &operation->contents, sizeof now) != 0)
        violation("the create infos of a deferred operation changed while it was pending");
    operation->call.pipelines[index] = VK_NULL_HANDLE;
    return create_element(&operation->call, index);
}

static void work_locked(Operation *operation)
{
    if (operation->working++ && operation->alone)
        violation("two threads create pipelines with a VkPipelineCache that is not synchronized");
    while (operation->begun < operation->call.count) {
        uint32_t index = operation->begun++;
        pthread_mutex_unlock(&operation->mutex);
        VkResult result = create_one(operation, index);
        pthread_mutex_lock(&operation->mutex);
        if (result != VK_SUCCESS && operation->result >= 0)
            operation->result = result;
    }
    operation->working--;
}

static VkResult VKAPI_CALL join(VkDevice device, VkDeferredOperationKHR handle)
{
    COMMAND_OF(device, self);
    Operation *operation = operation_of(handle);
    Verdict verdict = act(DO_JOIN, 0);
    if (verdict.action == ACT_ERROR)
        return verdict.result;
    pthread_mutex_lock(&operation->mutex);
    bool was_pending = operation->pending, completes = false;
    if (was_pending) {
        work_locked(operation);
        completes = operation->working == 0 && operation->pending;
    }
    if (completes) {
        cache_use_end(operation->cache, operation->alone);
        operation->pending = false;
    }
    while (completes && verdict.action == ACT_LATE && operation->asked < 2)
        pthread_cond_wait(&operation->was_asked, &operation->mutex);
    pthread_mutex_unlock(&operation->mutex);
    return completes || !was_pending ? VK_SUCCESS : VK_THREAD_DONE_KHR;
}

static VkResult VKAPI_CALL get_result(VkDevice device, VkDeferredOperationKHR handle)
{
    COMMAND_OF(device, self);
    Operation *operation = operation_of(handle);
    VkResult result = act_or_error(DO_GET_RESULT);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&operation->mutex);
    result = operation->pending ? VK_NOT_READY : operation->result;
    operation->asked += !operation->pending;
    pthread_cond_broadcast(&operation->was_asked);
    pthread_mutex_unlock(&operation->mutex);
    return result;
}

/* ---- groups ---- */

enum { HANDLE_BYTES = 32 };

static VkResult VKAPI_CALL get_handles(VkDevice device, VkPipeline pipeline, uint32_t first, uint32_t group_count,
                                       size_t size, void *data)
{
    COMMAND_OF(device, self);
    const Pipeline *of = object_of((uint64_t)pipeline, KIND_PIPELINE);
    memset(data, 0, size);
    for (uint32_t i = 0; i < group_count; i++) {
        Hash handle[HANDLE_BYTES / sizeof(Hash)] = {of->object.contents, of->object.contents};
        hash_number(&handle[1], first + i);
        memcpy((uint8_t *)data + i * HANDLE_BYTES, handle, sizeof handle);
    }
    return VK_SUCCESS;
}

static VkDeviceSize VKAPI_CALL get_stack_size(VkDevice device, VkPipeline pipeline, uint32_t group,
                                              VkShaderGroupShaderKHR shader)
{
    COMMAND_OF(device, self);
    return ((const Object *)object_of((uint64_t)pipeline, KIND_PIPELINE))->contents.a % 512 + group;
}

const EntryPoint ray_commands[] = {
    ENTRY("vkCreateRayTracingPipelinesKHR", create),
    ENTRY("vkGetRayTracingShaderGroupHandlesKHR", get_handles),
    ENTRY("vkGetRayTracingCaptureReplayShaderGroupHandlesKHR", get_handles),
    ENTRY("vkGetRayTracingShaderGroupStackSizeKHR", get_stack_size),
    ENTRY("vkCreateDeferredOperationKHR", create_operation),
    ENTRY("vkDestroyDeferredOperationKHR", destroy_operation),
    ENTRY("vkDeferredOperationJoinKHR", join),
    ENTRY("vkGetDeferredOperationResultKHR", get_result),
    {NULL, NULL},
};
