/* rays.c - ray tracing pipelines, libraries of them, and what is linked from libraries. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

static const char *add_stages(State *state, Build *out, const Words *words, Purpose purpose, ShaderName *stages)
{
    static const struct {
        const char *word;
        ShaderName name;
    } names[] = {{"rgen", RGEN0}, {"miss", MISS0}, {"hit", HIT0}};
    const char *list = words_value(words, "shaders"), *why = NULL;
    for (uint32_t i = 0; list && !why && i < COUNT_OF(names); i++) {
        if (!listed(list, names[i].word))
            continue;
        stages[out->stage_count] = names[i].name;
        out->traits.parts |= 1u << names[i].name;
        why = add_stage(state, out, names[i].name, words, purpose);
    }
    return why;
}

static const char *add_groups(const State *state, Build *out, const Words *words, const ShaderName *stages)
{
    const char *list = words_value(words, "groups");
    char item[8] = "";
    for (uint32_t i = 0; list ? next_item(&list, item, sizeof item) : i < out->stage_count; i++) {
        uint32_t stage = item[0] ? (uint32_t)atoi(item) : i;
        if (stage >= out->stage_count || i == MAX_GROUPS)
            return "groups";
        out->groups[i] = ray_group(stages[stage] == HIT0, stage);
        if (words_value(words, "replay"))
            out->groups[i].pShaderGroupCaptureReplayHandle = state->replay_handles[i];
        out->traits.hit_groups |= (uint32_t)(stages[stage] == HIT0) << i;
        out->group_count = out->traits.groups = i + 1;
    }
    return NULL;
}

const char *build_rays(State *state, Build *out, const Words *words, Purpose purpose)
{
    const PipelineSlot *slots[LIBRARY_PARTS];
    uint32_t libraries = 0;
    ShaderName stages[MAX_STAGES];
    const char *depth = words_value(words, "depth");
    if (!state->device->has[RAYS])
        return "feature";
    if (out->flags & (VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT |
                      VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT))
        return "flags";
    const char *why = link_libraries(state, out, words, slots, &libraries);
    if (!why)
        why = add_stages(state, out, words, purpose, stages);
    if (!why)
        why = add_groups(state, out, words, stages);
    for (uint32_t i = 0; i < libraries; i++) {
        out->traits.parts |= slots[i]->traits.parts;
        out->traits.hit_groups |= slots[i]->traits.hit_groups << out->traits.groups;
        out->traits.groups += slots[i]->traits.groups;
    }
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
    static const VkDynamicState stack_size = VK_DYNAMIC_STATE_RAY_TRACING_PIPELINE_STACK_SIZE_KHR;
    out->dynamic = (VkPipelineDynamicStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                      .dynamicStateCount = 1,
                                                      .pDynamicStates = &stack_size};
    out->info.rays = (VkRayTracingPipelineCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR,
        .stageCount = out->stage_count,
        .pStages = out->stages,
        .groupCount = out->group_count,
        .pGroups = out->groups,
        .maxPipelineRayRecursionDepth = !depth                       ? 1
                                        : strcmp(depth, "most") == 0 ? state->device->most_recursion
                                                                     : (uint32_t)atoi(depth),
        .pLibraryInfo = libraries ? &out->linked : NULL,
        .pLibraryInterface = libraries || out->traits.library ? &out->interface : NULL,
        .pDynamicState = words_value(words, "dynamic-stack") ? &out->dynamic : NULL,
        .layout = objects.layout,
    };
    return NULL;
}

/* Handles can be had of libraries only with a feature of its own. */
static const PipelineSlot *slot_with_groups(const State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'P');
    const PipelineSlot *pipeline = slot < 0 ? NULL : &state->pipelines[slot];
    bool has = pipeline && pipeline->handle && pipeline->wording.point == POINT_RAYS && !pipeline->traits.library;
    return has ? pipeline : NULL;
}

/* groups P0: the handle and the stack size of each. RADV's handles begin with the address of a shader in the process,
 * which says nothing. */
const char *run_groups(State *state, const Words *words)
{
    enum { ADDRESS = 8, MOST_GROUPS = 32 };
    const Device *device = state->device;
    const PipelineSlot *pipeline = slot_with_groups(state, words);
    uint8_t handles[MOST_GROUPS * HANDLE_BYTES] = {0};
    if (!pipeline)
        return words->word[1];
    uint32_t count = pipeline->traits.groups;
    must(device->commands.get_handles(device->handle, pipeline->handle, 0, count, sizeof handles, handles),
         "vkGetRayTracingShaderGroupHandlesKHR");
    fprintf(state->out, "groups=%u", count);
    for (uint32_t i = 0; i < count; i++) {
        VkShaderGroupShaderKHR shader = pipeline->traits.hit_groups >> i & 1 ? VK_SHADER_GROUP_SHADER_CLOSEST_HIT_KHR
                                                                             : VK_SHADER_GROUP_SHADER_GENERAL_KHR;
        fputc(' ', state->out);
        for (uint32_t j = ADDRESS; j < device->handle_size; j++)
            fprintf(state->out, "%02x", handles[i * device->handle_size + j]);
        fprintf(state->out, ",%llu",
                (unsigned long long)device->commands.get_stack_size(device->handle, pipeline->handle, i, shader));
    }
    fputc('\n', state->out);
    return NULL;
}

/* capture P0: the handles for `replay` */
const char *run_capture(State *state, const Words *words)
{
    const Device *device = state->device;
    const PipelineSlot *pipeline = slot_with_groups(state, words);
    for (uint32_t i = 0; pipeline && i < pipeline->traits.groups && i < MAX_GROUPS; i++)
        must(device->commands.get_replay_handles(device->handle, pipeline->handle, i, 1, device->replay_handle_size,
                                                 state->replay_handles[i]),
             "vkGetRayTracingCaptureReplayShaderGroupHandlesKHR");
    return pipeline ? done : words->word[1];
}
