/* infos.c - see fuzz.h */
#include "fuzz.h"

/* ---- chains ------------------------------------------------------------------------------------ */

#define CONTROL VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR

void chain_add(Chain *chain, void *node, VkStructureType type)
{
    VkBaseOutStructure *added = node;
    added->sType = type;
    if (chain->last)
        chain->last->pNext = added;
    else
        chain->first = added;
    chain->last = added;
}

/* Types that no table of the layer knows. Their size is at least that of the head. */
void chain_add_unknown(Chain *chain)
{
    static const uint32_t types[] = {2000000000u, 0x7fffffffu, 1000999000u, 12345u};
    uint32_t type = chance(4) ? 3000000000u + take8() : types[below(4)];
    chain_add(chain, room(sizeof(VkBaseOutStructure) + below(24)), (VkStructureType)type);
}

static size_t size_of(VkStructureType type)
{
    size_t size = pnext_struct_size(type);
    return size ? size : sizeof(VkBaseOutStructure);
}

static const uint32_t feature_types[] = {
    49,         51,         53,         55,         1000028000, 1000044003, 1000059000,
    1000297000, 1000470000, 1000483000, 1000462000, 1000068001, 1000347000, 1000161001,
};

void chain_add_device_features(Chain *chain)
{
    for (unsigned added = 0; added < 24 && chance(12); added++) {
        uint32_t type = feature_types[below(sizeof feature_types / sizeof feature_types[0])];
        if (chance(3)) {
            chain_add_unknown(chain);
            continue;
        }
        if (chance(2)) {
            VkDevicePipelineBinaryInternalCacheControlKHR *control = room(sizeof *control);
            control->disableInternalCache = chance(8);
            chain_add(chain, control, CONTROL);
            continue;
        }
        /* sType-unique: each type once, unless the program errs. */
        if (chain_find(chain->first, (VkStructureType)type) && !chance(1))
            continue;
        size_t size = size_of((VkStructureType)type);
        VkBaseOutStructure *node = room(size);
        for (size_t i = sizeof *node; i + sizeof(VkBool32) <= size; i += sizeof(VkBool32))
            *(VkBool32 *)(void *)((char *)node + i) = chance(8);
        chain_add(chain, node, (VkStructureType)type);
    }
}

unsigned chain_touch(const void *chain)
{
    unsigned count = 0;
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        touch(node, size_of(node->sType));
        expect(++count < 10000, "a chain without an end");
    }
    return count;
}

const VkBaseInStructure *chain_find(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *node = chain;
    while (node && node->sType != type)
        node = node->pNext;
    return node;
}

/* ---- create infos ------------------------------------------------------------------------------ */

/* Flags that mean something to the layer; a program may set any others. */
static const uint64_t known_flags[] = {
    VK_PIPELINE_CREATE_DERIVATIVE_BIT,
    VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT,
    VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT,
    FAIL_ON_COMPILE,
    EARLY_RETURN,
    CAPTURE_REPLAY,
    VK_PIPELINE_CREATE_LIBRARY_BIT_KHR,
    VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT,
    0x00800000, /* RETAIN_LINK_TIME_OPTIMIZATION_INFO */
    VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR,
    VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
};

static uint64_t make_flags(void)
{
    uint64_t flags = chance(2) ? take32() & 0x7fffffffu : 0;
    while (chance(6))
        flags |= known_flags[below(sizeof known_flags / sizeof known_flags[0])];
    return flags;
}

/* What the layer has to make of a chain. */
typedef struct Meaning {
    uint64_t flags;
    uint32_t subsets; /* UINT32_MAX: it does not say which */
} Meaning;

