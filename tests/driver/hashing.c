/* A pipeline's key: a hash of what its create info contains. Handles and addresses are not in it, so that every process
 * comes to the same one; neither are feedback, binaries and the flags that say how to create. */
#include "driver.h"

#include <string.h>

#define NOT_IN_KEY                                                                                                     \
    (VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT | VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT |       \
     VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT | VK_PIPELINE_CREATE_DERIVATIVE_BIT |                                    \
     VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR)

/* From here on constants are in no shader, and so make no difference. */
#define FIRST_ABSENT_CONSTANT 1000

static void hash_array(Hash *to, const void *array, uint32_t count, size_t size)
{
    hash_number(to, array ? count : 0);
    if (array && count)
        hash_bytes(to, array, count * size);
}

static void hash_object(Hash *to, uint64_t handle, ObjectKind kind)
{
    if (handle)
        hash_bytes(to, &((Object *)object_of(handle, kind))->contents, sizeof(Hash));
    else
        hash_number(to, 0);
}

const void *in_chain(const void *chain, int type)
{
    const VkBaseInStructure *node = chain;
    while (node && (int)node->sType != type)
        node = node->pNext;
    return node;
}

void check_chain(const void *chain, const char *where)
{
    /* The loader's, one for each of its purposes, and those that may be there several times. */
    for (const VkBaseInStructure *node = chain; node; node = node->pNext)
        if (node->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO &&
            node->sType != VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO && in_chain(node->pNext, node->sType))
            violation("%s: two structures of type %d in one chain", where, (int)node->sType);
}

void check_base(const PipelineRequest *request, uint32_t index)
{
    if (!(request->flags & VK_PIPELINE_CREATE_DERIVATIVE_BIT))
        return;
    if (request->base_index == -1)
        object_of((uint64_t)request->base, KIND_PIPELINE); /* VUID 07984 */
    else if (request->base || request->base_index < 0 || (uint32_t)request->base_index >= index)
        violation("element %u derives from element %d", index, request->base_index); /* VUID 07985, 07986, 00720 */
}

/* False: there is no code, as a pipeline from binaries may have it
 * (VUID-VkPipelineShaderStageCreateInfo-stage-08771). */
