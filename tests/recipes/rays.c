/* rays.c - ray tracing pipelines, libraries of them, and what is linked from libraries. */
#include "build.h"

#include <string.h>

static VkRayTracingShaderGroupCreateInfoKHR group_of(ShaderName name, uint32_t stage)
{
    bool hit = shaders[name].stage == VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR;
    return (VkRayTracingShaderGroupCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR,
        .type = hit ? VK_RAY_TRACING_SHADER_GROUP_TYPE_TRIANGLES_HIT_GROUP_KHR
                    : VK_RAY_TRACING_SHADER_GROUP_TYPE_GENERAL_KHR,
        .generalShader = hit ? VK_SHADER_UNUSED_KHR : stage,
        .closestHitShader = hit ? stage : VK_SHADER_UNUSED_KHR,
        .anyHitShader = VK_SHADER_UNUSED_KHR,
        .intersectionShader = VK_SHADER_UNUSED_KHR,
    };
}

static const char *add_stages(State *state, Build *out, const Words *words, Purpose purpose)
{
    static const struct {
        const char *word;
        ShaderName name;
    } names[] = {{"rgen", RGEN0}, {"miss", MISS0}, {"hit", HIT0}};
    const char *list = words_value(words, "shaders"), *why = NULL;
    for (uint32_t i = 0; list && !why && i < COUNT_OF(names); i++) {
        if (!listed(list, names[i].word))
            continue;
        out->groups[out->stage_count] = group_of(names[i].name, out->stage_count);
        out->traits.parts |= 1u << names[i].name;
        why = add_stage(state, out, names[i].name, words, purpose);
    }
    return why;
}

const char *build_rays(State *state, Build *out, const Words *words, Purpose purpose)
{
    const PipelineSlot *slots[LIBRARY_PARTS];
    uint32_t libraries = 0;
    if (!state->device->has[RAYS])
        return "feature";
    if (out->flags & (VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT |
                      VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT))
        return "flags";
    const char *why = link_libraries(state, out, words, slots, &libraries);
    if (!why)
        why = add_stages(state, out, words, purpose);
    for (uint32_t i = 0; i < libraries; i++)
        out->traits.parts |= slots[i]->traits.parts;
    if (why)
        return why;
    if (out->stage_count == 0 && libraries == 0)
        return "stages";
    /* VUID-VkRayTracingPipelineCreateInfoKHR-stage-03425 */
    if (!out->traits.library && !(out->traits.parts & 1u << RGEN0))
        return "VUID-VkRayTracingPipelineCreateInfoKHR-stage-03425";
    out->interface = (VkRayTracingPipelineInterfaceCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_INTERFACE_CREATE_INFO_KHR,
        .maxPipelineRayPayloadSize = 16,
        .maxPipelineRayHitAttributeSize = 8,
    };
    out->info.rays = (VkRayTracingPipelineCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR,
        .stageCount = out->stage_count,
        .pStages = out->stages,
        .groupCount = out->stage_count,
        .pGroups = out->groups,
        .maxPipelineRayRecursionDepth = 1,
        .pLibraryInfo = libraries ? &out->linked : NULL,
        .pLibraryInterface = libraries || out->traits.library ? &out->interface : NULL,
        .layout = state->device->layout,
    };
    return NULL;
}
