/*
 * fingerprints.c - hashes what a pipeline is made of into one number.
 *
 * Fingerprints select the stored records that are given to the driver for a pipeline, and tell the store which of its
 * records are in use. Two pipelines may share one: then the driver gets the records of both. A pipeline has none if
 * something it is made of is unknown. A fingerprint is the same in every process, so it is made from what the
 * application says. Handles count by the fingerprint or the code of what they name. If a change gives a pipeline
 * another fingerprint, FINGERPRINTS in pylayer/store/format.py changes, too: other machines would not find it.
 *
 * It reads only what every valid create info must have behind its pointers. What the specification lets a driver
 * ignore may be an invalid pointer, so it is not read.
 */
#include "shaders/fingerprints.h"
#include "shaders/shader_modules.h"

#include <string.h>

/* Pipelines that are linked from further libraries have no fingerprint. */
#define MAX_LIBRARIES 65536

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

/* Combines two values in a word here, because reading a word from memory that was written in halves is slow. */
static void add_pair(Description *description, uint32_t low, uint32_t high)
{
    add(description, low | (uint64_t)high << 32);
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

/* How many numbers each VkDescriptorMappingSourceEXT begins with. A pointer to a sampler or nothing follows them. */
static const uint8_t source_numbers[] = {2, 4, 5, 4, 2, 1, 1, 2, 4, 1, 1};

/* Where the stage's descriptors are in the heaps of VK_EXT_descriptor_heap. */
static void add_mappings(Description *description, const VkPipelineShaderStageCreateInfo *stage)
{
    const VkShaderDescriptorSetAndBindingMappingInfoEXT *info =
        (const void *)pnext_find(stage->pNext, VK_STRUCTURE_TYPE_SHADER_DESCRIPTOR_SET_AND_BINDING_MAPPING_INFO_EXT);
    for (uint32_t i = 0; info && i < info->mappingCount; i++) {
        const VkDescriptorSetAndBindingMappingEXT *mapping = &info->pMappings[i];
        add_pair(description, mapping->descriptorSet, mapping->firstBinding);
        add_pair(description, mapping->bindingCount, mapping->resourceMask);
        uint32_t source = (uint32_t)mapping->source;
        uint32_t count = source < sizeof source_numbers ? source_numbers[source] : 0;
        const uint32_t *numbers = &mapping->sourceData.pushDataOffset;
        add_pair(description, source, count);
        for (uint32_t j = 0; j < count; j++)
            add(description, numbers[j]);
    }
}

/* Returns false if a stage's code is unknown. */
static bool add_stages(Description *description, Shaders *shaders, uint32_t stage_count,
                       const VkPipelineShaderStageCreateInfo *stages)
{
    for (uint32_t i = 0; i < stage_count; i++) {
        const VkPipelineShaderStageCreateInfo *stage = &stages[i];
        uint64_t code = shader_code_of_stage(shaders, stage);
        if (!code)
            return false;
        add(description, stage->stage);
        add(description, code);
        add(description, stage->pName ? digest64(stage->pName, strlen(stage->pName), 0) : 0);
        add_constants(description, stage->pSpecializationInfo);
        add_mappings(description, stage);
    }
    return true;
}

/* A few states, hashed before the stages. What does not apply is zero. */
typedef struct States {
    uint32_t kind, subsets, topology, samples, groups, depth, stencil, color_count, colors[8];
} States;

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

/* Strides that are dynamic may be uninitialized memory of the program's. pVertexInputState is valid unless it is dynamic
 * (VUID-VkGraphicsPipelineCreateInfo-pStages-02097). */
static void add_vertex_input(Description *description, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineVertexInputStateCreateInfo *input = info->pVertexInputState;
    if (!input || is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_VERTEX_INPUT_EXT))
        return;
    bool dynamic_strides = is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_VERTEX_INPUT_BINDING_STRIDE_EXT);
    for (uint32_t i = 0; i < input->vertexBindingDescriptionCount; i++) {
        const VkVertexInputBindingDescription *binding = &input->pVertexBindingDescriptions[i];
        add_pair(description, binding->binding, (uint32_t)binding->inputRate);
        add(description, dynamic_strides ? 0 : binding->stride);
    }
    for (uint32_t i = 0; i < input->vertexAttributeDescriptionCount; i++) {
        const VkVertexInputAttributeDescription *attribute = &input->pVertexAttributeDescriptions[i];
        add_pair(description, attribute->location, attribute->binding);
        add_pair(description, (uint32_t)attribute->format, attribute->offset);
    }
}

