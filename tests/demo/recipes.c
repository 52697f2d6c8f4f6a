#include "recipes.h"

#include <string.h>

// ---- Stages and feedback ---------------------------------------------------------------------------------------

static VkSpecializationMapEntry map_entries[MAX_CONSTANTS] = {
    {0, 0, 4}, {1, 4, 4}, {2, 8, 4}, {3, 12, 4}, {4, 16, 4}, {5, 20, 4}, {6, 24, 4}, {7, 28, 4},
};

static VkPipelineShaderStageCreateInfo *add_stage(Recipe *recipe, const Objects *objects, ShaderName name,
                                                  uint64_t variant)
{
    uint32_t i = recipe->stage_count++;
    const Shader *shader = &shaders[name];
    shader_constants(shader, variant, recipe->constants[i]);
    recipe->specializations[i] =
        (VkSpecializationInfo){shader->constant_count, map_entries, shader->constant_count * 4, recipe->constants[i]};
    recipe->stages[i] = (VkPipelineShaderStageCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
        .stage = shader->stage,
        .module = objects->modules[name],
        .pName = "main",
        .pSpecializationInfo = shader->constant_count ? &recipe->specializations[i] : NULL,
    };
    return &recipe->stages[i];
}

// What to chain to the create info: feedback where it is asked for, then `next`.
static const void *feedback_chain(Recipe *recipe, const Options *options, uint32_t stage_count, const void *next)
{
    if (!options->feedback)
        return next;
    recipe->feedback.flags = FEEDBACK_UNTOUCHED;
    for (uint32_t i = 0; i < stage_count; ++i)
        recipe->stage_feedback[i].flags = FEEDBACK_UNTOUCHED;
    recipe->feedback_info = (VkPipelineCreationFeedbackCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pNext = next,
        .pPipelineCreationFeedback = &recipe->feedback,
        .pipelineStageCreationFeedbackCount = stage_count,
        .pPipelineStageCreationFeedbacks = stage_count ? recipe->stage_feedback : NULL,
    };
    return &recipe->feedback_info;
}

// ---- Compute ---------------------------------------------------------------------------------------------------

void compute_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number)
{
    memset(recipe, 0, sizeof *recipe);
    ShaderName name = (ShaderName)(COMP_FIRST + number % COMP_COUNT);
    uint64_t variant = shuffled(number / COMP_COUNT, shader_variants(&shaders[name]), kitchen->options->seed + name);
    const VkPipelineShaderStageCreateInfo *stage = add_stage(recipe, kitchen->objects, name, variant);
    recipe->compute = (VkComputePipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .pNext = feedback_chain(recipe, kitchen->options, 1, NULL),
        .flags = kitchen->flags,
        .stage = *stage,
        .layout = kitchen->objects->layouts[LAYOUT_COMPUTE],
        .basePipelineIndex = -1,
    };
}

// ---- Graphics: programs ----------------------------------------------------------------------------------------

typedef struct {
    ShaderName fragment;
    ShaderName vertex[2];
    Pass pass;
} GraphicsProgram;

static const GraphicsProgram graphics_programs[] = {
    {FRAG_GGX, {VERT_MESH, VERT_SKINNED}, PASS_FORWARD},        {FRAG_TONEMAP, {VERT_SCREEN, VERT_SCREEN}, PASS_SCREEN},
    {FRAG_SHADOW, {VERT_MESH, VERT_SKINNED}, PASS_FORWARD},     {FRAG_FXAA, {VERT_SCREEN, VERT_SCREEN}, PASS_SCREEN},
    {FRAG_GBUFFER, {VERT_SKINNED, VERT_MESH}, PASS_GBUFFER},    {FRAG_SSAO, {VERT_SCREEN, VERT_SCREEN}, PASS_SCREEN},
    {FRAG_TERRAIN, {VERT_TERRAIN, VERT_TERRAIN}, PASS_FORWARD}, {FRAG_BLOOM, {VERT_SCREEN, VERT_SCREEN}, PASS_SCREEN},
    {FRAG_WATER, {VERT_MESH, VERT_TERRAIN}, PASS_FORWARD},      {FRAG_VOLUME, {VERT_SCREEN, VERT_SCREEN}, PASS_SCREEN},
};
enum { GRAPHICS_PROGRAMS = sizeof graphics_programs / sizeof *graphics_programs };

// Takes a digit off a random number: a value below `choices`.
static uint32_t draw(uint64_t *random, uint32_t choices)
{
    uint32_t digit = (uint32_t)(*random % choices);
    *random /= choices;
    return digit;
}

// ---- Graphics: vertex input ------------------------------------------------------------------------------------

enum { VERTEX_FORMATS = 3 };

