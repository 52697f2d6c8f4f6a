/* rays.h - a device with ray tracing, and pipelines of the demo's shaders. */
#ifndef TEST_RAYS_H
#define TEST_RAYS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "program.h"

#include "shaders/camera_rgen_14.h"
#include "shaders/sky_rmiss_14.h"
#include "shaders/surface_rchit_14.h"

typedef struct {
    Program program; /* its shader and layout are others */
    VkDescriptorSetLayout set_layout;
    VkShaderModule camera, sky, surface;
    uint32_t handle_size, replay_handle_size, max_recursion;
    PFN_vkCreateRayTracingPipelinesKHR create;
    PFN_vkGetRayTracingShaderGroupHandlesKHR get_handles;
    PFN_vkGetRayTracingCaptureReplayShaderGroupHandlesKHR get_replay_handles;
    PFN_vkGetRayTracingShaderGroupStackSizeKHR get_stack_size;
    PFN_vkCreateDeferredOperationKHR create_operation;
    PFN_vkDeferredOperationJoinKHR join;
    PFN_vkGetDeferredOperationResultKHR get_result;
    PFN_vkGetDeferredOperationMaxConcurrencyKHR get_max_concurrency;
    PFN_vkDestroyDeferredOperationKHR destroy_operation;
} Rays;

static inline void must(VkResult result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s: VkResult %d\n", what, result);
    exit(1);
}

/* Newer than the headers that this must build with. */
typedef struct {
    VkStructureType sType;
    void *pNext;
    VkBool32 feature;
} OneFeature;
typedef struct {
    VkStructureType sType;
    const void *pNext;
    uint64_t flags;
} Flags2;
#define TYPE_FLAGS2 ((VkStructureType)1000470005)
#define TYPE_MAINTENANCE5 ((VkStructureType)1000470000)
#define TYPE_PIPELINE_BINARY ((VkStructureType)1000483000)
#define CAPTURE_DATA 0x80000000ull

static inline VkShaderModule rays_module(VkDevice device, const uint32_t *code, size_t bytes)
{
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
    VkShaderModule module;
    must(vkCreateShaderModule(device, &info, NULL, &module), "vkCreateShaderModule");
    return module;
}

static inline void rays_create_layout(Rays *rays)
{
    static const VkDescriptorType types[] = {VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR,
                                             VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                                             VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    VkDescriptorSetLayoutBinding bindings[4];
    for (uint32_t i = 0; i < 4; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){i, types[i], 1, VK_SHADER_STAGE_ALL, NULL};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 4, .pBindings = bindings};
    must(vkCreateDescriptorSetLayout(rays->program.device, &set, NULL, &rays->set_layout),
         "vkCreateDescriptorSetLayout");
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &rays->set_layout};
    must(vkCreatePipelineLayout(rays->program.device, &layout, NULL, &rays->program.layout), "vkCreatePipelineLayout");
}

static inline void rays_create_device(Rays *rays)
{
    Wanted wanted = {.api = VK_API_VERSION_1_3};
    must(open_instance(&rays->program, &wanted), "vkCreateInstance");
    VkPhysicalDeviceRayTracingPipelinePropertiesKHR properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &properties};
    vkGetPhysicalDeviceProperties2(rays->program.physical, &all);
    rays->handle_size = properties.shaderGroupHandleSize;
    rays->replay_handle_size = properties.shaderGroupHandleCaptureReplaySize;
    rays->max_recursion = properties.maxRayRecursionDepth;

    OneFeature binary = {TYPE_PIPELINE_BINARY, NULL, VK_TRUE};
    OneFeature maintenance5 = {TYPE_MAINTENANCE5, &binary, VK_TRUE};
    VkPhysicalDeviceBufferDeviceAddressFeatures address = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
        .pNext = &maintenance5,
        .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceAccelerationStructureFeaturesKHR structures = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ACCELERATION_STRUCTURE_FEATURES_KHR,
        .pNext = &address,
        .accelerationStructure = VK_TRUE};
    VkPhysicalDeviceRayTracingPipelineFeaturesKHR pipelines = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_FEATURES_KHR,
        .pNext = &structures,
        .rayTracingPipeline = VK_TRUE,
        .rayTracingPipelineShaderGroupHandleCaptureReplay = VK_TRUE,
        .rayTraversalPrimitiveCulling = VK_TRUE};
    VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, &pipelines, VK_TRUE};
    static const char *const extensions[] = {VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME,
                                             VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME,
                                             VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME,
                                             VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME,
                                             "VK_KHR_maintenance5",
                                             "VK_KHR_pipeline_binary"};
    wanted.features = &control;
    wanted.extension_count = sizeof extensions / sizeof *extensions;
    wanted.extensions = extensions;
    must(open_device(&rays->program, &wanted), "vkCreateDevice");
}

