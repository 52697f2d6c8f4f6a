/* flags.c - legacy flags, flags in a struct of the chain, and what stands in front of it; batches that end early. */
#include "modes.h"

#define MAY_NOT_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT
#define EARLY_RETURN VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT
#define NOT_OPTIMIZED VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT

#define BATCH 4

static void legacy(Path *path)
{
    Kernel kernel;
    kernel_init(&kernel, path->context, 500);
    kernel.info.flags = NOT_OPTIMIZED;
    create_kernels(path, "kernel-not-optimized", 1, &kernel.info, NULL);
    Scene scene;
    scene_init(&scene, path->context, 500);
    scene.info.flags = NOT_OPTIMIZED | VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
    create_scenes(path, "scene-not-optimized", 1, &scene.info, NULL);
}

/* tests/layer/chains.c has the same for compute pipelines. */
static void chained(Path *path)
{
    if (lacks(path, path->context->has[HAS_MAINTENANCE_5], "maintenance5"))
        return;
    Scene scene;
    /* Statistics tell whether the flags arrived. */
    uint64_t statistics = path->context->has[HAS_EXECUTABLES] ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0;
    CreateFlags2 flags2 = {TYPE_CREATE_FLAGS_2, NULL, NOT_OPTIMIZED | statistics};
    VkBaseInStructure unknown = {TYPE_UNKNOWN, (const void *)&flags2};
    scene_init(&scene, path->context, 511);
    scene.info.pNext = &unknown;
    create_scenes(path, "behind-an-unknown-struct", 1, &scene.info, NULL);
    scene_init(&scene, path->context, 510);
    scene.info.pNext = &flags2;
    /* Ignored beside the chained ones. */
    scene.info.flags = MAY_NOT_COMPILE;
    create_scenes(path, "chained", 1, &scene.info, NULL);
    if (lacks(path, path->context->has[HAS_DYNAMIC_RENDERING], "dynamic-rendering"))
        return;
    scene_init(&scene, path->context, 512);
    scene.info.pNext = &flags2;
    scene_render_dynamically(&scene, 0);
    create_scenes(path, "behind-a-known-struct", 1, &scene.info, NULL);
    if (lacks(path, path->context->has[HAS_LOCAL_READ], "dynamic-rendering-local-read"))
        return;
    uint32_t location = 0;
    AttachmentLocations locations = {TYPE_ATTACHMENT_LOCATIONS, &flags2, 1, &location};
    scene_init(&scene, path->context, 513);
    scene.info.pNext = &locations;
    scene_render_dynamically(&scene, 0);
    create_scenes(path, "behind-attachment-locations", 1, &scene.info, NULL);
}

static void unknown_structs(Path *path)
{
    VkBaseInStructure unknown = {TYPE_UNKNOWN, NULL};
    Scene scene;
    scene_init(&scene, path->context, 520);
    scene.info.pNext = &unknown;
    create_scenes(path, "unknown-struct", 1, &scene.info, NULL);
    scene_init(&scene, path->context, 521);
    scene.stages[1].pNext = &unknown;
    create_scenes(path, "unknown-struct-of-a-stage", 1, &scene.info, NULL);
}

/* The second may not be compiled; in the second call all behind it is given up with it. */
static void batches(Path *path, const char *name, const char *early_name)
{
    Kernel made[BATCH];
    VkComputePipelineCreateInfo infos[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        kernel_init(&made[i], path->context, 530 + i);
        infos[i] = made[i].info;
    }
    infos[1].flags = MAY_NOT_COMPILE | EARLY_RETURN;
    create_kernels(path, early_name, BATCH, infos, NULL);
    infos[1].flags = MAY_NOT_COMPILE;
    create_kernels(path, name, BATCH, infos, NULL);
}

void mode_flags(Path *path)
{
    /* First what cannot be asked for without compiling: nothing before it may have filled the program's cache. */
    chained(path);
    legacy(path);
    unknown_structs(path);
    if (!lacks(path, path->context->has[HAS_CACHE_CONTROL], "cache-control"))
        batches(path, "one-may-not-compile", "one-may-not-compile-early-return");
}
