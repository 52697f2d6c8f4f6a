/* states.c - create infos of the plainest kind, for the modes to change. */
#include "paths.h"

static void variant_init(Variant *variant, uint32_t value)
{
    variant->value = value;
    variant->entry = (VkSpecializationMapEntry){0, 0, sizeof variant->value};
    variant->info = (VkSpecializationInfo){1, &variant->entry, sizeof variant->value, &variant->value};
}

VkPipelineShaderStageCreateInfo stage_of(const Context *context, enum Shader shader, const Variant *variant)
{
    static const VkShaderStageFlagBits stages[SHADER_COUNT] = {
        [KERNEL] = VK_SHADER_STAGE_COMPUTE_BIT,
        [WIDE_KERNEL] = VK_SHADER_STAGE_COMPUTE_BIT,
        [SCENE_VERTEX] = VK_SHADER_STAGE_VERTEX_BIT,
        [VIEWS_VERTEX] = VK_SHADER_STAGE_VERTEX_BIT,
        [SCENE_FRAGMENT] = VK_SHADER_STAGE_FRAGMENT_BIT,
        [PATCH_CONTROL] = VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT,
        [PATCH_EVALUATION] = VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT,
        [TILES_TASK] = VK_SHADER_STAGE_TASK_BIT_EXT,
        [TILES_MESH] = VK_SHADER_STAGE_MESH_BIT_EXT,
    };
    return (VkPipelineShaderStageCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                             .stage = stages[shader],
                                             .module = context->modules[shader],
                                             .pName = "main",
                                             .pSpecializationInfo = variant ? &variant->info : NULL};
}

void kernel_init(Kernel *kernel, const Context *context, uint32_t variant)
{
    variant_init(&kernel->variant, variant);
    kernel->info = (VkComputePipelineCreateInfo){.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                 .stage = stage_of(context, KERNEL, &kernel->variant),
                                                 .layout = context->layout,
                                                 .basePipelineIndex = -1};
}

void scene_set_stages(Scene *scene, const Context *context, uint32_t count, const enum Shader *shaders)
{
    for (uint32_t i = 0; i < count; i++)
        scene->stages[i] = stage_of(context, shaders[i], &scene->variant);
    scene->info.stageCount = count;
}

static void init_fixed_functions(Scene *scene)
{
    static const VkDynamicState dynamic[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
    scene->binding = (VkVertexInputBindingDescription){0, 16, VK_VERTEX_INPUT_RATE_VERTEX};
    scene->attribute = (VkVertexInputAttributeDescription){0, 0, VK_FORMAT_R32G32B32A32_SFLOAT, 0};
    scene->vertex_input =
        (VkPipelineVertexInputStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
                                               .vertexBindingDescriptionCount = 1,
                                               .pVertexBindingDescriptions = &scene->binding,
                                               .vertexAttributeDescriptionCount = 1,
                                               .pVertexAttributeDescriptions = &scene->attribute};
    scene->assembly =
        (VkPipelineInputAssemblyStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
                                                 .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    scene->tessellation = (VkPipelineTessellationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_TESSELLATION_STATE_CREATE_INFO, .patchControlPoints = 3};
    scene->viewport = (VkPipelineViewportStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO, .viewportCount = 1, .scissorCount = 1};
    scene->rasterization = (VkPipelineRasterizationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
    scene->multisample =
        (VkPipelineMultisampleStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                                               .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    scene->blend_attachment = (VkPipelineColorBlendAttachmentState){.colorWriteMask = 0xf};
    scene->blend =
        (VkPipelineColorBlendStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                              .attachmentCount = 1,
                                              .pAttachments = &scene->blend_attachment};
    scene->dynamic = (VkPipelineDynamicStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                        .dynamicStateCount = COUNT_OF(dynamic),
                                                        .pDynamicStates = dynamic};
}

void scene_init(Scene *scene, const Context *context, uint32_t variant)
{
    memset(scene, 0, sizeof *scene);
    variant_init(&scene->variant, variant);
    init_fixed_functions(scene);
    scene->info = (VkGraphicsPipelineCreateInfo){.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                                 .pStages = scene->stages,
                                                 .pVertexInputState = &scene->vertex_input,
                                                 .pInputAssemblyState = &scene->assembly,
                                                 .pTessellationState = &scene->tessellation,
                                                 .pViewportState = &scene->viewport,
                                                 .pRasterizationState = &scene->rasterization,
                                                 .pMultisampleState = &scene->multisample,
                                                 .pColorBlendState = &scene->blend,
                                                 .pDynamicState = &scene->dynamic,
                                                 .layout = context->layout,
                                                 .renderPass = context->pass,
                                                 .basePipelineIndex = -1};
    scene_set_stages(scene, context, 2, (const enum Shader[]){SCENE_VERTEX, SCENE_FRAGMENT});
}

void scene_render_dynamically(Scene *scene, uint32_t view_mask)
{
    scene->color = COLOR_FORMAT;
    scene->rendering = (VkPipelineRenderingCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                                       .pNext = scene->info.pNext,
                                                       .viewMask = view_mask,
                                                       .colorAttachmentCount = 1,
                                                       .pColorAttachmentFormats = &scene->color};
    scene->info.pNext = &scene->rendering;
    scene->info.renderPass = VK_NULL_HANDLE;
}
