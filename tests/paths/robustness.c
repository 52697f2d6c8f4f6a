/* robustness.c - VkPipelineRobustnessCreateInfo of pipelines and of stages. */
#include "modes.h"

#define BEHAVIOR(name) VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_##name##_EXT

static VkPipelineRobustnessCreateInfoEXT robustness(VkPipelineRobustnessBufferBehaviorEXT behavior)
{
    return (VkPipelineRobustnessCreateInfoEXT){.sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
                                               .storageBuffers = behavior,
                                               .uniformBuffers = behavior};
}

static void create_all(Path *path, VkPipelineRobustnessBufferBehaviorEXT behavior, const char *const *names)
{
    VkPipelineRobustnessCreateInfoEXT whole = robustness(behavior), stage = robustness(behavior);
    Kernel kernel;
    kernel_init(&kernel, path->context, 1000);
    kernel.info.pNext = &whole;
    create_kernels(path, names[0], 1, &kernel.info, NULL);
    kernel_init(&kernel, path->context, 1001);
    kernel.info.stage.pNext = &stage;
    create_kernels(path, names[1], 1, &kernel.info, NULL);
    Scene scene;
    scene_init(&scene, path->context, 1000);
    scene.info.pNext = &whole;
    create_scenes(path, names[2], 1, &scene.info, NULL);
    scene_init(&scene, path->context, 1001);
    scene.stages[0].pNext = &stage;
    create_scenes(path, names[3], 1, &scene.info, NULL);
}

/* A stage's own struct outweighs the pipeline's (Vulkan, VkPipelineRobustnessCreateInfo). */
static void both(Path *path)
{
    VkPipelineRobustnessCreateInfoEXT whole = robustness(BEHAVIOR(DISABLED)),
                                      stage = robustness(BEHAVIOR(ROBUST_BUFFER_ACCESS));
    Scene scene;
    scene_init(&scene, path->context, 1010);
    scene.info.pNext = &whole;
    scene.stages[1].pNext = &stage;
    create_scenes(path, "scene-both", 1, &scene.info, NULL);
}

void mode_robustness(Path *path)
{
    static const char *const off[] = {"kernel-off", "kernel-stage-off", "scene-off", "scene-stage-off"};
    static const char *const on[] = {"kernel-on", "kernel-stage-on", "scene-on", "scene-stage-on"};
    static const char *const second[] = {"kernel-2", "kernel-stage-2", "scene-2", "scene-stage-2"};
    if (lacks(path, path->context->has[HAS_PIPELINE_ROBUSTNESS], "pipeline-robustness"))
        return;
    create_all(path, BEHAVIOR(DISABLED), off);
    create_all(path, BEHAVIOR(ROBUST_BUFFER_ACCESS), on);
    both(path);
    if (!lacks(path, path->context->has[HAS_ROBUSTNESS_2], "robustness2"))
        create_all(path, BEHAVIOR(ROBUST_BUFFER_ACCESS_2), second);
}
