/* shaders.c - the shaders of tests/paths/shaders, and who can have them. */
#include "paths.h"

#include "kernel_comp.h"
#include "patch_tesc.h"
#include "patch_tese.h"
#include "scene_frag.h"
#include "scene_vert.h"
#include "tiles_mesh.h"
#include "tiles_task.h"
#include "views_vert.h"
#include "wide_comp.h"

#define CODE(words) {words, sizeof words}

static const struct {
    const uint32_t *words;
    size_t bytes;
} code[SHADER_COUNT] = {
    [KERNEL] = CODE(kernel_comp),          [WIDE_KERNEL] = CODE(wide_comp),     [SCENE_VERTEX] = CODE(scene_vert),
    [VIEWS_VERTEX] = CODE(views_vert),     [SCENE_FRAGMENT] = CODE(scene_frag), [PATCH_CONTROL] = CODE(patch_tesc),
    [PATCH_EVALUATION] = CODE(patch_tese), [TILES_TASK] = CODE(tiles_task),     [TILES_MESH] = CODE(tiles_mesh),
};

VkShaderModuleCreateInfo shader_code(enum Shader shader)
{
    return (VkShaderModuleCreateInfo){.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = code[shader].bytes,
                                      .pCode = code[shader].words};
}

bool shader_is_there(const Context *context, enum Shader shader)
{
    switch (shader) {
    case WIDE_KERNEL:
        return context->int64;
    case VIEWS_VERTEX:
        return context->has[HAS_MULTIVIEW];
    case PATCH_CONTROL:
    case PATCH_EVALUATION:
        return context->tessellation;
    case TILES_TASK:
    case TILES_MESH:
        return context->has[HAS_MESH];
    default:
        return true;
    }
}