typedef struct {
    VkFormat format;
    uint32_t bytes;
} VertexFormat;

// Only formats that every implementation reads from vertex buffers. The rows are shader locations.
static const VertexFormat surface_formats[][VERTEX_FORMATS] = {
    {{VK_FORMAT_R32G32B32_SFLOAT, 12}, {VK_FORMAT_R16G16B16A16_SFLOAT, 8}, {VK_FORMAT_R32G32B32A32_SFLOAT, 16}},
    {{VK_FORMAT_R32G32B32_SFLOAT, 12}, {VK_FORMAT_R8G8B8A8_SNORM, 4}, {VK_FORMAT_R16G16B16A16_SNORM, 8}},
    {{VK_FORMAT_R32G32B32A32_SFLOAT, 16}, {VK_FORMAT_R8G8B8A8_SNORM, 4}, {VK_FORMAT_R16G16B16A16_SNORM, 8}},
    {{VK_FORMAT_R32G32_SFLOAT, 8}, {VK_FORMAT_R16G16_SFLOAT, 4}, {VK_FORMAT_R16G16_UNORM, 4}},
    {{VK_FORMAT_R32G32B32A32_SFLOAT, 16}, {VK_FORMAT_R8G8B8A8_UNORM, 4}, {VK_FORMAT_A2B10G10R10_UNORM_PACK32, 4}},
    {{VK_FORMAT_R8G8B8A8_UINT, 4}, {VK_FORMAT_R16G16B16A16_UINT, 8}, {VK_FORMAT_R8G8B8A8_UINT, 4}},
    {{VK_FORMAT_R8G8B8A8_UNORM, 4}, {VK_FORMAT_R16G16B16A16_UNORM, 8}, {VK_FORMAT_R32G32B32A32_SFLOAT, 16}},
};
static const VertexFormat terrain_formats[][VERTEX_FORMATS] = {
    {{VK_FORMAT_R32G32_SFLOAT, 8}, {VK_FORMAT_R16G16_SFLOAT, 4}, {VK_FORMAT_R16G16_UNORM, 4}},
};

static uint32_t attribute_count(ShaderName vertex)
{
    return vertex == VERT_MESH ? 5 : vertex == VERT_SKINNED ? 7 : vertex == VERT_TERRAIN ? 1 : 0;
}

static void vertex_input(Recipe *recipe, ShaderName vertex, uint64_t *random)
{
    const VertexFormat(*formats)[VERTEX_FORMATS] = vertex == VERT_TERRAIN ? terrain_formats : surface_formats;
    uint32_t count = attribute_count(vertex);
    // Positions alone in a buffer of their own, as renderers with a depth pass keep them.
    bool split = draw(random, 2) == 1 && count > 1;
    uint32_t offsets[2] = {0, 0};
    for (uint32_t i = 0; i < count; ++i) {
        const VertexFormat *format = &formats[i][draw(random, VERTEX_FORMATS)];
        uint32_t binding = split && i > 0 ? 1 : 0;
        recipe->attributes[i] = (VkVertexInputAttributeDescription){i, binding, format->format, offsets[binding]};
        offsets[binding] += format->bytes;
    }
    for (uint32_t i = 0; i < 2; ++i)
        recipe->bindings[i] = (VkVertexInputBindingDescription){i, offsets[i], VK_VERTEX_INPUT_RATE_VERTEX};
    recipe->vertex_input = (VkPipelineVertexInputStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
        .vertexBindingDescriptionCount = count == 0 ? 0
                                         : split    ? 2
                                                    : 1,
        .pVertexBindingDescriptions = recipe->bindings,
        .vertexAttributeDescriptionCount = count,
        .pVertexAttributeDescriptions = recipe->attributes,
    };
}

// ---- Graphics: fixed functions ---------------------------------------------------------------------------------

static void assembly(Recipe *recipe, Pass pass, uint64_t *random)
{
    static const VkPrimitiveTopology topologies[] = {
        VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST,
        VK_PRIMITIVE_TOPOLOGY_LINE_LIST};
    VkPrimitiveTopology topology =
        pass == PASS_SCREEN ? VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST : topologies[draw(random, 4)];
    recipe->assembly = (VkPipelineInputAssemblyStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
        .topology = topology,
        // VUID-VkPipelineInputAssemblyStateCreateInfo-topology-06252: never with lists.
        .primitiveRestartEnable = topology == VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP && draw(random, 2),
    };
}

