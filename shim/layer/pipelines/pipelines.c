/* pipelines.c - the hooks of all commands that create pipelines. */
#include "driver/dispatch.h"
#include "pipelines/pipelines.h"
#include "process/process.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateGraphicsPipelines(VkDevice handle, VkPipelineCache cache,
                                                             uint32_t info_count,
                                                             const VkGraphicsPipelineCreateInfo *infos,
                                                             const VkAllocationCallbacks *allocator,
                                                             VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    return pipelines_create(&(PipelineCall){CALL_OF(device), .point = BIND_GRAPHICS, .cache = cache,
                                            .count = info_count, .infos = infos, .allocator = allocator,
                                            .pipelines = pipelines});
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateComputePipelines(VkDevice handle, VkPipelineCache cache, uint32_t info_count,
                                                            const VkComputePipelineCreateInfo *infos,
                                                            const VkAllocationCallbacks *allocator,
                                                            VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    return pipelines_create(&(PipelineCall){CALL_OF(device), .point = BIND_COMPUTE, .cache = cache, .count = info_count,
                                            .infos = infos, .allocator = allocator, .pipelines = pipelines});
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesKHR(VkDevice handle, VkDeferredOperationKHR deferred,
                                                                  VkPipelineCache cache, uint32_t info_count,
                                                                  const VkRayTracingPipelineCreateInfoKHR *infos,
                                                                  const VkAllocationCallbacks *allocator,
                                                                  VkPipeline *pipelines)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    PipelineCall call = {CALL_OF(device),        .point = BIND_RAY_TRACING, .deferred = deferred,
                         .cache = cache,         .count = info_count,       .infos = infos,
                         .allocator = allocator, .pipelines = pipelines};
    if (deferred != VK_NULL_HANDLE && info_count > 0 && !process_is_forked_child() &&
        mode_keeps(atomic_load_explicit(&device->run.mode, memory_order_relaxed)))
        return deferred_create(&call);
    return pipelines_create(&call);
}

/* ---- unknown pipelines: the layer knows only that these commands use a cache ----------------------- */

#define CREATE_UNKNOWN(group, member, type, name)                                                                      \
    VKAPI_ATTR VkResult VKAPI_CALL layer_##name(VkDevice handle, VkPipelineCache cache, uint32_t info_count,           \
                                                const void *infos, const VkAllocationCallbacks *allocator,             \
                                                VkPipeline *pipelines)                                                 \
    {                                                                                                                  \
        Device *device = dispatch_find(&device_table, dispatch_key(handle));                                           \
        PassedUse use = pass_begin(device, cache, info_count, false, false);                                           \
        VkResult result = device->driver.member(handle, use.cache, info_count, infos, allocator, pipelines);           \
        pass_end(&use);                                                                                                \
        return result;                                                                                                 \
    }
UNKNOWN_PIPELINES(CREATE_UNKNOWN)

#define CREATE_UNKNOWN_DEFERRED(group, member, type, name)                                                             \
    VKAPI_ATTR VkResult VKAPI_CALL layer_##name(VkDevice handle, VkDeferredOperationKHR deferred,                      \
                                                VkPipelineCache cache, uint32_t info_count, const void *infos,         \
                                                const VkAllocationCallbacks *allocator, VkPipeline *pipelines)         \
    {                                                                                                                  \
        Device *device = dispatch_find(&device_table, dispatch_key(handle));                                           \
        PassedUse use = pass_begin(device, cache, info_count, deferred != VK_NULL_HANDLE, false);                      \
        VkResult result = device->driver.member(handle, deferred, use.cache, info_count, infos, allocator, pipelines); \
        pass_end(&use);                                                                                                \
        return result;                                                                                                 \
    }
UNKNOWN_PIPELINES_DEFERRED(CREATE_UNKNOWN_DEFERRED)
