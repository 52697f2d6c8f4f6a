/* graphics.c - graphics pipelines: whole, in the four parts of a library, and linked from these. */
#include "build.h"

#include <string.h>

enum {
    PART_INPUT = VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT,
    PART_VERTEX = VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT,
    PART_FRAGMENT = VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT,
    PART_OUTPUT = VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT,
    ALL_PARTS = PART_INPUT | PART_VERTEX | PART_FRAGMENT | PART_OUTPUT,
};

static uint32_t parts_of(const char *list)
{
    if (!list)
        return ALL_PARTS;
    return (listed(list, "input") ? PART_INPUT : 0) | (listed(list, "vertex") ? PART_VERTEX : 0) |
           (listed(list, "fragment") ? PART_FRAGMENT : 0) | (listed(list, "output") ? PART_OUTPUT : 0);
}

/* ---- states ---------------------------------------------------------------------------------------------------- */

static void vertex_input(Build *out, const Words *words)
{
    bool reads = out->traits.vertex == VERT1 || out->traits.vertex == SCENE_VERTEX;
    out->vertex_binding = (VkVertexInputBindingDescription){.stride = 16};
    out->vertex_attribute = (VkVertexInputAttributeDescription){.format = VK_FORMAT_R32G32B32A32_SFLOAT};
    out->vertex_input = (VkPipelineVertexInputStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
        .vertexBindingDescriptionCount = reads,
        .pVertexBindingDescriptions = &out->vertex_binding,
        .vertexAttributeDescriptionCount = reads,
        .pVertexAttributeDescriptions = &out->vertex_attribute,
    };
    out->assembly = (VkPipelineInputAssemblyStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
        .topology = words_value(words, "tesc")    ? VK_PRIMITIVE_TOPOLOGY_PATCH_LIST
                    : words_value(words, "strip") ? VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP
                                                  : VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST,
    };
    out->tessellation =
        (VkPipelineTessellationStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_TESSELLATION_STATE_CREATE_INFO,
                                                .patchControlPoints = words_number(words, "patches", 3)};
}

/* With `static` the area is a part of the pipeline. */
static void viewport(Build *out)
{
    out->area = (VkViewport){0, 0, CANVAS_SIDE, CANVAS_SIDE, 0, 1};
    out->scissor = (VkRect2D){{0, 0}, {CANVAS_SIDE, CANVAS_SIDE}};
    out->viewport = (VkPipelineViewportStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
                                                        .viewportCount = 1,
                                                        .pViewports = &out->area,
                                                        .scissorCount = 1,
                                                        .pScissors = &out->scissor};
}