/* pColorBlendState and its attachments are valid if the pipeline renders to color attachments and none of these states
 * is dynamic (VUID-VkPipelineColorBlendStateCreateInfo-pAttachments-07353). Whether a subpass has any is not known. */
static void add_blending(Description *description, const VkGraphicsPipelineCreateInfo *info, const States *states)
{
    const VkPipelineColorBlendStateCreateInfo *blending = info->pColorBlendState;
    const VkPipelineDynamicStateCreateInfo *dynamic = info->pDynamicState;
    if (states->color_count == 0 || !blending || is_dynamic(dynamic, VK_DYNAMIC_STATE_COLOR_BLEND_ENABLE_EXT) ||
        is_dynamic(dynamic, VK_DYNAMIC_STATE_COLOR_BLEND_EQUATION_EXT) ||
        is_dynamic(dynamic, VK_DYNAMIC_STATE_COLOR_WRITE_MASK_EXT))
        return;
    for (uint32_t i = 0; i < blending->attachmentCount; i++) {
        const VkPipelineColorBlendAttachmentState *attachment = &blending->pAttachments[i];
        add_pair(description, attachment->blendEnable, attachment->colorWriteMask);
        if (attachment->blendEnable) /* the rest may be uninitialized otherwise */
            add(description, digest64(&attachment->srcColorBlendFactor, 6 * sizeof(uint32_t), 0));
    }
}

/* Returns false if a library's fingerprint is unknown. */
static bool add_libraries(Description *description, Shaders *shaders, const VkPipelineLibraryCreateInfoKHR *libraries)
{
    for (uint32_t i = 0; i < libraries->libraryCount; i++) {
        uint64_t fingerprint = shared_map_find(&shaders->libraries, (uint64_t)libraries->pLibraries[i]);
        if (!fingerprint)
            return false;
        add(description, fingerprint);
    }
    return true;
}

/* What tells pipelines without stages of their own apart. Returns false if it is unknown. */
static bool add_parts(Description *description, Shaders *shaders, const PipelineCall *call, const AnyCreateInfo *info,
                      const States *states)
{
    const VkPipelineLibraryCreateInfoKHR *libraries =
        call->point == BIND_RAY_TRACING
            ? info->ray_tracing.pLibraryInfo
            : (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    /* A linked library may make states of the pipeline invalid pointers: those of its vertices, if it has a mesh shader. */
    if (libraries && libraries->libraryCount > 0)
        return add_libraries(description, shaders, libraries);
    if (states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT)
        add_vertex_input(description, &info->graphics);
    if (states->subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT)
        add_blending(description, &info->graphics, states);
    return states->subsets != 0;
}

void fingerprint_note_library(Shaders *shaders, VkPipeline library, uint64_t fingerprint)
{
    shared_map_put(&shaders->libraries, (uint64_t)library, fingerprint, MAX_LIBRARIES);
}

uint64_t fingerprint_of(Shaders *shaders, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    uint32_t stage_count;
    const VkPipelineShaderStageCreateInfo *stages = create_info_stages(call, index, kind, &stage_count);
    States states = {.kind = kind};
    if (call->point == BIND_GRAPHICS) {
        states.subsets = graphics_subsets(&info->graphics, kind);
        read_graphics_states(&states, &info->graphics);
    } else if (call->point == BIND_RAY_TRACING) {
        states.groups = info->ray_tracing.groupCount;
    }
    Description description;
    description.hash = description.used = 0;
    add_states(&description, &states);
    if (!(stage_count > 0 ? add_stages(&description, shaders, stage_count, stages)
                          : add_parts(&description, shaders, call, info, &states)))
        return 0;
    uint64_t hash = hash_of(&description);
    return hash ? hash : 1;
}

uint64_t fingerprint_of_stages(Shaders *shaders, const PipelineCall *call, uint32_t index,
                               enum PylayerPipelineKind kind)
{
    uint32_t stage_count;
    const VkPipelineShaderStageCreateInfo *stages = create_info_stages(call, index, kind, &stage_count);
    Description description;
    description.hash = description.used = 0;
    if (stage_count == 0 || !add_stages(&description, shaders, stage_count, stages))
        return 0;
    return hash_of(&description);
}