static bool hash_stage(Hash *to, const VkPipelineShaderStageCreateInfo *stage)
{
    hash_number(to, stage->stage);
    hash_number(to, stage->flags);
    hash_text(to, stage->pName ? stage->pName : "");
    const VkShaderModuleCreateInfo *code = in_chain(stage->pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    if (stage->module) {
        hash_object(to, (uint64_t)stage->module, KIND_MODULE);
    } else if (code) {
        Hash contents = hash_start(1); /* as the object would have it */
        hash_bytes(&contents, code->pCode, code->codeSize);
        hash_bytes(to, &contents, sizeof contents);
    }
    const VkSpecializationInfo *constants = stage->pSpecializationInfo;
    for (uint32_t i = 0; constants && i < constants->mapEntryCount; i++) {
        const VkSpecializationMapEntry *map = &constants->pMapEntries[i];
        if (map->constantID >= FIRST_ABSENT_CONSTANT)
            continue;
        hash_number(to, map->constantID);
        hash_bytes(to, (const char *)constants->pData + map->offset, map->size);
    }
    return stage->module || code;
}

static void read_flags(PipelineRequest *request, const void *chain, VkPipelineCreateFlags flags)
{
    check_chain(chain, "a pipeline's create info");
    const VkPipelineCreateFlags2CreateInfoKHR *wide =
        in_chain(chain, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
    request->flags = wide ? wide->flags : flags;
    hash_number(&request->key, request->flags & ~(uint64_t)NOT_IN_KEY);
    if (settings.keys)
        hash_number(&request->key, settings.keys);
    const VkPipelineBinaryInfoKHR *binaries = in_chain(chain, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
    request->binaries = binaries && binaries->binaryCount ? binaries : NULL;
    request->feedback = in_chain(chain, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
}

PipelineRequest read_compute(const void *infos, uint32_t index)
{
    const VkComputePipelineCreateInfo *info = (const VkComputePipelineCreateInfo *)infos + index;
    PipelineRequest request = {.key = hash_start(VK_PIPELINE_BIND_POINT_COMPUTE),
                               .base = info->basePipelineHandle,
                               .base_index = info->basePipelineIndex,
                               .point = VK_PIPELINE_BIND_POINT_COMPUTE,
                               .stage_count = 1,
                               .binary_count = 1};
    read_flags(&request, info->pNext, info->flags);
    request.has_code = hash_stage(&request.key, &info->stage);
    hash_object(&request.key, (uint64_t)info->layout, KIND_LAYOUT);
    return request;
}

static void hash_vertex_input(Hash *to, const VkPipelineVertexInputStateCreateInfo *input)
{
    hash_array(to, input->pVertexBindingDescriptions, input->vertexBindingDescriptionCount,
               sizeof *input->pVertexBindingDescriptions);
    hash_array(to, input->pVertexAttributeDescriptions, input->vertexAttributeDescriptionCount,
               sizeof *input->pVertexAttributeDescriptions);
}

static void hash_multisample(Hash *to, const VkPipelineMultisampleStateCreateInfo *state)
{
    HASH_MEMBERS(to, state, rasterizationSamples, sampleShadingEnable);
    HASH_MEMBERS(to, state, alphaToCoverageEnable, alphaToOneEnable);
    hash_array(to, state->pSampleMask, ((uint32_t)state->rasterizationSamples + 31) / 32, sizeof(VkSampleMask));
}

static void hash_states(Hash *to, const VkGraphicsPipelineCreateInfo *info)
{
    if (info->pVertexInputState)
        hash_vertex_input(to, info->pVertexInputState);
    if (info->pInputAssemblyState) {
        hash_number(to, info->pInputAssemblyState->topology);
        hash_number(to, info->pInputAssemblyState->primitiveRestartEnable);
    }
    if (info->pViewportState)
        hash_number(to, info->pViewportState->viewportCount << 8 | info->pViewportState->scissorCount);
    if (info->pRasterizationState)
        HASH_MEMBERS(to, info->pRasterizationState, depthClampEnable, lineWidth);
    if (info->pMultisampleState)
        hash_multisample(to, info->pMultisampleState);
    if (info->pDepthStencilState)
        HASH_MEMBERS(to, info->pDepthStencilState, depthTestEnable, back);
    if (info->pColorBlendState)
        hash_array(to, info->pColorBlendState->pAttachments, info->pColorBlendState->attachmentCount,
                   sizeof *info->pColorBlendState->pAttachments);
    if (info->pDynamicState)
        hash_array(to, info->pDynamicState->pDynamicStates, info->pDynamicState->dynamicStateCount,
                   sizeof *info->pDynamicState->pDynamicStates);
}

static void read_libraries(PipelineRequest *request, const VkPipelineLibraryCreateInfoKHR *libraries)
{
    for (uint32_t i = 0; libraries && i < libraries->libraryCount; i++) {
        Pipeline *library = object_of((uint64_t)libraries->pLibraries[i], KIND_PIPELINE);
        hash_bytes(&request->key, &library->object.contents, sizeof library->object.contents);
        request->binary_count += library->binary_count;
    }
}

PipelineRequest read_graphics(const void *infos, uint32_t index)
{
    const VkGraphicsPipelineCreateInfo *info = (const VkGraphicsPipelineCreateInfo *)infos + index;
    PipelineRequest request = {.key = hash_start(7),
                               .base = info->basePipelineHandle,
                               .base_index = info->basePipelineIndex,
                               .point = VK_PIPELINE_BIND_POINT_GRAPHICS,
                               .has_code = true};
    read_flags(&request, info->pNext, info->flags);
    const VkGraphicsPipelineLibraryCreateInfoEXT *parts =
        in_chain(info->pNext, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
    const VkPipelineLibraryCreateInfoKHR *libraries =
        in_chain(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    /* What is no part of a library must be ignored, and may be anything. */
    VkGraphicsPipelineLibraryFlagsEXT all = libraries && libraries->libraryCount ? 0 : 0xf;
    hash_number(&request.key, parts ? parts->flags : all);
    uint32_t stages = info->pStages ? info->stageCount : 0;
    for (uint32_t i = 0; i < stages; i++)
        request.has_code &= hash_stage(&request.key, &info->pStages[i]);
    hash_states(&request.key, info);
    hash_object(&request.key, (uint64_t)info->layout, KIND_LAYOUT);
    hash_object(&request.key, (uint64_t)info->renderPass, KIND_PASS);
    hash_number(&request.key, info->subpass);
    request.binary_count = request.stage_count = stages;
    read_libraries(&request, libraries);
    return request;
}

PipelineRequest read_rays(const void *infos, uint32_t index)
{
    const VkRayTracingPipelineCreateInfoKHR *info = (const VkRayTracingPipelineCreateInfoKHR *)infos + index;
    PipelineRequest request = {.key = hash_start(8),
                               .base = info->basePipelineHandle,
                               .base_index = info->basePipelineIndex,
                               .point = VK_PIPELINE_BIND_POINT_RAY_TRACING_KHR,
                               .has_code = true,
                               .stage_count = info->stageCount,
                               .binary_count = info->stageCount};
    read_flags(&request, info->pNext, info->flags);
    for (uint32_t i = 0; i < info->stageCount; i++)
        request.has_code &= hash_stage(&request.key, &info->pStages[i]);
    for (uint32_t i = 0; i < info->groupCount; i++)
        HASH_MEMBERS(&request.key, &info->pGroups[i], type, intersectionShader);
    hash_number(&request.key, info->maxPipelineRayRecursionDepth);
    hash_number(&request.key, info->pDynamicState ? info->pDynamicState->dynamicStateCount : 0);
    hash_object(&request.key, (uint64_t)info->layout, KIND_LAYOUT);
    read_libraries(&request, info->pLibraryInfo);
    return request;
}
