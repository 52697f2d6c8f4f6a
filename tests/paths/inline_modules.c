/* inline_modules.c - SPIR-V in the stage's chain in place of a module, alone and beside other structs. */
#include "modes.h"

static void kernels(Path *path)
{
    VkShaderModuleCreateInfo code = shader_code(KERNEL);
    Kernel kernel;
    kernel_init(&kernel, path->context, 600);
    kernel.info.stage.module = VK_NULL_HANDLE;
    kernel.info.stage.pNext = &code;
    create_kernels(path, "kernel", 1, &kernel.info, NULL);
    Kernel same;
    kernel_init(&same, path->context, 600);
    VkComputePipelineCreateInfo both[] = {same.info, kernel.info};
    create_kernels(path, "the-same-from-a-module", 2, both, NULL);
    if (lacks(path, path->context->has[HAS_PIPELINE_ROBUSTNESS], "robustness"))
        return;
    VkPipelineRobustnessCreateInfoEXT robustness = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
        .pNext = &code,
        .storageBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT};
    kernel.info.stage.pNext = &robustness;
    create_kernels(path, "behind-robustness", 1, &kernel.info, NULL);
}

static void scenes(Path *path)
{
    VkShaderModuleCreateInfo vertex = shader_code(SCENE_VERTEX), fragment = shader_code(SCENE_FRAGMENT);
    Scene scene;
    scene_init(&scene, path->context, 610);
    scene.stages[1].module = VK_NULL_HANDLE;
    scene.stages[1].pNext = &fragment;
    create_scenes(path, "fragment-shader", 1, &scene.info, NULL);
    scene_init(&scene, path->context, 611);
    scene.stages[0].module = scene.stages[1].module = VK_NULL_HANDLE;
    scene.stages[0].pNext = &vertex;
    scene.stages[1].pNext = &fragment;
    create_scenes(path, "both-shaders", 1, &scene.info, NULL);
    Scene same;
    scene_init(&same, path->context, 611);
    create_scenes(path, "both-from-modules", 1, &same.info, NULL);
}

void mode_inline_modules(Path *path)
{
    const Context *context = path->context;
    /* VUID-VkPipelineShaderStageCreateInfo-stage-08771: one of these two features allows it. */
    if (lacks(path, context->has[HAS_MAINTENANCE_5] || context->has[HAS_LIBRARIES], "inline-modules"))
        return;
    kernels(path);
    scenes(path);
}
