/*
 * canonical - shim/layer/vulkan/walk.c and shaders/fingerprints.c by themselves: which members of a pipeline's create
 * info decide its canonical form, and which its fingerprint.
 *
 * Changes each word of some structures, for pipelines of several sorts, and prints a line for each word: SORT STRUCTURE
 * OFFSET, 1 if the canonical form changes, 1 if the fingerprint does. Ends with 1 if the fingerprint changes and the
 * canonical form does not.
 */
#define _GNU_SOURCE
#include "../../shim/layer/vulkan/create_info.c"
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/hooks/shaders.c"
#include "../../shim/layer/shaders/fingerprints.c"
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/vulkan/pnext.c"
#include "../../shim/layer/vulkan/pipeline_facts.c"
#include "../../shim/layer/vulkan/walk.c"
#include "../../shim/layer/run/seen.c"
#include "../../shim/layer/shaders/shaders.c"
#include "../../shim/layer/run/run.c"
#include "../../shim/layer/state/image.c"
#include "../../shim/layer/state/state.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <stdio.h>

DispatchTable device_table;
static Device device;

const char *environment_get(const char *name)
{
    return NULL;
}

#define GARBAGE ((const void *)16)

static VkFormat formats[] = {VK_FORMAT_R8G8B8A8_UNORM};
static VkPipelineCreationFeedback feedback;
static VkPipelineCreationFeedbackCreateInfo results = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO, .pPipelineCreationFeedback = &feedback};
static VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                                  .pNext = &results,
                                                  .colorAttachmentCount = 1,
                                                  .pColorAttachmentFormats = formats,
                                                  .depthAttachmentFormat = VK_FORMAT_D32_SFLOAT};
static uint32_t data[4];
static VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 8, 4}};
static VkSpecializationInfo constants = {2, entries, sizeof data, data};
static VkPipelineShaderStageCreateInfo stages[] = {
    {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
     .stage = VK_SHADER_STAGE_VERTEX_BIT,
     .module = (VkShaderModule)1,
     .pName = "main",
     .pSpecializationInfo = &constants},
    {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
     .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
     .module = (VkShaderModule)2,
     .pName = "main"},
};
static VkVertexInputBindingDescription bindings[] = {{0, 16, 0}};
static VkVertexInputAttributeDescription attributes[] = {{0, 0, VK_FORMAT_R32G32_SFLOAT, 8}};
static VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
                                                     .vertexBindingDescriptionCount = 1,
                                                     .pVertexBindingDescriptions = bindings,
                                                     .vertexAttributeDescriptionCount = 1,
                                                     .pVertexAttributeDescriptions = attributes};
static VkPipelineInputAssemblyStateCreateInfo assembly = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
static VkViewport viewports[1];
static VkRect2D scissors[1];
static VkPipelineViewportStateCreateInfo viewport = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
                                                     .viewportCount = 1,
                                                     .pViewports = viewports,
                                                     .scissorCount = 1,
                                                     .pScissors = scissors};
static VkPipelineRasterizationStateCreateInfo rasterization = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
static VkSampleMask mask[2];
static VkPipelineMultisampleStateCreateInfo multisample = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO, .rasterizationSamples = 4, .pSampleMask = mask};
static VkPipelineDepthStencilStateCreateInfo depth = {
    .sType = VK_STRUCTURE_TYPE_PIPELINE_DEPTH_STENCIL_STATE_CREATE_INFO, .stencilTestEnable = VK_TRUE};
static VkPipelineColorBlendAttachmentState attachments[] = {{.blendEnable = VK_TRUE}, {.blendEnable = VK_FALSE}};
static VkPipelineColorBlendStateCreateInfo blending = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                                       .attachmentCount = 2,
                                                       .pAttachments = attachments};
static VkDynamicState states[64];
static VkPipelineDynamicStateCreateInfo dynamic = {.sType = VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO,
                                                   .pDynamicStates = states};
static VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                            .pNext = &rendering,
                                            .stageCount = 2,
                                            .pStages = stages,
                                            .pVertexInputState = &input,
                                            .pInputAssemblyState = &assembly,
                                            .pTessellationState = GARBAGE,
                                            .pViewportState = &viewport,
                                            .pRasterizationState = &rasterization,
                                            .pMultisampleState = &multisample,
                                            .pDepthStencilState = &depth,
                                            .pColorBlendState = &blending,
                                            .pDynamicState = &dynamic};

