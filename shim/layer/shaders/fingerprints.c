/*
 * fingerprints.c - hashes what a pipeline is made of into one number.
 *
 * The store uses fingerprints to learn which of its records are still in use, and for nothing else. Two pipelines may
 * share one. A pipeline has none if something it is made of is unknown. A fingerprint is the same in every process, so
 * it is made from what the application says, never from handles or pointers.
 *
 * It reads only what every valid create info must have behind its pointers. What the specification lets a driver
 * ignore may be an invalid pointer, so it is not read.
 */
#include "shaders/fingerprints.h"

#include <string.h>

/* The words to hash, hashed when complete or when the array is full: one hash over 240 bytes takes as long as two
 * over 16 (measured). XXH3 is slower per byte beyond 240. */
#define DESCRIPTION_WORDS 30
typedef struct Description {
    uint64_t hash; /* of the words that were hashed already */
    uint32_t used;
    uint64_t words[DESCRIPTION_WORDS];
} Description;

static uint64_t hash_of(Description *description)
{
    description->hash = digest64(description->words, description->used * sizeof(uint64_t), description->hash);
    description->used = 0;
    return description->hash;
}

static void add(Description *description, uint64_t word)
{
    if (description->used == DESCRIPTION_WORDS)
        hash_of(description);
    description->words[description->used++] = word;
}

static void add_constants(Description *description, const VkSpecializationInfo *constants)
{
    for (uint32_t i = 0; constants && i < constants->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &constants->pMapEntries[i];
        /* VUID-VkSpecializationInfo-offset-00773, -pMapEntries-00774: it lies within pData. */
        if (entry->offset > constants->dataSize || entry->size > constants->dataSize - entry->offset)
            continue;
        const char *bytes = (const char *)constants->pData + entry->offset;
        uint64_t value = 0;
        uint32_t word;
        if (entry->size == sizeof word) { /* the usual size; a copy of known size needs no call */
            memcpy(&word, bytes, sizeof word);
            value = word;
        } else if (entry->size <= sizeof value) {
            memcpy(&value, bytes, entry->size);
        } else {
            value = digest64(bytes, entry->size, 0);
        }
        add(description, (uint64_t)entry->constantID << 32 | (uint32_t)entry->size);
        add(description, value);
    }
}

/* Returns false if a stage's code is unknown or there are no stages. */
static bool add_stages(Description *description, Device *device, uint32_t stage_count,
                       const VkPipelineShaderStageCreateInfo *stages)
{
    for (uint32_t i = 0; i < stage_count; i++) {
        const VkPipelineShaderStageCreateInfo *stage = &stages[i];
        uint64_t code = shader_code_of_stage(device, stage);
        if (!code)
            return false;
        add(description, stage->stage);
        add(description, code);
        add(description, stage->pName ? digest64(stage->pName, strlen(stage->pName), 0) : 0);
        add_constants(description, stage->pSpecializationInfo);
    }
    return stage_count > 0;
}

/* A few states, hashed before the stages. What does not apply is zero. */
typedef struct States {
    uint32_t kind, subsets, topology, samples, groups, depth, stencil, color_count, colors[8];
} States;

/* Combines two values in a word here, because reading a word from memory that was written in halves is slow. */
static void add_pair(Description *description, uint32_t low, uint32_t high)
{
    add(description, low | (uint64_t)high << 32);
}

static void add_states(Description *description, const States *states)
{
    add_pair(description, states->kind, states->subsets);
    add_pair(description, states->topology, states->samples);
    add_pair(description, states->groups, states->depth);
    add_pair(description, states->stencil, states->color_count);
    for (unsigned i = 0; i < 8; i += 2)
        add_pair(description, states->colors[i], states->colors[i + 1]);
}

static bool is_dynamic(const VkPipelineDynamicStateCreateInfo *dynamic, VkDynamicState state)
{
    for (uint32_t i = 0; dynamic && i < dynamic->dynamicStateCount; i++)
        if (dynamic->pDynamicStates[i] == state)
            return true;
    return false;
}

static bool has_mesh_stage(const VkGraphicsPipelineCreateInfo *info)
{
    for (uint32_t i = 0; i < info->stageCount; i++)
        if (info->pStages[i].stage & VK_SHADER_STAGE_MESH_BIT_NV)
            return true;
    return false;
}

static void read_formats(States *states, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineRenderingCreateInfoKHR *rendering =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
    /* Ignored if there is a render pass. */
    if (!rendering || info->renderPass != VK_NULL_HANDLE)
        return;
    states->color_count = rendering->colorAttachmentCount;
    states->depth = (uint32_t)rendering->depthAttachmentFormat;
    states->stencil = (uint32_t)rendering->stencilAttachmentFormat;
    for (uint32_t i = 0; i < rendering->colorAttachmentCount && i < 8; i++)
        states->colors[i] = (uint32_t)rendering->pColorAttachmentFormats[i];
}

/*
 * Each pointer is read only if the pipeline must have it:
 * - pInputAssemblyState: vertex input state without a mesh stage, and its topology is not dynamic
 *   (VUID-VkGraphicsPipelineCreateInfo-dynamicPrimitiveTopologyUnrestricted-09031)
 * - pRasterizationState: pre-rasterization state, and rasterizerDiscardEnable is not dynamic (VUID
 *   -pRasterizationState-06601)
 * - pMultisampleState: rasterization is statically enabled, and its samples are not dynamic (VUID
 *   -pMultisampleState-09026)
 * - formats of dynamic rendering: fragment output state, and rasterization is not statically disabled (VUID
 *   -renderPass-06579)
 */
static void read_graphics_states(States *states, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineDynamicStateCreateInfo *dynamic = info->pDynamicState;
    bool pre_rasterization = states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT;
    if ((states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT) && info->pInputAssemblyState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY_EXT) && !(pre_rasterization && has_mesh_stage(info)))
        states->topology = (uint32_t)info->pInputAssemblyState->topology;
    bool rasterizes = false, discards = false;
    if (pre_rasterization && info->pRasterizationState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT)) {
        discards = info->pRasterizationState->rasterizerDiscardEnable;
        rasterizes = !discards;
    }
    bool fragment_output = states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
    if (fragment_output && rasterizes && info->pMultisampleState &&
        !is_dynamic(dynamic, VK_DYNAMIC_STATE_RASTERIZATION_SAMPLES_EXT))
        states->samples = (uint32_t)info->pMultisampleState->rasterizationSamples;
    if (fragment_output && !discards)
        read_formats(states, info);
}

uint64_t fingerprint_of(const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    const VkPipelineShaderStageCreateInfo *stages = &info->compute.stage;
    uint32_t stage_count = 1;
    States states = {.kind = kind};
    if (call->point == BIND_GRAPHICS) {
        states.subsets = graphics_subsets(&info->graphics, kind);
        if (!(states.subsets & SUBSETS_WITH_STAGES))
            return 0;
        read_graphics_states(&states, &info->graphics);
        stages = info->graphics.pStages;
        stage_count = info->graphics.stageCount;
    } else if (call->point == BIND_RAY_TRACING) {
        states.groups = info->ray_tracing.groupCount;
        stages = info->ray_tracing.pStages;
        stage_count = info->ray_tracing.stageCount;
    }
    Description description;
    description.hash = description.used = 0;
    add_states(&description, &states);
    if (!add_stages(&description, call->device, stage_count, stages))
        return 0;
    uint64_t hash = hash_of(&description);
    return hash ? hash : 1;
}