static void fixed_functions(Build *out, const Words *words)
{
    static const VkDynamicState dynamic[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR,
                                             VK_DYNAMIC_STATE_PRIMITIVE_TOPOLOGY,
                                             VK_DYNAMIC_STATE_PRIMITIVE_RESTART_ENABLE};
    const uint32_t first = words_value(words, "static") ? 2 : 0, end = words_value(words, "any-topology") ? 4 : 2;
    viewport(out);
    out->rasterization =
        (VkPipelineRasterizationStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                                                 .rasterizerDiscardEnable = words_value(words, "discard") != NULL,
                                                 .lineWidth = 1};
    out->multisample =
        (VkPipelineMultisampleStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                                               .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    /* VUID-VkGraphicsPipelineCreateInfo-renderPass-09035: a fragment library has it, though there is no depth. */
    out->depth =
        (VkPipelineDepthStencilStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO};
    out->blend_attachment = (VkPipelineColorBlendAttachmentState){.blendEnable = words_value(words, "blend") != NULL,
                                                                  .srcColorBlendFactor = VK_BLEND_FACTOR_ONE,
                                                                  .dstColorBlendFactor = VK_BLEND_FACTOR_ONE,
                                                                  .colorWriteMask = 0xf};
    out->blend =
        (VkPipelineColorBlendStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                              .attachmentCount = 1,
                                              .pAttachments = &out->blend_attachment};
    out->dynamic = (VkPipelineDynamicStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                      .dynamicStateCount = end - first,
                                                      .pDynamicStates = dynamic + first};
}

/* color=half|undefined|none, mask=VIEWS, locations */
static const char *add_rendering(const State *state, Build *out, const Words *words)
{
    const char *color = words_value(words, "color");
    uint32_t mask = words_number(words, "mask", 0);
    bool none = color && strcmp(color, "none") == 0;
    out->color_format = !color                       ? COLOR_FORMAT
                        : strcmp(color, "half") == 0 ? VK_FORMAT_R16G16B16A16_SFLOAT
                                                     : VK_FORMAT_UNDEFINED;
    out->blend.attachmentCount = none ? 0 : 1;
    out->rendering = (VkPipelineRenderingCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                                     .viewMask = mask,
                                                     .colorAttachmentCount = none ? 0 : 1,
                                                     .pColorAttachmentFormats = &out->color_format};
    out->traits.two_views |= mask == 3;
    add_node(&out->nodes, &out->rendering);
    if (words_value(words, "locations")) {
        if (!state->device->has[LOCAL_READ])
            return "feature";
        out->attachment_locations =
            (AttachmentLocations){TYPE_ATTACHMENT_LOCATIONS, NULL, 1, &out->attachment_location};
        add_node(&out->nodes, &out->attachment_locations);
    }
    return mask && !state->device->has[MULTIVIEW] ? "feature" : NULL;
}

/* ---- stages ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    VkShaderStageFlagBits stage;
    uint32_t part;
} stage_words[] = {
    {"vert", VK_SHADER_STAGE_VERTEX_BIT, PART_VERTEX},
    {"tesc", VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT, PART_VERTEX},
    {"tese", VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT, PART_VERTEX},
    {"geom", VK_SHADER_STAGE_GEOMETRY_BIT, PART_VERTEX},
    {"task", VK_SHADER_STAGE_TASK_BIT_EXT, PART_VERTEX},
    {"mesh", VK_SHADER_STAGE_MESH_BIT_EXT, PART_VERTEX},
    {"frag", VK_SHADER_STAGE_FRAGMENT_BIT, PART_FRAGMENT},
};

static const char *add_stages(State *state, Build *out, const Words *words, Purpose purpose, uint32_t parts)
{
    const char *why = NULL;
    for (size_t i = 0; !why && i < COUNT_OF(stage_words); i++) {
        const char *word = words_value(words, stage_words[i].word);
        int name = shader_named(word);
        if (!word)
            continue;
        if (name < 0 || shaders[name].stage != stage_words[i].stage)
            return "shader";
        if (stage_words[i].part & parts)
            why = add_stage(state, out, (ShaderName)name, words, purpose);
    }
    return why;
}

/* ---- links ----------------------------------------------------------------------------------------------------- */

/* Libraries, and parts that the create info has itself, have to be the four parts of one pipeline; of a
 * library some. */
static const char *check_parts(const Build *out, const PipelineSlot **slots, uint32_t count, uint32_t own)
{
    uint32_t parts = own;
    const PipelineTraits *input = NULL, *vertex = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const PipelineTraits *traits = &slots[i]->traits;
        if (parts & traits->parts)
            return "parts";
        parts |= traits->parts;
        input = traits->parts & PART_INPUT ? traits : input;
        vertex = traits->parts & PART_VERTEX ? traits : vertex;
        /* VUID-VkGraphicsPipelineCreateInfo-flags-06609 */
        if ((out->flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT) && !traits->retains)
            return "VUID-VkGraphicsPipelineCreateInfo-flags-06609";
        /* VUID-VkGraphicsPipelineCreateInfo-flags-06610 */
        if (traits->retains != slots[0]->traits.retains)
            return "VUID-VkGraphicsPipelineCreateInfo-flags-06610";
    }
    if (out->traits.library)
        return count ? NULL : "parts";
    if (parts != ALL_PARTS || !input || !vertex)
        return "parts";
    /* VUID-VkGraphicsPipelineCreateInfo-renderpass-06625 and -06630 */
    for (uint32_t i = 0; i < count; i++)
        if (slots[i]->traits.parts != PART_INPUT && slots[i]->traits.dynamic_rendering != vertex->dynamic_rendering)
            return "render pass";
    return input->vertex == vertex->vertex ? NULL : "vertex";
}

static void take_traits(PipelineTraits *traits, const PipelineSlot **slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        traits->parts |= slots[i]->traits.parts;
        traits->dynamic_rendering |= slots[i]->traits.dynamic_rendering;
        traits->two_views |= slots[i]->traits.two_views;
        traits->static_area |= slots[i]->traits.static_area;
        traits->any_topology |= slots[i]->traits.any_topology;
        if (slots[i]->traits.parts & PART_VERTEX)
            traits->vertex = slots[i]->traits.vertex;
    }
}

static const char *build_linked(State *state, Build *out, const Words *words, Purpose purpose, uint32_t own)
{
    const PipelineSlot *slots[LIBRARY_PARTS];
    uint32_t count;
    const char *why = link_libraries(state, out, words, slots, &count);
    if (!why)
        why = check_parts(out, slots, count, own);
    if (why)
        return why;
    out->traits.fast_linked = !(out->flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT);
    /* RADV crashes on keys and binaries of these. */
    if (out->traits.fast_linked && (purpose == FOR_KEY || out->traits.captured || out->binary_info.binaryCount))
        return "fast-linked";
    take_traits(&out->traits, slots, count);
    add_node(&out->nodes, &out->linked);
    return NULL;
}

/* ---- the create info --------------------------------------------------------------------------------------------- */

#define NO_POINTER ((const void *)16)

/* VUID-VkGraphicsPipelineCreateInfo-pStages-02095: mesh shaders have no vertex input. Without rasterization its states
 * are ignored, and may be no pointers at all, as those of attachments that a subpass does not use. */
