/* infos.c - see fuzz.h. What structures hold is in the layer's table of them: any of them may be in a chain. */
#include "fuzz.h"
#include "shim/layer/vulkan/walk.c"

/* ---- chains ------------------------------------------------------------------------------------ */

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

unsigned chain_touch(const void *chain)
{
    unsigned count = 0;
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        touch(node, size_of(node->sType));
        expect(++count < 10000, "a chain without an end");
    }
    return count;
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

/* ---- structures of the table -------------------------------------------------------------------- */

static void fill(size_t index, char *data);

/* Small numbers mostly, at a few places. */
static void put_numbers(char *data, size_t size)
{
    for (unsigned i = size < 4 ? 0 : below(4); i > 0; i--)
        ((uint32_t *)(void *)data)[below((uint32_t)size / 4)] = chance(14) ? below(20) : take32();
}

static void add_one_of(Chain *chain, const VkStructureType *types, uint32_t count)
{
    size_t index = chance(12) ? find_structure(types[below(count)]) : take32() % STRUCTURE_COUNT;
    VkStructureType type = (VkStructureType)structures[index].type;
    /* sType-unique */
    if (chance(4) || structures[index].type == NO_TYPE || pnext_find(chain->first, type)) {
        chain_add_unknown(chain);
        return;
    }
    void *node = room(structures[index].size);
    fill(index, node);
    chain_add(chain, node, type);
}

/* Any order, unknown structs anywhere. */
static void *make_chain(const VkStructureType *types, uint32_t count)
{
    Chain chain = {0};
    for (unsigned i = 0; i < 10 && chance(11); i++)
        add_one_of(&chain, types, count);
    return chain.first;
}

void chain_add_device_features(Chain *chain)
{
    static const VkStructureType types[] = {
        VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR,
        49,
        51,
        53,
        55,
        1000028000,
        1000044003,
        1000059000,
        1000297000,
        1000470000,
        1000483000,
        1000462000,
        1000068001,
        1000347000,
        1000161001,
    };
    for (unsigned added = 0; added < 24 && chance(12); added++)
        add_one_of(chain, types, sizeof types / sizeof types[0]);
}

/* Of the program's objects, where it has them. */
static enum ObjectKind object_kind(const Member *member)
{
    uint32_t type = (uint32_t)member->target << 16 | member->size;
    return type == VK_OBJECT_TYPE_PIPELINE        ? OBJECT_PIPELINE
           : type == VK_OBJECT_TYPE_SHADER_MODULE ? OBJECT_MODULE
           : type == 1000483000u                  ? OBJECT_BINARY
                                                  : OBJECT_KINDS;
}

static void put_count(const Member *member, char *data)
{
    uint32_t count = below(member->counting == BITS ? 70 : 4);
    if (member->kind == HANDLES && object_kind(member) != OBJECT_KINDS && !own[object_kind(member)].count)
        count = 0;
    count *= member->kind == CONSTANTS || member->size == 1 ? 4 : 1;
    if (member->counting == UINT64)
        *(uint64_t *)(void *)(data + member->count) = count;
    else
        *(uint32_t *)(void *)(data + member->count) = count;
}

static void put_elements(const Member *member, char *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, data += element_size(member)) {
        if (member->kind == STRUCTURES)
            fill(member->target, data);
        else if (member->kind == STRINGS)
            *(const char **)(void *)data = chance(8) ? "main" : "";
        else if (member->kind == HANDLES)
            *(uint64_t *)(void *)data = object_kind(member) != OBJECT_KINDS ? any_of(object_kind(member)) : take8();
    }
}

static void put_member(const Member *member, char *data)
{
    /* Of a union there is only the member that another one names. */
    if (member->when != NO_MEMBER && member->value != ANY_VALUE && number_at(data, member->when) != member->value)
        return;
    if (member->counting == HERE) {
        put_elements(member, data + member->offset, 1);
        return;
    }
    uint64_t count = member->counting == ONE ? chance(12) : count_of(member, data);
    char *elements = member->counting == ONE && !count ? NULL : array(count, element_size(member));
    if (member->kind == PLAIN || member->kind == CONSTANTS)
        put_numbers(elements, count * element_size(member));
    else
        put_elements(member, elements, count);
    *(void **)(void *)(data + member->offset) = elements;
}