static void rasterization(Recipe *recipe, uint64_t *random)
{
    static const VkCullModeFlags culls[] = {VK_CULL_MODE_BACK_BIT, VK_CULL_MODE_NONE, VK_CULL_MODE_FRONT_BIT};
    recipe->rasterization = (VkPipelineRasterizationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
        .polygonMode = VK_POLYGON_MODE_FILL,
        .cullMode = culls[draw(random, 3)],
        .frontFace = draw(random, 2) ? VK_FRONT_FACE_CLOCKWISE : VK_FRONT_FACE_COUNTER_CLOCKWISE,
        .depthBiasEnable = draw(random, 4) == 0,
        .depthBiasConstantFactor = 1.25f,
        .depthBiasSlopeFactor = 1.75f,
        .lineWidth = 1.0f,
    };
}

static void depth(Recipe *recipe, uint64_t *random)
{
    static const VkCompareOp compares[] = {VK_COMPARE_OP_LESS_OR_EQUAL, VK_COMPARE_OP_GREATER, VK_COMPARE_OP_EQUAL,
                                           VK_COMPARE_OP_ALWAYS};
    recipe->depth = (VkPipelineDepthStencilStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO,
        .depthTestEnable = VK_TRUE,
        .depthWriteEnable = draw(random, 2),
        .depthCompareOp = compares[draw(random, 4)],
    };
}

// All attachments alike: the feature independentBlend stays off
// (VUID-VkPipelineColorBlendStateCreateInfo-pAttachments-00605).
static void blend(Recipe *recipe, Pass pass, uint64_t *random)
{
    static const VkBlendFactor factors[][2] = {
        {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ZERO},
        {VK_BLEND_FACTOR_SRC_ALPHA, VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA},
        {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE},
        {VK_BLEND_FACTOR_ONE, VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA},
    };
    uint32_t mode = pass == PASS_GBUFFER ? 0 : draw(random, 4);
    for (uint32_t i = 0; i < pass_colors(pass); ++i)
        recipe->blend_attachments[i] = (VkPipelineColorBlendAttachmentState){
            .blendEnable = mode != 0,
            .srcColorBlendFactor = factors[mode][0],
            .dstColorBlendFactor = factors[mode][1],
            .srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE,
            .dstAlphaBlendFactor = factors[mode][1],
            .colorWriteMask = VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_B_BIT |
                              VK_COLOR_COMPONENT_A_BIT,
        };
    recipe->blend = (VkPipelineColorBlendStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
        .attachmentCount = pass_colors(pass),
        .pAttachments = recipe->blend_attachments,
    };
}

static void fixed_functions(Recipe *recipe, Pass pass, uint32_t samples, uint64_t *random)
{
    static const VkDynamicState dynamic[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    assembly(recipe, pass, random);
    rasterization(recipe, random);
    depth(recipe, random);
    blend(recipe, pass, random);
    recipe->viewport = (VkPipelineViewportStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
    recipe->multisample = (VkPipelineMultisampleStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
        .rasterizationSamples = samples ? VK_SAMPLE_COUNT_4_BIT : VK_SAMPLE_COUNT_1_BIT,
        .alphaToCoverageEnable = samples && pass == PASS_FORWARD && draw(random, 2),
    };
    recipe->dynamic = (VkPipelineDynamicStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                         .dynamicStateCount = 2,
                                                         .pDynamicStates = dynamic};
}

void graphics_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number)
{
    memset(recipe, 0, sizeof *recipe);
    uint64_t seed = kitchen->options->seed, random = mixed(seed * 1000003u + number);
    const GraphicsProgram *program = &graphics_programs[number % GRAPHICS_PROGRAMS];
    // The fragment shader alone makes the pipeline distinct: drivers may ignore a difference in state.
    uint64_t variant =
        shuffled(number / GRAPHICS_PROGRAMS, shader_variants(&shaders[program->fragment]), seed + program->fragment);
    ShaderName vertex = program->vertex[draw(&random, 2)];
    add_stage(recipe, kitchen->objects, vertex, mixed(random));
    add_stage(recipe, kitchen->objects, program->fragment, variant);
    uint32_t format = draw(&random, COLOR_FORMATS), samples = draw(&random, SAMPLE_COUNTS);
    vertex_input(recipe, vertex, &random);
    uint64_t more = mixed(random);
    fixed_functions(recipe, program->pass, samples, &more);
    recipe->graphics = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .pNext = feedback_chain(recipe, kitchen->options, 2, NULL),
        .flags = kitchen->flags,
        .stageCount = 2,
        .pStages = recipe->stages,
        .pVertexInputState = &recipe->vertex_input,
        .pInputAssemblyState = &recipe->assembly,
        .pViewportState = &recipe->viewport,
        .pRasterizationState = &recipe->rasterization,
        .pMultisampleState = &recipe->multisample,
        .pDepthStencilState = program->pass == PASS_SCREEN ? NULL : &recipe->depth,
        .pColorBlendState = &recipe->blend,
        .pDynamicState = &recipe->dynamic,
        .layout = kitchen->objects->layouts[LAYOUT_GRAPHICS],
        .renderPass = kitchen->objects->passes[program->pass][format][samples],
        .basePipelineIndex = -1,
    };
}

