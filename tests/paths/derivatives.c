/* derivatives.c - parents by handle and by index, parents that were there before, and parents that may not come. */
#include "modes.h"

#define ALLOW VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT
#define DERIVE VK_PIPELINE_CREATE_DERIVATIVE_BIT
#define MAY_NOT_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT

#define PIPELINES 4
enum { FIRST = 100 };

typedef struct Relation {
    VkPipelineCreateFlags flags;
    int32_t parent; /* index in the batch, -1: none, or by handle */
} Relation;

static void kernels(Path *path, const char *name, uint32_t first, const Relation *relations, VkPipeline parent)
{
    Kernel made[PIPELINES];
    VkComputePipelineCreateInfo infos[PIPELINES];
    for (uint32_t i = 0; i < PIPELINES; i++) {
        kernel_init(&made[i], path->context, first + i);
        infos[i] = made[i].info;
        infos[i].flags = relations[i].flags;
        infos[i].basePipelineIndex = relations[i].parent;
        if (relations[i].parent < 0 && (relations[i].flags & DERIVE))
            infos[i].basePipelineHandle = parent;
    }
    create_kernels(path, name, PIPELINES, infos, NULL);
}

static void scenes(Path *path, const char *name, uint32_t first, const Relation *relations, VkPipeline parent)
{
    Scene made[PIPELINES];
    VkGraphicsPipelineCreateInfo infos[PIPELINES];
    for (uint32_t i = 0; i < PIPELINES; i++) {
        scene_init(&made[i], path->context, first + i);
        infos[i] = made[i].info;
        infos[i].flags = relations[i].flags;
        infos[i].basePipelineIndex = relations[i].parent;
        if (relations[i].parent < 0 && (relations[i].flags & DERIVE))
            infos[i].basePipelineHandle = parent;
    }
    create_scenes(path, name, PIPELINES, infos, NULL);
}

static const Relation by_index[PIPELINES] = {{ALLOW, -1}, {DERIVE, 0}, {DERIVE | ALLOW, 0}, {DERIVE, 2}};
static const Relation by_handle[PIPELINES] = {{DERIVE, -1}, {0, -1}, {DERIVE | ALLOW, -1}, {DERIVE, 2}};
/* Where the parent does not come, its child still does. */
static const Relation of_nobody[PIPELINES] = {{ALLOW | MAY_NOT_COMPILE, -1}, {DERIVE, 0}, {0, -1}, {DERIVE, 0}};

void mode_derivatives(Path *path)
{
    Kernel kernel;
    kernel_init(&kernel, path->context, FIRST);
    kernel.info.flags = ALLOW;
    VkPipeline parent;
    create_kernels(path, "kernel-parent", 1, &kernel.info, &parent);
    kernels(path, "kernels-by-handle", FIRST + 10, by_handle, parent);
    kernels(path, "kernels-by-index", FIRST + 20, by_index, VK_NULL_HANDLE);
    /* The first three are there already, parents too; the last is not. */
    kernels(path, "kernels-partly-there", FIRST + 21, by_index, VK_NULL_HANDLE);
    kernels(path, "kernels-may-not-compile", FIRST + 30, of_nobody, VK_NULL_HANDLE);
    destroy_pipelines(path, 1, &parent);

    Scene scene;
    scene_init(&scene, path->context, FIRST);
    scene.info.flags = ALLOW;
    create_scenes(path, "scene-parent", 1, &scene.info, &parent);
    scenes(path, "scenes-by-handle", FIRST + 10, by_handle, parent);
    scenes(path, "scenes-by-index", FIRST + 20, by_index, VK_NULL_HANDLE);
    scenes(path, "scenes-partly-there", FIRST + 21, by_index, VK_NULL_HANDLE);
    scenes(path, "scenes-may-not-compile", FIRST + 30, of_nobody, VK_NULL_HANDLE);
    destroy_pipelines(path, 1, &parent);
}
