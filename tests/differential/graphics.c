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

static void vertex_input(Build *out, ShaderName vertex, const Words *words)
{
    bool reads = vertex == SHADER_VERT1;
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
        .topology =
            words_value(words, "strip") ? VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP : VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST,
    };
}

static void fixed_functions(Build *out, const Words *words)
{
    static const VkDynamicState dynamic[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    out->viewport = (VkPipelineViewportStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
    out->rasterization = (VkPipelineRasterizationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
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
                                                      .dynamicStateCount = 2,
                                                      .pDynamicStates = dynamic};
}

static void add_rendering(Build *out)
{
    out->color_format = VK_FORMAT_R8G8B8A8_UNORM;
    out->rendering = (VkPipelineRenderingCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                                     .colorAttachmentCount = 1,
                                                     .pColorAttachmentFormats = &out->color_format};
    add_node(out, &out->rendering);
}

/* The four libraries of a link have to be four parts of one pipeline. */
static const char *check_parts(const Build *out, const PipelineSlot **slots, uint32_t count)
{
    uint32_t parts = 0;
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
        /* VUID-VkGraphicsPipelineCreateInfo-renderpass-06625 and -06630 */
        if (!(traits->parts & PART_INPUT) && vertex && traits->dynamic_rendering != vertex->dynamic_rendering)
            return "render pass";
    }
    if (parts != ALL_PARTS || !input || !vertex)
        return "parts";
    for (uint32_t i = 0; i < count; i++)
        if (!(slots[i]->traits.parts & PART_INPUT) && slots[i]->traits.dynamic_rendering != vertex->dynamic_rendering)
            return "render pass";
    return input->vertex == vertex->vertex ? NULL : "vertex";
}

static const char *build_linked(State *state, Build *out, const Words *words, Purpose purpose)
{
    const PipelineSlot *slots[LIBRARY_PARTS];
    uint32_t count;
    const char *why = link_libraries(state, out, words, slots, &count);
    if (!why)
        why = check_parts(out, slots, count);
    if (why)
        return why;
    out->traits.fast_linked = !(out->flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT);
    /* RADV crashes on keys and binaries of these. */
    if (out->traits.fast_linked && (purpose == FOR_KEY || out->traits.captured || out->binary_info.binaryCount))
        return "fast-linked";
    if (out->flags &
        (VK_PIPELINE_CREATE_LIBRARY_BIT_KHR | VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT))
        return "flags";
    add_node(out, &out->linked);
    out->info.graphics = (VkGraphicsPipelineCreateInfo){.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                                        .layout = state->layout};
    return NULL;
}

/* A whole pipeline is one of all parts. */
static const char *build_parts(State *state, Build *out, const Words *words, Purpose purpose, uint32_t parts)
{
    int vertex = shader_named(words_value(words, "vert")), fragment = shader_named(words_value(words, "frag"));
    const char *pass = words_value(words, "pass"), *why = NULL;
    if (vertex < 0 || fragment < 0 || shaders[vertex].stage != VK_SHADER_STAGE_VERTEX_BIT ||
        shaders[fragment].stage != VK_SHADER_STAGE_FRAGMENT_BIT)
        return "shader";
    out->traits.parts = parts;
    out->traits.vertex = (ShaderName)vertex;
    out->traits.dynamic_rendering = pass && strcmp(pass, "dynamic") == 0;
    vertex_input(out, (ShaderName)vertex, words);
    fixed_functions(out, words);
    if (parts & PART_VERTEX)
        why = add_stage(state, out, (ShaderName)vertex, words, purpose);
    if (!why && (parts & PART_FRAGMENT))
        why = add_stage(state, out, (ShaderName)fragment, words, purpose);
    if (why)
        return why;
    bool beyond_input = parts != PART_INPUT;
    if (out->traits.dynamic_rendering && beyond_input)
        add_rendering(out);
    out->info.graphics = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .stageCount = out->stage_count,
        .pStages = out->stage_count ? out->stages : NULL,
        .pVertexInputState = parts & PART_INPUT ? &out->vertex_input : NULL,
        .pInputAssemblyState = parts & PART_INPUT ? &out->assembly : NULL,
        .pViewportState = parts & PART_VERTEX ? &out->viewport : NULL,
        .pRasterizationState = parts & PART_VERTEX ? &out->rasterization : NULL,
        .pMultisampleState = parts & (PART_FRAGMENT | PART_OUTPUT) ? &out->multisample : NULL,
        .pDepthStencilState = parts & PART_FRAGMENT ? &out->depth : NULL,
        .pColorBlendState = parts & PART_OUTPUT ? &out->blend : NULL,
        .pDynamicState = parts & PART_VERTEX ? &out->dynamic : NULL,
        .layout = parts & (PART_VERTEX | PART_FRAGMENT) ? state->layout : VK_NULL_HANDLE,
        .renderPass = beyond_input && !out->traits.dynamic_rendering ? state->render_pass : VK_NULL_HANDLE,
    };
    return NULL;
}

const char *build_graphics(State *state, Build *out, const Words *words, Purpose purpose)
{
    const char *list = words_value(words, "part");
    if (words_value(words, "link"))
        return state->enabled.libraries ? build_linked(state, out, words, purpose) : "feature";
    if (out->flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT)
        return "flags";
    if (!list)
        return out->traits.library || out->traits.retains ? "flags"
                                                          : build_parts(state, out, words, purpose, ALL_PARTS);
    if (!state->enabled.libraries)
        return "feature";
    /* Robustness has to be the same in all that is linked, and binaries lose what is retained. */
    if (!out->traits.library || words_value(words, "robust") || (out->traits.retains && out->binary_info.binaryCount))
        return "flags";
    out->library_parts = (VkGraphicsPipelineLibraryCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT, .flags = parts_of(list)};
    if (!out->library_parts.flags)
        return "parts";
    add_node(out, &out->library_parts);
    return build_parts(state, out, words, purpose, out->library_parts.flags);
}