// ---- Graphics pipeline libraries -------------------------------------------------------------------------------

void library_recipe(Recipe *recipe, const Recipe *whole, const Kitchen *kitchen, uint32_t part)
{
    static const VkGraphicsPipelineLibraryFlagBitsEXT parts[LIBRARY_PARTS] = {
        VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT,
        VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT,
        VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT,
        VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT};
    memset(recipe, 0, sizeof *recipe);
    const VkGraphicsPipelineCreateInfo *all = &whole->graphics;
    recipe->library = (VkGraphicsPipelineLibraryCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT, .flags = parts[part]};
    bool vertex = part == 1, fragment = part == 2, output = part == 3;
    recipe->stage_count = vertex || fragment ? 1 : 0;
    recipe->graphics = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .pNext = feedback_chain(recipe, kitchen->options, recipe->stage_count, &recipe->library),
        .flags = all->flags | VK_PIPELINE_CREATE_LIBRARY_BIT_KHR |
                 VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT,
        .stageCount = recipe->stage_count,
        .pStages = vertex     ? &whole->stages[0]
                   : fragment ? &whole->stages[1]
                              : NULL,
        .pVertexInputState = part == 0 ? all->pVertexInputState : NULL,
        .pInputAssemblyState = part == 0 ? all->pInputAssemblyState : NULL,
        .pViewportState = vertex ? all->pViewportState : NULL,
        .pRasterizationState = vertex ? all->pRasterizationState : NULL,
        .pMultisampleState = fragment || output ? all->pMultisampleState : NULL,
        .pDepthStencilState = fragment ? all->pDepthStencilState : NULL,
        .pColorBlendState = output ? all->pColorBlendState : NULL,
        .pDynamicState = vertex ? all->pDynamicState : NULL,
        .layout = vertex || fragment ? all->layout : VK_NULL_HANDLE,
        .renderPass = part == 0 ? VK_NULL_HANDLE : all->renderPass,
        .basePipelineIndex = -1,
    };
}

void linked_recipe(Recipe *recipe, const Kitchen *kitchen, const VkPipeline parts[LIBRARY_PARTS], bool optimized)
{
    memset(recipe, 0, sizeof *recipe);
    memcpy(recipe->linked_parts, parts, sizeof recipe->linked_parts);
    recipe->linked = (VkPipelineLibraryCreateInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                                      .libraryCount = LIBRARY_PARTS,
                                                      .pLibraries = recipe->linked_parts};
    recipe->graphics = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .pNext = feedback_chain(recipe, kitchen->options, 0, &recipe->linked),
        .flags = kitchen->flags | (optimized ? VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT : 0),
        .layout = kitchen->objects->layouts[LAYOUT_GRAPHICS],
        .basePipelineIndex = -1,
    };
}

// ---- Ray tracing -----------------------------------------------------------------------------------------------

void ray_tracing_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number)
{
    memset(recipe, 0, sizeof *recipe);
    uint64_t seed = kitchen->options->seed, cameras = shader_variants(&shaders[RAYS_CAMERA]);
    uint64_t variant = shuffled(number, cameras * shader_variants(&shaders[RAYS_SKY]), seed);
    add_stage(recipe, kitchen->objects, RAYS_CAMERA, variant % cameras);
    add_stage(recipe, kitchen->objects, RAYS_SKY, variant / cameras);
    add_stage(recipe, kitchen->objects, RAYS_SHADOW, 0);
    uint64_t surfaces = shader_variants(&shaders[RAYS_SURFACE]), hits = 2 + number % (MAX_HIT_GROUPS - 1);
    for (uint64_t i = 0; i < hits; ++i)
        add_stage(recipe, kitchen->objects, RAYS_SURFACE, shuffled(number * MAX_HIT_GROUPS + i, surfaces, seed));
    for (uint32_t i = 0; i < recipe->stage_count; ++i)
        recipe->groups[i] = ray_group(i >= RAY_GROUPS_BEFORE_HITS, i);
    recipe->rays = (VkRayTracingPipelineCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR,
        .pNext = feedback_chain(recipe, kitchen->options, recipe->stage_count, NULL),
        .flags = kitchen->flags,
        .stageCount = recipe->stage_count,
        .pStages = recipe->stages,
        .groupCount = recipe->stage_count,
        .pGroups = recipe->groups,
        .maxPipelineRayRecursionDepth = kitchen->ray_recursion,
        .layout = kitchen->objects->layouts[LAYOUT_RAYS],
        .basePipelineIndex = -1,
    };
}
