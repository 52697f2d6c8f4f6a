/* stages.c - tessellation, mesh and task shaders. */
#include "modes.h"

static void tessellation(Path *path)
{
    static const enum Shader shaders[] = {SCENE_VERTEX, PATCH_CONTROL, PATCH_EVALUATION, SCENE_FRAGMENT};
    if (lacks(path, shader_is_there(path->context, PATCH_CONTROL), "tessellation"))
        return;
    Scene scene;
    scene_init(&scene, path->context, 1200);
    scene_set_stages(&scene, path->context, COUNT_OF(shaders), shaders);
    scene.assembly.topology = VK_PRIMITIVE_TOPOLOGY_PATCH_LIST;
    create_scenes(path, "patches-of-3", 1, &scene.info, NULL);
    scene.tessellation.patchControlPoints = 4;
    create_scenes(path, "patches-of-4", 1, &scene.info, NULL);
}

/* VUID-VkGraphicsPipelineCreateInfo-pStages-02095: without vertex input, what its pointers are does not matter. */
static void mesh_shaders(Path *path)
{
    static const enum Shader mesh[] = {TILES_MESH, SCENE_FRAGMENT}, task[] = {TILES_TASK, TILES_MESH, SCENE_FRAGMENT};
    if (lacks(path, shader_is_there(path->context, TILES_MESH), "mesh-shaders"))
        return;
    Scene scene;
    scene_init(&scene, path->context, 1210);
    scene.info.pVertexInputState = NULL;
    scene.info.pInputAssemblyState = NULL;
    scene_set_stages(&scene, path->context, COUNT_OF(mesh), mesh);
    create_scenes(path, "mesh", 1, &scene.info, NULL);
    scene_set_stages(&scene, path->context, COUNT_OF(task), task);
    create_scenes(path, "task-and-mesh", 1, &scene.info, NULL);
    if (lacks(path, path->context->has[HAS_DYNAMIC_RENDERING], "dynamic-rendering"))
        return;
    scene_render_dynamically(&scene, 0);
    create_scenes(path, "mesh-in-dynamic-rendering", 1, &scene.info, NULL);
}

void mode_stages(Path *path)
{
    tessellation(path);
    mesh_shaders(path);
}
