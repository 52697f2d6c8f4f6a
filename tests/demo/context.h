// Instance and device, made as the command line asks.
#ifndef DEMO_CONTEXT_H
#define DEMO_CONTEXT_H

#include "options.h"

#include <vulkan/vulkan.h>

typedef struct {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkPhysicalDeviceProperties properties;
    uint32_t api; // what both the program and the device speak
    char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE + 4];
    uint32_t ray_recursion; // with ray tracing
    PFN_vkCreateRayTracingPipelinesKHR create_ray_tracing_pipelines;
    PFN_vkCreateDeferredOperationKHR create_deferred_operation;
    PFN_vkDeferredOperationJoinKHR deferred_operation_join;
    PFN_vkGetDeferredOperationResultKHR get_deferred_operation_result;
    PFN_vkDestroyDeferredOperationKHR destroy_deferred_operation;
    uint64_t create_instance_ns;
    uint64_t create_device_ns;
} Context;

// Whether the device has VK_KHR_pipeline_binary.
bool uses_binaries(const Options *options);

void context_create_instance(Context *context, const Options *options);
void context_create_device(Context *context, const Options *options);
void context_destroy(Context *context);

uint64_t now_ns(void);

#endif
