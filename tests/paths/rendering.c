/* rendering.c - render passes, dynamic rendering, multiview in both, and pipelines that draw nothing. */
#include "modes.h"

static const enum Shader views[] = {VIEWS_VERTEX, SCENE_FRAGMENT};

static void render_passes(Path *path)
{
    Scene scene;
    scene_init(&scene, path->context, 900);
    create_scenes(path, "first-subpass", 1, &scene.info, NULL);
    scene.info.subpass = 1;
    create_scenes(path, "second-subpass", 1, &scene.info, NULL);
    if (lacks(path, path->context->has[HAS_MULTIVIEW], "multiview"))
        return;
    scene_set_stages(&scene, path->context, COUNT_OF(views), views);
    scene.info.renderPass = path->context->views_pass;
    create_scenes(path, "views-of-a-pass", 1, &scene.info, NULL);
}

static void dynamic_rendering(Path *path)
{
    if (lacks(path, path->context->has[HAS_DYNAMIC_RENDERING], "dynamic-rendering"))
        return;
    Scene scene;
    scene_init(&scene, path->context, 910);
    scene_render_dynamically(&scene, 0);
    create_scenes(path, "dynamic", 1, &scene.info, NULL);
    scene.color = VK_FORMAT_R16G16B16A16_SFLOAT;
    create_scenes(path, "dynamic-other-format", 1, &scene.info, NULL);
    scene.color = VK_FORMAT_UNDEFINED;
    create_scenes(path, "dynamic-no-format", 1, &scene.info, NULL);
    scene.rendering.colorAttachmentCount = scene.blend.attachmentCount = 0;
    create_scenes(path, "dynamic-no-attachment", 1, &scene.info, NULL);
    if (lacks(path, path->context->has[HAS_MULTIVIEW], "multiview"))
        return;
    scene_init(&scene, path->context, 911);
    scene_set_stages(&scene, path->context, COUNT_OF(views), views);
    scene_render_dynamically(&scene, 5);
    create_scenes(path, "dynamic-views", 1, &scene.info, NULL);
}

/* The states of rasterization are ignored, and may be no pointers at all (VUIDs of VkGraphicsPipelineCreateInfo). */
static void no_rasterization(Path *path)
{
    static const enum Shader vertex[] = {SCENE_VERTEX};
    Scene scene;
    scene_init(&scene, path->context, 920);
    scene_set_stages(&scene, path->context, 1, vertex);
    scene.rasterization.rasterizerDiscardEnable = VK_TRUE;
    scene.info.pViewportState = NULL;
    scene.info.pMultisampleState = NULL;
    scene.info.pColorBlendState = NULL;
    scene.info.pDynamicState = NULL;
    create_scenes(path, "discard", 1, &scene.info, NULL);
}

void mode_rendering(Path *path)
{
    render_passes(path);
    dynamic_rendering(path);
    no_rasterization(path);
}
