/*
 * Creates ray tracing pipelines with each state that they can have, of libraries, and with captured handles, and prints
 * for each the VkResult, the handles of its groups and their stack sizes.
 */
#include "rays.h"

static Rays rays;
static const VkRayTracingPipelineInterfaceCreateInfoKHR interface = {
    .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_INTERFACE_CREATE_INFO_KHR,
    .maxPipelineRayPayloadSize = 32,
    .maxPipelineRayHitAttributeSize = 8};

/* The libraries here bring the sky, where they have one, as the second group, and surfaces behind it. */
static bool is_hit_group(const VkRayTracingPipelineCreateInfoKHR *info, uint32_t group)
{
    if (group < info->groupCount)
        return info->pGroups[group].type != VK_RAY_TRACING_SHADER_GROUP_TYPE_GENERAL_KHR;
    return group >= 2;
}

static void print_stack_sizes(const VkRayTracingPipelineCreateInfoKHR *info, VkPipeline pipeline, uint32_t groups)
{
    printf(" stack=");
    for (uint32_t i = 0; i < groups; i++) {
        VkShaderGroupShaderKHR shader =
            is_hit_group(info, i) ? VK_SHADER_GROUP_SHADER_CLOSEST_HIT_KHR : VK_SHADER_GROUP_SHADER_GENERAL_KHR;
        printf("%llu,", (unsigned long long)rays.get_stack_size(rays.program.device, pipeline, i, shader));
    }
}

/* groups: of the pipeline and its libraries. Handles can be had of libraries only with a feature of its own. */
static VkPipeline create(const char *name, const VkRayTracingPipelineCreateInfoKHR *info, uint32_t groups)
{
    VkPipeline pipeline = (VkPipeline)1;
    VkResult result = rays.create(rays.program.device, VK_NULL_HANDLE, VK_NULL_HANDLE, 1, info, NULL, &pipeline);
    printf("%s result=%d pipeline=%d", name, result, pipeline != VK_NULL_HANDLE);
    if (result == VK_SUCCESS && !(info->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR)) {
        print_handles(&rays, pipeline, groups);
        print_stack_sizes(info, pipeline, groups);
    }
    printf("\n");
    return pipeline;
}

static void create_and_destroy(const char *name, const RayPipeline *pipeline)
{
    vkDestroyPipeline(rays.program.device, create(name, &pipeline->info, pipeline->info.groupCount), NULL);
}

/* ---- states ------------------------------------------------------------------------------------- */

static void create_with_states(void)
{
    RayPipeline pipeline;
    ray_pipeline(&pipeline, &rays, 1);
    create_and_destroy("plain", &pipeline);
    pipeline.info.maxPipelineRayRecursionDepth = rays.max_recursion;
    create_and_destroy("recursive", &pipeline);
    pipeline.info.maxPipelineRayRecursionDepth = 0;
    create_and_destroy("not-recursive", &pipeline);

    static const VkDynamicState stack_size = VK_DYNAMIC_STATE_RAY_TRACING_PIPELINE_STACK_SIZE_KHR;
    const VkPipelineDynamicStateCreateInfo dynamic = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                      .dynamicStateCount = 1,
                                                      .pDynamicStates = &stack_size};
    ray_pipeline(&pipeline, &rays, 1);
    pipeline.info.pDynamicState = &dynamic;
    create_and_destroy("dynamic-stack", &pipeline);

    ray_pipeline(&pipeline, &rays, 1);
    pipeline.info.flags = VK_PIPELINE_CREATE_RAY_TRACING_SKIP_AABBS_BIT_KHR |
                          VK_PIPELINE_CREATE_RAY_TRACING_NO_NULL_MISS_SHADERS_BIT_KHR |
                          VK_PIPELINE_CREATE_RAY_TRACING_NO_NULL_CLOSEST_HIT_SHADERS_BIT_KHR;
    create_and_destroy("flags", &pipeline);

    /* Fewer groups, in another order, of the same stages. */
    ray_pipeline(&pipeline, &rays, 1);
    pipeline.groups[0] = ray_group(1, VK_SHADER_UNUSED_KHR);
    pipeline.groups[1] = ray_group(0, VK_SHADER_UNUSED_KHR);
    create_and_destroy("groups-turned", &pipeline);
    pipeline.info.groupCount = 2;
    create_and_destroy("groups-fewer", &pipeline);
    /* A group twice. */
    pipeline.groups[2] = pipeline.groups[1];
    pipeline.info.groupCount = 3;
    create_and_destroy("groups-twice", &pipeline);
}