/* What is changed: bytes without pointers, from an offset on. */
static const struct Place {
    const char *structure;
    void *data;
    size_t from, to;
} places[] = {
    {"VkGraphicsPipelineCreateInfo", &info, 16, 20},
    {"VkGraphicsPipelineCreateInfo", &info, 104, 112},
    {"VkGraphicsPipelineCreateInfo", &info, 120, 144},
    {"VkPipelineRenderingCreateInfo", &rendering, 16, 20},
    {"VkPipelineRenderingCreateInfo", &rendering, 32, 40},
    {"VkFormat", formats, 0, 4},
    {"VkPipelineCreationFeedback", &feedback, 0, 16},
    {"VkPipelineShaderStageCreateInfo", stages, 16, 32},
    {"constants", data, 0, sizeof data},
    {"VkVertexInputBindingDescription", bindings, 0, sizeof bindings},
    {"VkVertexInputAttributeDescription", attributes, 0, sizeof attributes},
    {"VkPipelineInputAssemblyStateCreateInfo", &assembly, 16, 28},
    {"VkViewport", viewports, 0, sizeof viewports},
    {"VkRect2D", scissors, 0, sizeof scissors},
    {"VkPipelineRasterizationStateCreateInfo", &rasterization, 16, 60},
    {"VkPipelineMultisampleStateCreateInfo", &multisample, 16, 32},
    {"VkPipelineMultisampleStateCreateInfo", &multisample, 40, 48},
    {"VkSampleMask", mask, 0, sizeof mask},
    {"VkPipelineDepthStencilStateCreateInfo", &depth, 16, 104},
    {"VkPipelineColorBlendStateCreateInfo", &blending, 16, 28},
    {"VkPipelineColorBlendStateCreateInfo", &blending, 40, 56},
    {"VkPipelineColorBlendAttachmentState", attachments, 0, sizeof attachments},
};

static uint64_t hash(bool quick)
{
    const PipelineCall call = {.point = BIND_GRAPHICS, .count = 1, .infos = &info};
    return hash_pipeline(&device.shaders, &call, 0, PYLAYER_KIND_GRAPHICS, quick);
}

/* Returns false if a fingerprint differs where canonical forms are equal. */
static bool change_each(const char *sort)
{
    bool agree = true;
    uint64_t whole = hash(false), quick = hash(true);
    for (const struct Place *place = places; place < places + sizeof places / sizeof *places; place++)
        for (size_t at = place->from; at < place->to; at += sizeof(uint32_t)) {
            uint32_t *word = (uint32_t *)(void *)((char *)place->data + at);
            *word ^= 3;
            bool decides = hash(false) != whole, tells = hash(true) != quick;
            *word ^= 3;
            printf("%s %s %zu %d %d\n", sort, place->structure, at, decides, tells);
            agree &= decides || !tells;
        }
    return agree;
}

static void make_dynamic(VkDynamicState first, VkDynamicState last)
{
    for (int state = (int)first; state <= (int)last; state++)
        states[dynamic.dynamicStateCount++] = (VkDynamicState)state;
}

int main(void)
{
    atomic_store(&device.run.counters, device.run.own_counters);
    device.shaders.driver = &device.driver;
    device.shaders.run = &device.run;
    device.shaders.crash = &device.crash;
    for (uint64_t module = 1; module <= 3; module++)
        shared_map_put(&device.shaders.modules, module, 100 + module, SIZE_MAX);
    bool good = hash(false) != 0 && hash(true) != 0 && change_each("plain");
    attachments[1].blendEnable = VK_TRUE;
    rasterization.depthBiasEnable = depth.depthTestEnable = depth.depthBoundsTestEnable = VK_TRUE;
    multisample.sampleShadingEnable = blending.logicOpEnable = VK_TRUE;
    good &= change_each("enabled");
    make_dynamic(VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_STENCIL_REFERENCE);
    make_dynamic(VK_DYNAMIC_STATE_CULL_MODE, VK_DYNAMIC_STATE_STENCIL_OP);
    viewport.pViewports = GARBAGE;
    viewport.pScissors = GARBAGE;
    good &= change_each("dynamic");
    rasterization.rasterizerDiscardEnable = VK_TRUE;
    info.pViewportState = GARBAGE;
    info.pMultisampleState = GARBAGE;
    info.pDepthStencilState = GARBAGE;
    info.pColorBlendState = GARBAGE;
    rendering.pColorAttachmentFormats = GARBAGE;
    good &= change_each("discards");
    return !good;
}
