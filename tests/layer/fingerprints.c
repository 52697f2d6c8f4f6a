/*
 * fingerprints alike|apart|garbage: creates pipelines that are to have one fingerprint, or each another one, or whose
 * create infos hold pointers that must not be read.
 */
#include "program.h"
#include "../recipes/newer.h"

#include <stdio.h>
#include <string.h>

#define GARBAGE ((const void *)16)

static Program program;

static VkResult open_all(void)
{
    VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT libraries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT,
        .graphicsPipelineLibrary = VK_TRUE};
    VkPhysicalDeviceDynamicRenderingFeatures rendering = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES,
        .pNext = &libraries,
        .dynamicRendering = VK_TRUE};
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR,
        .pNext = &rendering,
        .maintenance5 = VK_TRUE};
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_EXT_graphics_pipeline_library", "VK_KHR_pipeline_library"};
    return open_program(&program, &(Wanted){.api = VK_API_VERSION_1_3,
                                            .features = &maintenance5,
                                            .extension_count = 3,
                                            .extensions = extensions});
}

static int create_from(const VkComputePipelineCreateInfo *info)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = vkCreateComputePipelines(program.device, VK_NULL_HANDLE, 1, info, NULL, &pipeline);
    vkDestroyPipeline(program.device, pipeline, NULL);
    return result;
}

/* chain: pNext of the stage, which may have no module then. */
static int create(VkShaderModule module, const char *name, const void *chain)
{
    VkComputePipelineCreateInfo info = compute_info(&program, name);
    info.stage.module = module;
    info.stage.pNext = chain;
    return create_from(&info);
}

/* A module, another of the same code in its place, and the code itself. */
static int alike(void)
{
    int failed = create(program.module, "main", NULL) | create(program.module, "main", NULL);
    VkShaderModule other;
    if (vkCreateShaderModule(program.device, &shader_info, NULL, &other))
        return 1;
    failed |= create(other, "main", NULL);
    vkDestroyShaderModule(program.device, other, NULL);
    return failed | create(VK_NULL_HANDLE, "main", &shader_info);
}

static int create_specialized(uint32_t id, uint32_t value)
{
    VkSpecializationMapEntry entry = {id, 0, sizeof value};
    VkSpecializationInfo constants = {1, &entry, sizeof value, &value};
    VkComputePipelineCreateInfo info = compute_info(&program, "main");
    info.stage.pSpecializationInfo = &constants;
    return create_from(&info);
}

/* A driver without VK_EXT_descriptor_heap ignores mappings. */
static int create_mapped(uint32_t offset, uint32_t stride)
{
    DescriptorMapping mappings[] = {
        {.sType = TYPE_DESCRIPTOR_MAPPING, .bindingCount = 1},
        {.sType = TYPE_DESCRIPTOR_MAPPING, .descriptorSet = 1, .bindingCount = 1, .numbers = {offset, stride}}};
    DescriptorMappingInfo info = {.sType = TYPE_DESCRIPTOR_MAPPING_INFO, .mappingCount = 2, .pMappings = mappings};
    return create(program.module, "main", &info);
}

/* Entry point, a constant's value and its number, where descriptors are, and code. */
static int apart(void)
{
    int failed = create(program.module, "main", NULL) | create(program.module, "twin", NULL) |
                 create_specialized(0, 1) | create_specialized(0, 2) | create_specialized(1, 2) | create_mapped(0, 0) |
                 create_mapped(64, 0) | create_mapped(64, 64);
    uint32_t code[sizeof shader_code / sizeof *shader_code];
    memcpy(code, shader_code, sizeof code);
    code[2] = 7; /* the generator's number: another code that compiles to the same */
    VkShaderModuleCreateInfo info = shader_info;
    info.pCode = code;
    return failed | create(VK_NULL_HANDLE, "main", &info);
}

/* void main() {} as a vertex shader. */
static const uint32_t vertex_code[] = {
    0x07230203, 0x00010000, 0,          6, 0, 0x00020011, 1, 0x0003000e, 0, 1, 0x0005000f, 0, 4,          0x6e69616d, 0,
    0x00020013, 2,          0x00030021, 3, 2, 0x00050036, 2, 4,          0, 3, 0x000200f8, 5, 0x000100fd, 0x00010038,
};

static int create_graphics(const VkGraphicsPipelineCreateInfo *info)
{
    VkPipeline pipeline;
    VkResult result = vkCreateGraphicsPipelines(program.device, VK_NULL_HANDLE, 1, info, NULL, &pipeline);
    if (result == VK_SUCCESS)
        vkDestroyPipeline(program.device, pipeline, NULL);
    return result;
}

/* What is ignored with rasterization off, and in a library that has no shaders. */
static int garbage(void)
{
    VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof vertex_code, .pCode = vertex_code};
    VkPipelineShaderStageCreateInfo stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                             .pNext = &code,
                                             .stage = VK_SHADER_STAGE_VERTEX_BIT,
                                             .pName = "main"};
    VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
    VkPipelineRasterizationStateCreateInfo rasterization = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
        .rasterizerDiscardEnable = VK_TRUE,
        .lineWidth = 1};
    VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                               .colorAttachmentCount = 1,
                                               .pColorAttachmentFormats = GARBAGE};
    VkGraphicsPipelineCreateInfo discards = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                             .pNext = &rendering,
                                             .stageCount = 1,
                                             .pStages = &stage,
                                             .pVertexInputState = &input,
                                             .pInputAssemblyState = &assembly,
                                             .pViewportState = GARBAGE,
                                             .pRasterizationState = &rasterization,
                                             .pMultisampleState = GARBAGE,
                                             .pDepthStencilState = GARBAGE,
                                             .pColorBlendState = GARBAGE,
                                             .layout = program.layout};
    VkGraphicsPipelineLibraryCreateInfoEXT subset = {
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
        .flags = VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT};
    VkGraphicsPipelineCreateInfo library = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                            .pNext = &subset,
                                            .flags = VK_PIPELINE_CREATE_LIBRARY_BIT_KHR,
                                            .pVertexInputState = &input,
                                            .pInputAssemblyState = &assembly,
                                            .pViewportState = GARBAGE,
                                            .pRasterizationState = GARBAGE,
                                            .pMultisampleState = GARBAGE,
                                            .pDepthStencilState = GARBAGE,
                                            .pColorBlendState = GARBAGE};
    return create_graphics(&discards) | create_graphics(&library);
}

int main(int count, char **arguments)
{
    if (count != 2 || open_all())
        return 1;
    int failed = strcmp(arguments[1], "alike") == 0   ? alike()
                 : strcmp(arguments[1], "apart") == 0 ? apart()
                                                      : garbage();
    close_program(&program);
    return failed;
}