/* ---- libraries ---------------------------------------------------------------------------------- */

/* One stage of the pipeline as a library. */
static VkPipeline create_library(const char *name, const RayPipeline *whole, uint32_t stage)
{
    VkRayTracingShaderGroupCreateInfoKHR group = whole->stages[stage].stage == VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR
                                                     ? ray_group(VK_SHADER_UNUSED_KHR, 0)
                                                     : ray_group(0, VK_SHADER_UNUSED_KHR);
    VkRayTracingPipelineCreateInfoKHR info = whole->info;
    info.flags |= VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    info.stageCount = info.groupCount = 1;
    info.pStages = &whole->stages[stage];
    info.pGroups = &group;
    info.pLibraryInterface = &interface;
    return create(name, &info, 1);
}

/* stages: how many of the pipeline's first are its own. */
static VkPipeline link(const char *name, const RayPipeline *whole, VkPipelineCreateFlags flags, uint32_t stages,
                       uint32_t library_count, const VkPipeline *libraries, uint32_t groups)
{
    VkPipelineLibraryCreateInfoKHR linked = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                             .libraryCount = library_count,
                                             .pLibraries = libraries};
    VkRayTracingPipelineCreateInfoKHR info = whole->info;
    info.flags |= flags;
    info.stageCount = info.groupCount = stages;
    info.pLibraryInfo = &linked;
    info.pLibraryInterface = &interface;
    return create(name, &info, groups);
}

static void create_of_libraries(void)
{
    RayPipeline whole, other;
    ray_pipeline(&whole, &rays, 2);
    ray_pipeline(&other, &rays, 3);
    VkPipeline parts[] = {create_library("library-sky", &whole, 1), create_library("library-surface", &whole, 2),
                          create_library("library-other", &other, 2)};
    VkPipeline linked[] = {link("linked", &whole, 0, 1, 2, parts, 3), link("linked-three", &whole, 0, 1, 3, parts, 4)};
    /* Libraries hold libraries. */
    VkPipeline both = link("library-of-libraries", &whole, VK_PIPELINE_CREATE_LIBRARY_BIT_KHR, 0, 2, parts, 2);
    VkPipeline nested[] = {both, parts[2]};
    VkPipeline of_nested[] = {link("linked-nested", &whole, 0, 1, 2, nested, 4),
                              link("linked-own-stages", &whole, 0, 3, 1, &parts[2], 4)};
    const VkPipeline all[] = {linked[0], linked[1], of_nested[0], of_nested[1], both, parts[0], parts[1], parts[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vkDestroyPipeline(rays.program.device, all[i], NULL);
}

/* ---- capture and replay -------------------------------------------------------------------------- */

static void capture_and_replay(void)
{
    enum { GROUPS = 3, MOST = 64 };
    uint8_t captured[GROUPS][MOST] = {{0}};
    RayPipeline pipeline;
    ray_pipeline(&pipeline, &rays, 4);
    pipeline.info.flags = VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR;
    VkPipeline first = create("capture", &pipeline.info, GROUPS);
    for (uint32_t i = 0; i < GROUPS; i++) {
        must(rays.get_replay_handles(rays.program.device, first, i, 1, rays.replay_handle_size, captured[i]),
             "vkGetRayTracingCaptureReplayShaderGroupHandlesKHR");
        pipeline.groups[i].pShaderGroupCaptureReplayHandle = captured[i];
    }
    vkDestroyPipeline(rays.program.device, first, NULL);
    create_and_destroy("replay", &pipeline);
}

int main(void)
{
    rays_open(&rays);
    create_with_states();
    create_of_libraries();
    capture_and_replay();
    rays_close(&rays);
    return 0;
}
