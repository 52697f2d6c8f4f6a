/*
 * device_commands.h - the one list of the device commands that the layer hooks or calls.
 *
 * HOOKED(group, member, type, name): vkGetDeviceProcAddr returns layer_<name> if the device hooks the group (is_hooked
 * in loader.c). CALLED: the layer only calls the command. Driver::member is the next layer's function, or NULL if it
 * has none. To support a command, add its line here, and if it is hooked, define layer_<name>, which is declared below.
 */
#ifndef PYLAYER_DEVICE_COMMANDS_H
#define PYLAYER_DEVICE_COMMANDS_H

#include "vulkan/registry.h"

enum CommandGroup {
    COMMANDS_DEVICE,    /* hooked on every device */
    COMMANDS_CACHES,    /* hooked if the mode keeps pipelines, or the program's caches are checked */
    COMMANDS_PIPELINES, /* hooked if the device has a mode, policy wants creations told, or cache data is checked */
    COMMANDS_STATE,     /* hooked if state is recorded */
    COMMANDS_NAMES,     /* hooked if the program enabled VK_EXT_debug_utils, and policy wants creations told */
    COMMANDS_FRAMES,    /* hooked with COMMANDS_PIPELINES if the program enabled VK_KHR_swapchain */
    COMMANDS_BINARIES,  /* VK_KHR_pipeline_binary: hooked if the program enabled it, hidden if only the layer did */
};

typedef VkResult(VKAPI_PTR *CreateUnknownPipelines)(VkDevice, VkPipelineCache, uint32_t, const void *,
                                                    const VkAllocationCallbacks *, VkPipeline *);
typedef VkResult(VKAPI_PTR *CreateUnknownPipelinesDeferred)(VkDevice, VkDeferredOperationKHR, VkPipelineCache, uint32_t,
                                                            const void *, const VkAllocationCallbacks *, VkPipeline *);

// clang-format off
#define DEVICE_COMMANDS(HOOKED, CALLED)                                                                                \
    HOOKED(DEVICE, destroy_device, PFN_vkDestroyDevice, DestroyDevice)                                                 \
    HOOKED(CACHES, create_pipeline_cache, PFN_vkCreatePipelineCache, CreatePipelineCache)                              \
    HOOKED(CACHES, destroy_pipeline_cache, PFN_vkDestroyPipelineCache, DestroyPipelineCache)                           \
    HOOKED(CACHES, get_pipeline_cache_data, PFN_vkGetPipelineCacheData, GetPipelineCacheData)                          \
    HOOKED(CACHES, merge_pipeline_caches, PFN_vkMergePipelineCaches, MergePipelineCaches)                              \
    UNKNOWN_PIPELINES(HOOKED)                                                                                          \
    UNKNOWN_PIPELINES_DEFERRED(HOOKED)                                                                                 \
    HOOKED(PIPELINES, create_graphics_pipelines, PFN_vkCreateGraphicsPipelines, CreateGraphicsPipelines)               \
    HOOKED(PIPELINES, create_compute_pipelines, PFN_vkCreateComputePipelines, CreateComputePipelines)                  \
    HOOKED(PIPELINES, create_ray_tracing_pipelines, PFN_vkCreateRayTracingPipelinesKHR, CreateRayTracingPipelinesKHR)  \
    CALLED(PIPELINES, destroy_pipeline, PFN_vkDestroyPipeline, DestroyPipeline)                                        \
    HOOKED(PIPELINES, deferred_operation_join, PFN_vkDeferredOperationJoinKHR, DeferredOperationJoinKHR)               \
    HOOKED(PIPELINES, get_deferred_operation_result, PFN_vkGetDeferredOperationResultKHR,                              \
           GetDeferredOperationResultKHR)                                                                              \
    HOOKED(PIPELINES, destroy_deferred_operation, PFN_vkDestroyDeferredOperationKHR, DestroyDeferredOperationKHR)      \
    HOOKED(PIPELINES, create_shader_module, PFN_vkCreateShaderModule, CreateShaderModule)                              \
    HOOKED(PIPELINES, destroy_shader_module, PFN_vkDestroyShaderModule, DestroyShaderModule)                           \
    STATE_COMMANDS(STATE_HOOK, HOOKED)                                                                                 \
    HOOKED(NAMES, set_object_name, PFN_vkSetDebugUtilsObjectNameEXT, SetDebugUtilsObjectNameEXT)                       \
    HOOKED(FRAMES, create_swapchain, PFN_vkCreateSwapchainKHR, CreateSwapchainKHR)                                     \
    HOOKED(FRAMES, destroy_swapchain, PFN_vkDestroySwapchainKHR, DestroySwapchainKHR)                                  \
    HOOKED(FRAMES, queue_present, PFN_vkQueuePresentKHR, QueuePresentKHR)                                              \
    HOOKED(BINARIES, create_pipeline_binaries, PFN_vkCreatePipelineBinariesKHR, CreatePipelineBinariesKHR)             \
    CALLED(BINARIES, destroy_pipeline_binary, PFN_vkDestroyPipelineBinaryKHR, DestroyPipelineBinaryKHR)                \
    HOOKED(BINARIES, get_pipeline_key, PFN_vkGetPipelineKeyKHR, GetPipelineKeyKHR)                                     \
    HOOKED(BINARIES, get_pipeline_binary_data, PFN_vkGetPipelineBinaryDataKHR, GetPipelineBinaryDataKHR)               \
    CALLED(BINARIES, release_captured_pipeline_data, PFN_vkReleaseCapturedPipelineDataKHR,                             \
           ReleaseCapturedPipelineDataKHR)

/* Commands that take a VkPipelineCache and create pipelines of which the layer knows nothing else. pipelines.c defines
 * the hook of each line. To test a new line, add the command to more_pipeline_commands in tests/driver/pipelines.c, its
 * extension to properties.c and driver.h there, and its name to the end of COMMANDS in tests/layer/test_threads.py. */
#define UNKNOWN_PIPELINES(HOOKED)                                                                                      \
    HOOKED(CACHES, create_ray_tracing_pipelines_nv, CreateUnknownPipelines, CreateRayTracingPipelinesNV)               \
    HOOKED(CACHES, create_execution_graph_pipelines, CreateUnknownPipelines, CreateExecutionGraphPipelinesAMDX)
#define UNKNOWN_PIPELINES_DEFERRED(HOOKED)                                                                             \
    HOOKED(CACHES, create_data_graph_pipelines, CreateUnknownPipelinesDeferred, CreateDataGraphPipelinesARM)

/* The rows of registry.h. */
#define STATE_HOOK(HOOKED, member, name, kind, Info, Made) HOOKED(STATE, member, PFN_vk##name, name)

#define DECLARE_HOOK(group, member, type, name) extern __typeof__(*(type)NULL) layer_##name;
#define DECLARE_NOTHING(group, member, type, name)
DEVICE_COMMANDS(DECLARE_HOOK, DECLARE_NOTHING)
// clang-format on

#endif
