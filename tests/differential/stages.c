/* stages.c - shader stages: where their code is from, and what hangs on them. */
#include "build.h"

#include <string.h>

static const uint8_t garbage[16] = "no identifier";

static const char *add_code(State *state, Build *out, ShaderName name, const char *from, const void **chain)
{
    uint32_t index = out->stage_count;
    bool may_compile = !(out->flags & VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT);
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT *identifier = &out->identifiers[index];
    if (strcmp(from, "nothing") == 0)
        return out->binary_info.binaryCount ? NULL : "VUID-VkPipelineShaderStageCreateInfo-stage-08771";
    if (strcmp(from, "inline") == 0) {
        if (!state->enabled.maintenance5 && !state->enabled.libraries)
            return "feature";
        out->code[index] = shader_info(name);
        out->code[index].pNext = *chain;
        *chain = &out->code[index];
        return NULL;
    }
    if (strcmp(from, "module") == 0) {
        out->stages[index].module = state->modules[name];
        return state->modules[name] ? NULL : "module";
    }
    if (!state->enabled.identifiers)
        return "feature";
    if (may_compile)
        return "VUID-VkPipelineShaderStageModuleIdentifierCreateInfoEXT-pNext-06851";
    *identifier = (VkPipelineShaderStageModuleIdentifierCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT, .pNext = *chain};
    if (strcmp(from, "garbage") == 0) {
        identifier->identifierSize = sizeof garbage;
        identifier->pIdentifier = garbage;
    } else {
        identifier->identifierSize = state->identifiers[name].size;
        identifier->pIdentifier = state->identifiers[name].bytes;
        if (identifier->identifierSize == 0)
            return "identifier";
    }
    out->traits.identified = true;
    *chain = identifier;
    return NULL;
}

static const VkPipelineRobustnessCreateInfoEXT robust = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
    .storageBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT,
    .uniformBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT,
    .vertexInputs = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DEVICE_DEFAULT_EXT,
    .images = VK_PIPELINE_ROBUSTNESS_IMAGE_BEHAVIOR_DEVICE_DEFAULT_EXT,
};

const char *add_stage(State *state, Build *out, ShaderName name, const Words *words, Purpose purpose)
{
    uint32_t index = out->stage_count;
    const char *from = words_value(words, "from"), *robustness = words_value(words, "robust");
    const void *chain = NULL;
    VkPipelineShaderStageCreateInfo *stage = &out->stages[index];
    *stage = (VkPipelineShaderStageCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = shaders[name].stage, .pName = "main"};
    if (words_value(words, "spec")) {
        out->constant = words_number(words, "spec", 0);
        out->constant_entry = (VkSpecializationMapEntry){0, 0, sizeof out->constant};
        out->specialization = (VkSpecializationInfo){1, &out->constant_entry, sizeof out->constant, &out->constant};
        stage->pSpecializationInfo = &out->specialization;
    }
    if (robustness && strcmp(robustness, "stage") == 0) {
        if (!state->enabled.robustness)
            return "feature";
        out->stage_robustness[index] = robust;
        chain = &out->stage_robustness[index];
    }
    if (words_value(words, "subgroup") && shaders[name].stage == VK_SHADER_STAGE_COMPUTE_BIT) {
        out->subgroup_size = (VkPipelineShaderStageRequiredSubgroupSizeCreateInfo){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
            .pNext = (void *)(uintptr_t)chain,
            .requiredSubgroupSize = words_number(words, "subgroup", 64)};
        chain = &out->subgroup_size;
    }
    /* Keys and looks into caches need the code or what identifies it. */
    if (purpose == FOR_KEY && (!from || strcmp(from, "nothing") == 0 || strcmp(from, "module") == 0))
        from = "inline";
    const char *why = add_code(state, out, name, from ? from : "module", &chain);
    stage->pNext = chain;
    out->stage_count++;
    return why;
}