static inline void rays_open(Rays *rays)
{
    rays_create_device(rays);
#define COMMAND(member, name) rays->member = (PFN_##name)vkGetDeviceProcAddr(rays->program.device, #name)
    COMMAND(create, vkCreateRayTracingPipelinesKHR);
    COMMAND(get_handles, vkGetRayTracingShaderGroupHandlesKHR);
    COMMAND(get_replay_handles, vkGetRayTracingCaptureReplayShaderGroupHandlesKHR);
    COMMAND(get_stack_size, vkGetRayTracingShaderGroupStackSizeKHR);
    COMMAND(create_operation, vkCreateDeferredOperationKHR);
    COMMAND(join, vkDeferredOperationJoinKHR);
    COMMAND(get_result, vkGetDeferredOperationResultKHR);
    COMMAND(get_max_concurrency, vkGetDeferredOperationMaxConcurrencyKHR);
    COMMAND(destroy_operation, vkDestroyDeferredOperationKHR);
#undef COMMAND
    rays_create_layout(rays);
    rays->camera = rays_module(rays->program.device, camera_rgen_14, sizeof camera_rgen_14);
    rays->sky = rays_module(rays->program.device, sky_rmiss_14, sizeof sky_rmiss_14);
    rays->surface = rays_module(rays->program.device, surface_rchit_14, sizeof surface_rchit_14);
}

static inline void rays_close(Rays *rays)
{
    vkDestroyShaderModule(rays->program.device, rays->camera, NULL);
    vkDestroyShaderModule(rays->program.device, rays->sky, NULL);
    vkDestroyShaderModule(rays->program.device, rays->surface, NULL);
    vkDestroyDescriptorSetLayout(rays->program.device, rays->set_layout, NULL);
    close_program(&rays->program);
}

/* One pipeline: a camera, a sky and a surface. It points into itself. */
typedef struct {
    int32_t constant;
    VkSpecializationMapEntry entry;
    VkSpecializationInfo specialization;
    VkPipelineShaderStageCreateInfo stages[3];
    VkRayTracingShaderGroupCreateInfoKHR groups[3];
    VkRayTracingPipelineCreateInfoKHR info;
} RayPipeline;

static inline VkPipelineShaderStageCreateInfo ray_stage(VkShaderStageFlagBits stage, VkShaderModule module)
{
    return (VkPipelineShaderStageCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                             .stage = stage,
                                             .module = module,
                                             .pName = "main"};
}

static inline VkRayTracingShaderGroupCreateInfoKHR ray_group(uint32_t general, uint32_t closest_hit)
{
    return (VkRayTracingShaderGroupCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR,
        .type = general == VK_SHADER_UNUSED_KHR ? VK_RAY_TRACING_SHADER_GROUP_TYPE_TRIANGLES_HIT_GROUP_KHR
                                                : VK_RAY_TRACING_SHADER_GROUP_TYPE_GENERAL_KHR,
        .generalShader = general,
        .closestHitShader = closest_hit,
        .anyHitShader = VK_SHADER_UNUSED_KHR,
        .intersectionShader = VK_SHADER_UNUSED_KHR,
    };
}

/* Each variant is other code: the surface's layers of detail. */
static inline void ray_pipeline(RayPipeline *pipeline, const Rays *rays, int32_t variant)
{
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->constant = variant;
    pipeline->entry = (VkSpecializationMapEntry){2, 0, sizeof pipeline->constant};
    pipeline->specialization =
        (VkSpecializationInfo){1, &pipeline->entry, sizeof pipeline->constant, &pipeline->constant};
    pipeline->stages[0] = ray_stage(VK_SHADER_STAGE_RAYGEN_BIT_KHR, rays->camera);
    pipeline->stages[1] = ray_stage(VK_SHADER_STAGE_MISS_BIT_KHR, rays->sky);
    pipeline->stages[2] = ray_stage(VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR, rays->surface);
    pipeline->stages[2].pSpecializationInfo = &pipeline->specialization;
    pipeline->groups[0] = ray_group(0, VK_SHADER_UNUSED_KHR);
    pipeline->groups[1] = ray_group(1, VK_SHADER_UNUSED_KHR);
    pipeline->groups[2] = ray_group(VK_SHADER_UNUSED_KHR, 2);
    pipeline->info = (VkRayTracingPipelineCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR,
        .stageCount = 3,
        .pStages = pipeline->stages,
        .groupCount = 3,
        .pGroups = pipeline->groups,
        .maxPipelineRayRecursionDepth = 1,
        .layout = rays->program.layout,
        .basePipelineIndex = -1,
    };
}

/* The handles of a pipeline's groups. RADV's begin with the address of a shader in the process, which says nothing. */
#define HANDLE_ADDRESS 8

static inline void print_handles(const Rays *rays, VkPipeline pipeline, uint32_t groups)
{
    uint8_t handles[16 * 64] = {0};
    must(rays->get_handles(rays->program.device, pipeline, 0, groups, groups * rays->handle_size, handles),
         "vkGetRayTracingShaderGroupHandlesKHR");
    printf(" handles=");
    for (uint32_t i = 0; i < groups; i++)
        for (uint32_t j = HANDLE_ADDRESS; j < rays->handle_size; j++)
            printf("%02x", handles[i * rays->handle_size + j]);
}

#endif