/* What small numbers seldom are, and what is not in the table. */
static void mend(VkStructureType type, void *data)
{
    static const VkShaderStageFlagBits bits[] = {VK_SHADER_STAGE_VERTEX_BIT, VK_SHADER_STAGE_FRAGMENT_BIT,
                                                 VK_SHADER_STAGE_COMPUTE_BIT, VK_SHADER_STAGE_MESH_BIT_NV};
    static const VkDynamicState states[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY_EXT,
                                            VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT,
                                            VK_DYNAMIC_STATE_RASTERIZATION_SAMPLES_EXT,
                                            VK_DYNAMIC_STATE_PRIMITIVE_RESTART_ENABLE_EXT};
    static const VkStructureType of_stages[] = {
        VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT};
    VkPipelineShaderStageCreateInfo *stage = data;
    VkPipelineDynamicStateCreateInfo *dynamic = data;
    VkPipelineCreationFeedbackCreateInfoEXT *feedback = data;
    switch ((int)type) {
    case VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO:
        stage->pNext = make_chain(of_stages, 2);
        stage->stage = chance(15) ? bits[below(4)] : stage->stage;
        stage->module = chance(12) ? stage->module : VK_NULL_HANDLE;
        break;
    case VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO:
        for (uint32_t i = 0; i < dynamic->dynamicStateCount; i++)
            ((VkDynamicState *)(uintptr_t)dynamic->pDynamicStates)[i] = states[below(5)];
        break;
    case VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR:
        ((VkPipelineCreateFlags2CreateInfoKHR *)data)->flags =
            make_flags() | (chance(2) ? CAPTURE_DATA : 0) | (chance(1) ? take64() << 32 : 0);
        break;
    case VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT:
        feedback->pPipelineCreationFeedback = room(sizeof *feedback->pPipelineCreationFeedback);
        feedback->pPipelineCreationFeedback->flags = take8();
        feedback->pipelineStageCreationFeedbackCount = below(20);
        feedback->pPipelineStageCreationFeedbacks =
            array(feedback->pipelineStageCreationFeedbackCount, sizeof *feedback->pPipelineStageCreationFeedbacks);
        break;
    case VK_STRUCTURE_TYPE_RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR: /* the layer has no business there */
        ((VkRayTracingShaderGroupCreateInfoKHR *)data)->pShaderGroupCaptureReplayHandle = anywhere();
    }
}

/* A structure with all that it points to. Numbers first: some say how many elements others have, or which there are. */
static void fill(size_t index, char *data)
{
    const Structure *structure = &structures[index];
    const Member *first = members + structure->first, *end = first + structure->count;
    if (structure->type != NO_TYPE)
        ((VkBaseOutStructure *)(void *)data)->sType = (VkStructureType)structure->type;
    for (const Member *member = first; member < end; member++)
        if (member->kind == PLAIN && member->counting == HERE)
            put_numbers(data + member->offset, member->size);
    for (const Member *member = first; member < end; member++)
        if (member->counting > ONE)
            put_count(member, data);
    for (const Member *member = first; member < end; member++)
        if (member->kind != PLAIN || member->counting != HERE)
            put_member(member, data);
    mend((VkStructureType)structure->type, data);
}

/* ---- create infos ------------------------------------------------------------------------------- */

static bool is_dynamic(const VkPipelineDynamicStateCreateInfo *dynamic, VkDynamicState state)
{
    for (uint32_t i = 0; dynamic && i < dynamic->dynamicStateCount; i++)
        if (dynamic->pDynamicStates[i] == state)
            return true;
    return false;
}