static void fill_info(const State *state, Build *out, const Words *words, uint32_t parts, Pass pass)
{
    bool vertices = !words_value(words, "mesh"), raster = !words_value(words, "discard");
    bool beyond_input = parts & ~(uint32_t)PART_INPUT, in_pass = beyond_input && !out->traits.dynamic_rendering;
    bool unused = in_pass && pass == PASS_UNUSED;
    bool has_layout = parts & (PART_VERTEX | PART_FRAGMENT) || out->linked.libraryCount;
    out->info.graphics = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .stageCount = out->stage_count,
        .pStages = out->stage_count ? out->stages : NULL,
        .pVertexInputState = parts & PART_INPUT && vertices ? &out->vertex_input : NULL,
        .pInputAssemblyState = parts & PART_INPUT && vertices ? &out->assembly : NULL,
        .pTessellationState = parts & PART_VERTEX && words_value(words, "tesc") ? &out->tessellation : NULL,
        .pViewportState = parts & PART_VERTEX && raster ? &out->viewport : NULL,
        .pRasterizationState = parts & PART_VERTEX ? &out->rasterization : NULL,
        .pMultisampleState = parts & (PART_FRAGMENT | PART_OUTPUT) && raster ? &out->multisample : NULL,
        .pDepthStencilState = unused                  ? NO_POINTER
                              : parts & PART_FRAGMENT ? &out->depth
                                                      : NULL,
        .pColorBlendState = unused                          ? NO_POINTER
                            : parts & PART_OUTPUT && raster ? &out->blend
                                                            : NULL,
        .pDynamicState = parts & PART_VERTEX && raster ? &out->dynamic : NULL,
        .layout = has_layout ? layout_of(state, out) : VK_NULL_HANDLE,
        .renderPass = in_pass ? objects.passes[pass] : VK_NULL_HANDLE,
        .subpass = in_pass ? words_number(words, "subpass", 0) : 0,
    };
}

/* False: there is no such word. None is as plain. */
static bool read_pass(const char *word, Pass *pass, bool *dynamic)
{
    *dynamic = word && strcmp(word, "dynamic") == 0;
    *pass = PASS_PLAIN;
    if (!word || *dynamic || strcmp(word, "plain") == 0)
        return true;
    *pass = strcmp(word, "views") == 0 ? PASS_VIEWS : strcmp(word, "unused") == 0 ? PASS_UNUSED : PASS_SUBPASSES;
    return *pass != PASS_SUBPASSES || strcmp(word, "subpasses") == 0;
}

/* A whole pipeline is one of all parts, a link one of those that its libraries lack. */
static const char *build_parts(State *state, Build *out, const Words *words, Purpose purpose, uint32_t parts)
{
    int vertex = shader_named(words_value(words, "vert"));
    Pass pass;
    bool dynamic;
    if (!read_pass(words_value(words, "pass"), &pass, &dynamic))
        return "pass";
    if (parts && vertex < 0 && !words_value(words, "mesh"))
        return "shader";
    out->traits.parts |= parts;
    if (vertex >= 0)
        out->traits.vertex = (ShaderName)vertex;
    out->traits.dynamic_rendering |= dynamic;
    out->traits.two_views |= pass == PASS_VIEWS;
    out->traits.static_area |= words_value(words, "static") != NULL;
    out->traits.any_topology |= words_value(words, "any-topology") != NULL;
    if (pass == PASS_VIEWS && !state->device->has[MULTIVIEW])
        return "feature";
    vertex_input(out, words);
    fixed_functions(out, words);
    const char *why = add_stages(state, out, words, purpose, parts);
    if (!why && out->traits.dynamic_rendering && parts & ~(uint32_t)PART_INPUT)
        why = add_rendering(state, out, words);
    fill_info(state, out, words, parts, pass);
    return why;
}

const char *build_graphics(State *state, Build *out, const Words *words, Purpose purpose)
{
    const char *list = words_value(words, "part"), *link = words_value(words, "link");
    const uint64_t optimizes = VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT;
    const uint64_t of_libraries =
        VK_PIPELINE_CREATE_LIBRARY_BIT_KHR | VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT;
    if (!list && !link)
        return out->flags & (of_libraries | optimizes) ? "flags" : build_parts(state, out, words, purpose, ALL_PARTS);
    if (!state->device->has[LIBRARIES])
        return "feature";
    uint32_t own = list ? parts_of(list) : 0;
    const char *why = link ? build_linked(state, out, words, purpose, own) : NULL;
    if (why || (list && !own))
        return why ? why : "parts";
    /* Robustness has to be the same in all that is linked, and binaries lose what is retained. */
    if (!link && (!out->traits.library || words_value(words, "robust") || (out->flags & optimizes) ||
                  (out->traits.retains && out->binary_info.binaryCount)))
        return "flags";
    out->library_parts = (VkGraphicsPipelineLibraryCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT, .flags = own};
    if (own)
        add_node(&out->nodes, &out->library_parts);
    return build_parts(state, out, words, purpose, own);
}
