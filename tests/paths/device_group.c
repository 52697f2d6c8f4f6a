/* device_group.c - a logical device of a group, and the flags that go with it. */
#include "modes.h"

void mode_device_group(Path *path)
{
    say(path, "group", "devices=%u", path->context->group_size);
    Kernel kernel, other;
    kernel_init(&kernel, path->context, 200);
    kernel.info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;
    create_kernels(path, "dispatch-base", 1, &kernel.info, NULL);
    kernel_init(&other, path->context, 201);
    VkComputePipelineCreateInfo both[] = {other.info, kernel.info};
    create_kernels(path, "one-of-two", 2, both, NULL);
    if (lacks(path, path->context->has[HAS_MULTIVIEW], "multiview"))
        return;
    Scene scene;
    scene_init(&scene, path->context, 202);
    scene_set_stages(&scene, path->context, 2, (const enum Shader[]){VIEWS_VERTEX, SCENE_FRAGMENT});
    scene.info.renderPass = path->context->views_pass;
    scene.info.flags = VK_PIPELINE_CREATE_VIEW_INDEX_FROM_DEVICE_INDEX_BIT;
    create_scenes(path, "view-from-device", 1, &scene.info, NULL);
}