static void add_flags(Chain *chain, Meaning *meaning)
{
    VkPipelineCreateFlags2CreateInfoKHR *info = room(sizeof *info);
    info->flags = meaning->flags = make_flags() | (chance(2) ? CAPTURE_DATA : 0) | (chance(1) ? take64() << 32 : 0);
    chain_add(chain, info, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
}

static void add_feedback(Chain *chain, Meaning *meaning)
{
    VkPipelineCreationFeedbackCreateInfoEXT *info = room(sizeof *info);
    info->pPipelineCreationFeedback = room(sizeof *info->pPipelineCreationFeedback);
    info->pPipelineCreationFeedback->flags = take8();
    info->pipelineStageCreationFeedbackCount = below(20);
    info->pPipelineStageCreationFeedbacks =
        array(info->pipelineStageCreationFeedbackCount, sizeof *info->pPipelineStageCreationFeedbacks);
    chain_add(chain, info, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT);
}

/* Up to three of the program's objects. */
static const void *some_of(enum ObjectKind kind, uint32_t *count)
{
    *count = own[kind].count ? below(4) : 0;
    uint64_t *handles = array(*count, sizeof *handles);
    for (uint32_t i = 0; i < *count; i++)
        handles[i] = any_of(kind);
    return handles;
}

static void add_binaries(Chain *chain, Meaning *meaning)
{
    VkPipelineBinaryInfoKHR *info = room(sizeof *info);
    info->pPipelineBinaries = some_of(OBJECT_BINARY, &info->binaryCount);
    chain_add(chain, info, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
}

static void add_libraries(Chain *chain, Meaning *meaning)
{
    VkPipelineLibraryCreateInfoKHR *info = room(sizeof *info);
    info->pLibraries = some_of(OBJECT_PIPELINE, &info->libraryCount);
    chain_add(chain, info, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
}

static void add_subsets(Chain *chain, Meaning *meaning)
{
    VkGraphicsPipelineLibraryCreateInfoEXT *info = room(sizeof *info);
    info->flags = meaning->subsets = chance(2) ? take32() >> 1 : below(16);
    chain_add(chain, info, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
}

static void add_rendering(Chain *chain, Meaning *meaning)
{
    VkPipelineRenderingCreateInfoKHR *info = room(sizeof *info);
    info->colorAttachmentCount = below(12);
    info->pColorAttachmentFormats = array(info->colorAttachmentCount, sizeof(VkFormat));
    chain_add(chain, info, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
}

/* Any order, unknown structs anywhere; the layer reads each type once (sType-unique). */
static void *make_chain(bool graphics, Meaning *meaning)
{
    enum { KINDS = 6, NOT_OF_GRAPHICS = 4 };
    static void (*const add[KINDS])(Chain *, Meaning *) = {add_flags,     add_feedback, add_binaries,
                                                           add_libraries, add_subsets,  add_rendering};
    Chain chain = {0};
    bool has[KINDS] = {false};
    for (unsigned i = 0; i < 10 && chance(11); i++) {
        unsigned what = below(8);
        if (what < (graphics ? KINDS : NOT_OF_GRAPHICS) && !has[what]) {
            add[what](&chain, meaning);
            has[what] = true;
        } else {
            chain_add_unknown(&chain);
        }
    }
    return chain.first;
}

static const VkSpecializationInfo *make_constants(void)
{
    VkSpecializationInfo *info = room(sizeof *info);
    info->mapEntryCount = below(4);
    info->dataSize = below(24);
    info->pData = bytes(info->dataSize);
    VkSpecializationMapEntry *entries = array(info->mapEntryCount, sizeof *entries);
    for (uint32_t i = 0; i < info->mapEntryCount; i++)
        entries[i] = (VkSpecializationMapEntry){take8(), chance(2) ? take32() : below(20),
                                                chance(1) ? (size_t)take64() : below(12)};
    info->pMapEntries = entries;
    return info;
}

static void *make_stage_chain(void)
{
    Chain chain = {0};
    for (unsigned i = 0; i < 4 && chance(8); i++) {
        if (chance(8)) {
            VkShaderModuleCreateInfo *code = room(sizeof *code);
            code->codeSize = 4 + 4 * below(8);
            code->pCode = bytes(code->codeSize);
            chain_add(&chain, code, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
        } else if (chance(8)) {
            VkPipelineShaderStageModuleIdentifierCreateInfoEXT *identifier = room(sizeof *identifier);
            identifier->identifierSize = below(40);
            identifier->pIdentifier = bytes(identifier->identifierSize);
            chain_add(&chain, identifier, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT);
        } else {
            chain_add_unknown(&chain);
        }
    }
    return chain.first;
}

static void make_stage(VkPipelineShaderStageCreateInfo *stage)
{
    static const VkShaderStageFlagBits bits[] = {VK_SHADER_STAGE_VERTEX_BIT, VK_SHADER_STAGE_FRAGMENT_BIT,
                                                 VK_SHADER_STAGE_COMPUTE_BIT, VK_SHADER_STAGE_MESH_BIT_NV};
    *stage = (VkPipelineShaderStageCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
        .pNext = make_stage_chain(),
        .stage = chance(1) ? (VkShaderStageFlagBits)take32() : bits[below(4)],
        .module = (VkShaderModule)(chance(12) ? any_of(OBJECT_MODULE) : 0),
        .pName = chance(8) ? "main" : "",
        .pSpecializationInfo = chance(6) ? make_constants() : NULL,
    };
}

static const VkPipelineShaderStageCreateInfo *make_stages(uint32_t *count)
{
    *count = below(5);
    VkPipelineShaderStageCreateInfo *stages = array(*count, sizeof *stages);
    for (uint32_t i = 0; i < *count; i++)
        make_stage(&stages[i]);
    return stages;
}

static bool is_dynamic(const VkPipelineDynamicStateCreateInfo *dynamic, VkDynamicState state)
{
    for (uint32_t i = 0; dynamic && i < dynamic->dynamicStateCount; i++)
        if (dynamic->pDynamicStates[i] == state)
            return true;
    return false;
}

static const VkPipelineDynamicStateCreateInfo *make_dynamic(void)
{
    static const VkDynamicState states[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY_EXT,
                                            VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT,
                                            VK_DYNAMIC_STATE_RASTERIZATION_SAMPLES_EXT,
                                            VK_DYNAMIC_STATE_PRIMITIVE_RESTART_ENABLE_EXT};
    VkPipelineDynamicStateCreateInfo *dynamic = room(sizeof *dynamic);
    dynamic->sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO;
    dynamic->dynamicStateCount = below(5);
    VkDynamicState *all = array(dynamic->dynamicStateCount, sizeof *all);
    for (uint32_t i = 0; i < dynamic->dynamicStateCount; i++)
        all[i] = chance(2) ? (VkDynamicState)take32() : states[below(5)];
    dynamic->pDynamicStates = all;
    return dynamic;
}

static const VkPipelineVertexInputStateCreateInfo *make_vertex_input(void)
{
    VkPipelineVertexInputStateCreateInfo *input = room(sizeof *input);
    input->vertexBindingDescriptionCount = below(3);
    input->vertexAttributeDescriptionCount = below(3);
    input->pVertexBindingDescriptions =
        array(input->vertexBindingDescriptionCount, sizeof *input->pVertexBindingDescriptions);
    input->pVertexAttributeDescriptions =
        array(input->vertexAttributeDescriptionCount, sizeof *input->pVertexAttributeDescriptions);
    return input;
}

static const VkPipelineColorBlendStateCreateInfo *make_blending(void)
{
    VkPipelineColorBlendStateCreateInfo *blending = room(sizeof *blending);
    blending->attachmentCount = 1 + below(2);
    VkPipelineColorBlendAttachmentState *all = room(blending->attachmentCount * sizeof *all);
    all->blendEnable = chance(2);
    blending->pAttachments = all;
    return blending;
}

/* Pointers that the specification lets be anything are. Which it reads is said at each. */
static void make_graphics(VkGraphicsPipelineCreateInfo *info)
{
    info->flags = (VkPipelineCreateFlags)make_flags();
    Meaning meaning = {info->flags, UINT32_MAX};
    info->sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO;
    info->pNext = make_chain(true, &meaning);
    const VkPipelineLibraryCreateInfoKHR *libraries =
        (const void *)chain_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    /* VkGraphicsPipelineLibraryCreateInfoEXT: without it, all state, or none of its own when it links libraries. */
    bool is_part = (meaning.flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR) || (libraries && libraries->libraryCount);
    uint32_t subsets = meaning.subsets != UINT32_MAX ? meaning.subsets : is_part ? 0 : 15;
    bool vertex_input = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT;
    bool pre_rasterization = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT;
    bool fragment_shader = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT;
    bool fragment_output = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
    info->pDynamicState = chance(6) ? make_dynamic() : NULL;
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-06600 */
    bool needs_stages = pre_rasterization || fragment_shader;
    info->stageCount = 1 + below(5);
    info->pStages = needs_stages ? make_stages(&info->stageCount) : anywhere();
    VkShaderStageFlags stages = 0;
    for (uint32_t i = 0; needs_stages && i < info->stageCount; i++)
        stages |= info->pStages[i].stage;
    bool mesh = stages & VK_SHADER_STAGE_MESH_BIT_NV;
    /* VUID-VkGraphicsPipelineCreateInfo-pInputAssemblyState-09032: no mesh stage */
    bool assembles = vertex_input && !(pre_rasterization && mesh);
    info->pInputAssemblyState = assembles ? room(sizeof *info->pInputAssemblyState) : anywhere();
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-02097 */
    bool reads_vertices = vertex_input && !(pre_rasterization && mesh) && !(libraries && libraries->libraryCount) &&
                          !is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_VERTEX_INPUT_EXT);
    info->pVertexInputState = reads_vertices ? make_vertex_input() : anywhere();
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-09022 */
    const VkShaderStageFlags both =
        VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT | VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT;
    bool tessellates = pre_rasterization && (stages & both) == both;
    info->pTessellationState = tessellates ? room(sizeof *info->pTessellationState) : anywhere();
    VkPipelineRasterizationStateCreateInfo *raster = room(sizeof *raster);
    raster->rasterizerDiscardEnable = chance(4);
    info->pRasterizationState = pre_rasterization ? raster : anywhere();
    bool rasterizes = !pre_rasterization || !raster->rasterizerDiscardEnable ||
                      is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT);
    /* VUID-VkGraphicsPipelineCreateInfo-rasterizerDiscardEnable-09024 */
    info->pViewportState = pre_rasterization && rasterizes ? room(sizeof *info->pViewportState) : anywhere();
    /* VUID-VkGraphicsPipelineCreateInfo-renderPass-09028, -09035, -06590: the layer knows less than these */
    info->pDepthStencilState = fragment_shader && rasterizes ? room(sizeof *info->pDepthStencilState) : anywhere();
    info->pMultisampleState =
        (fragment_shader || fragment_output) && rasterizes ? room(sizeof *info->pMultisampleState) : anywhere();
    info->renderPass = (VkRenderPass)(uintptr_t)(chance(8) ? 0x77 : 0);
    VkPipelineRenderingCreateInfoKHR *rendering =
        (void *)(uintptr_t)chain_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
    /* VUID-VkGraphicsPipelineCreateInfo-renderPass-06579: read for fragment output state and dynamic rendering */
    bool has_colors = rendering && info->renderPass == VK_NULL_HANDLE && fragment_output && rasterizes;
    if (rendering && !has_colors)
        rendering->pColorAttachmentFormats = anywhere();
    /* VUID-VkPipelineColorBlendStateCreateInfo-pAttachments-07353, unless all of its states are dynamic */
    info->pColorBlendState = has_colors && rendering->colorAttachmentCount ? make_blending() : anywhere();
}

static void make_compute(VkComputePipelineCreateInfo *info)
{
    Meaning meaning;
    info->sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info->flags = (VkPipelineCreateFlags)make_flags();
    info->pNext = make_chain(false, &meaning);
    make_stage(&info->stage);
}

static void make_ray_tracing(VkRayTracingPipelineCreateInfoKHR *info)
{
    Meaning meaning;
    info->sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR;
    info->flags = (VkPipelineCreateFlags)make_flags();
    info->pNext = make_chain(false, &meaning);
    info->pStages = make_stages(&info->stageCount);
    info->groupCount = below(4);
    VkRayTracingShaderGroupCreateInfoKHR *groups = room(info->groupCount * sizeof *groups);
    for (uint32_t i = 0; i < info->groupCount; i++)
        groups[i] = (VkRayTracingShaderGroupCreateInfoKHR){
            .sType = VK_STRUCTURE_TYPE_RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR,
            .generalShader = take32(),
            .pShaderGroupCaptureReplayHandle = anywhere(), /* the layer has no business there */
        };
    info->pGroups = groups;
    if (chance(6)) {
        Chain chain = {0};
        add_libraries(&chain, &meaning);
        info->pLibraryInfo = (const void *)chain.first;
    }
}

AnyCreateInfo *info_at(const Infos *infos, uint32_t index)
{
    return (AnyCreateInfo *)(void *)((char *)infos->infos + index * create_info_size(infos->point));
}

uint64_t flags_of(const AnyCreateInfo *info)
{
    const VkPipelineCreateFlags2CreateInfoKHR *flags2 =
        (const void *)chain_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
    return flags2 ? flags2->flags : info->head.flags;
}

VkPipelineLayout layout_of(enum BindPoint point, const AnyCreateInfo *info)
{
    return point == BIND_GRAPHICS  ? info->graphics.layout
           : point == BIND_COMPUTE ? info->compute.layout
                                   : info->ray_tracing.layout;
}

static void number(enum BindPoint point, AnyCreateInfo *info, uint32_t index)
{
    VkPipelineLayout layout = (VkPipelineLayout)(uintptr_t)(index + 1);
    VkPipeline base = (VkPipeline)any_of(OBJECT_PIPELINE);
    int32_t base_index = chance(8) ? (int32_t)below(MOST_INFOS) - 1 : (int32_t)take32();
    /* VUID-vkCreateGraphicsPipelines-flags-00720, VkGraphicsPipelineCreateInfo-flags-07985: an earlier one */
    if (flags_of(info) & VK_PIPELINE_CREATE_DERIVATIVE_BIT) {
        base_index = index && chance(8) ? (int32_t)below(index) : -1;
        base = base_index < 0 ? base : VK_NULL_HANDLE;
    }
#define NUMBER(of) ((of)->layout = layout, (of)->basePipelineHandle = base, (of)->basePipelineIndex = base_index)
    if (point == BIND_GRAPHICS)
        NUMBER(&info->graphics);
    else if (point == BIND_COMPUTE)
        NUMBER(&info->compute);
    else
        NUMBER(&info->ray_tracing);
}

Infos make_infos(enum BindPoint point, uint32_t count)
{
    Infos made = {point, count, array(count, create_info_size(point)), false};
    for (uint32_t i = 0; i < count; i++) {
        AnyCreateInfo *info = info_at(&made, i);
        if (point == BIND_GRAPHICS)
            make_graphics(&info->graphics);
        else if (point == BIND_COMPUTE)
            make_compute(&info->compute);
        else
            make_ray_tracing(&info->ray_tracing);
        number(point, info, i);
        const VkPipelineBinaryInfoKHR *binaries =
            (const void *)chain_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
        made.binaries_or_capture |=
            (binaries && binaries->binaryCount) ||
            (chain_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR) &&
             (flags_of(info) & CAPTURE_DATA));
    }
    return made;
}