/* Pointers that the specification lets be anything are. Which it reads is said at each. */
static void lose_pointers(VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineLibraryCreateInfoKHR *libraries =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    const VkGraphicsPipelineLibraryCreateInfoEXT *part =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
    /* VkGraphicsPipelineLibraryCreateInfoEXT: without it, all state, or none of its own when it links libraries. */
    bool links = libraries && libraries->libraryCount;
    bool is_library = flags_of((AnyCreateInfo *)(void *)info) & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    uint32_t subsets = part ? part->flags : links || is_library ? 0 : 15;
    bool vertex_input = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT;
    bool pre_rasterization = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT;
    bool fragment_shader = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT;
    bool fragment_output = subsets & VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT;
    VkShaderStageFlags stages = 0;
    for (uint32_t i = 0; i < info->stageCount; i++)
        stages |= info->pStages[i].stage;
    bool mesh = pre_rasterization && stages & VK_SHADER_STAGE_MESH_BIT_NV;
    const VkShaderStageFlags both =
        VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT | VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT;
    const VkPipelineRasterizationStateCreateInfo *raster = info->pRasterizationState;
    bool rasterizes = !pre_rasterization || !raster || !raster->rasterizerDiscardEnable ||
                      is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_RASTERIZER_DISCARD_ENABLE_EXT);
    VkPipelineRenderingCreateInfoKHR *rendering =
        (void *)(uintptr_t)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
    info->renderPass = (VkRenderPass)(uintptr_t)(chance(8) ? 0x77 : 0);
    /* VUID-VkGraphicsPipelineCreateInfo-renderPass-06579: read for fragment output state and dynamic rendering */
    bool has_colors = rendering && info->renderPass == VK_NULL_HANDLE && fragment_output && rasterizes;
#define READ_IF(condition, pointer) ((condition) ? (void)0 : (void)((pointer) = anywhere()))
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-06600 */
    READ_IF(pre_rasterization || fragment_shader, info->pStages);
    info->stageCount += pre_rasterization || fragment_shader ? 0 : 1;
    /* VUID-VkGraphicsPipelineCreateInfo-pInputAssemblyState-09032: no mesh stage */
    READ_IF(vertex_input && !mesh, info->pInputAssemblyState);
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-02097 */
    READ_IF(vertex_input && !mesh && !links && !is_dynamic(info->pDynamicState, VK_DYNAMIC_STATE_VERTEX_INPUT_EXT),
            info->pVertexInputState);
    /* VUID-VkGraphicsPipelineCreateInfo-pStages-09022 */
    READ_IF(pre_rasterization && (stages & both) == both, info->pTessellationState);
    READ_IF(pre_rasterization, info->pRasterizationState);
    /* VUID-VkGraphicsPipelineCreateInfo-rasterizerDiscardEnable-09024 */
    READ_IF(pre_rasterization && rasterizes, info->pViewportState);
    /* VUID-VkGraphicsPipelineCreateInfo-renderPass-09028, -09035, -06590: the layer knows less than these */
    READ_IF(fragment_shader && rasterizes, info->pDepthStencilState);
    READ_IF((fragment_shader || fragment_output) && rasterizes, info->pMultisampleState);
    if (rendering)
        READ_IF(has_colors, rendering->pColorAttachmentFormats);
    /* VUID-VkPipelineColorBlendStateCreateInfo-pAttachments-07353, unless all of its states are dynamic */
    READ_IF(has_colors && rendering->colorAttachmentCount, info->pColorBlendState);
}

AnyCreateInfo *info_at(const Infos *infos, uint32_t index)
{
    return (AnyCreateInfo *)(void *)((char *)infos->infos + index * create_info_size(infos->point));
}

uint64_t flags_of(const AnyCreateInfo *info)
{
    const VkPipelineCreateFlags2CreateInfoKHR *flags2 =
        (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
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
    /* The last two are of graphics alone. */
    static const VkStructureType of_pipelines[] = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
                                                   VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT,
                                                   VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                                   VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                                   VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
                                                   VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR};
    Infos made = {point, count, array(count, create_info_size(point)), false};
    for (uint32_t i = 0; i < count; i++) {
        AnyCreateInfo *info = info_at(&made, i);
        fill(create_info_structure(point), (char *)info);
        info->head.flags = (VkPipelineCreateFlags)make_flags();
        info->head.pNext = make_chain(of_pipelines, point == BIND_GRAPHICS ? 6 : 4);
        if (point == BIND_GRAPHICS)
            lose_pointers(&info->graphics);
        number(point, info, i);
        const VkPipelineBinaryInfoKHR *binaries =
            (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
        made.binaries_or_capture |=
            (binaries && binaries->binaryCount) ||
            (pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR) &&
             (flags_of(info) & CAPTURE_DATA));
    }
    return made;
}
