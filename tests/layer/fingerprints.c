/*
 * fingerprints alike|apart|garbage: creates pipelines that are to have one fingerprint, or each another one, or whose
 * create infos hold pointers that must not be read.
 */
#include "shader.h"
#include <stdio.h>
#include <string.h>

typedef struct Feature {
    VkStructureType sType;
    void *pNext;
    VkBool32 enabled;
} Feature;

#define TYPE_MAINTENANCE5 ((VkStructureType)1000470000)
#define GARBAGE ((const void *)16)

static VkDevice device;
static VkInstance instance;

static int create_device(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    VkPhysicalDevice physical;
    uint32_t one = 1;
    float priority = 1;
    VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT libraries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT,
        .graphicsPipelineLibrary = VK_TRUE};
    VkPhysicalDeviceDynamicRenderingFeatures rendering = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES,
        .pNext = &libraries,
        .dynamicRendering = VK_TRUE};
    Feature maintenance5 = {TYPE_MAINTENANCE5, &rendering, VK_TRUE};
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_EXT_graphics_pipeline_library", "VK_KHR_pipeline_library"};
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &maintenance5,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 3,
                               .ppEnabledExtensionNames = extensions};
    return vkCreateInstance(&instance_info, NULL, &instance) ||
           vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 || vkCreateDevice(physical, &info, NULL, &device);
}

static int create(VkShaderModule module, VkPipelineLayout layout, const char *name, const void *chain)
{
    VkPipeline pipeline;
    VkResult result = create_compute(device, VK_NULL_HANDLE, module, layout, name, chain, &pipeline);
    if (result == VK_SUCCESS)
        vkDestroyPipeline(device, pipeline, NULL);
    return result;
}

/* A module, another of the same code in its place, and the code itself. */
static int alike(VkShaderModule module, VkPipelineLayout layout)
{
    int failed = create(module, layout, "main", NULL) | create(module, layout, "main", NULL);
    VkShaderModule other;
    if (vkCreateShaderModule(device, &shader_info, NULL, &other))
        return 1;
    failed |= create(other, layout, "main", NULL);
    vkDestroyShaderModule(device, other, NULL);
    return failed | create(VK_NULL_HANDLE, layout, "main", &shader_info);
}

static int create_specialized(VkShaderModule module, VkPipelineLayout layout, uint32_t id, uint32_t value)
{
    VkSpecializationMapEntry entry = {id, 0, sizeof value};
    VkSpecializationInfo constants = {1, &entry, sizeof value, &value};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout};
    info.stage = (VkPipelineShaderStageCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                   .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                   .module = module,
                                                   .pName = "main",
                                                   .pSpecializationInfo = &constants};
    VkPipeline pipeline;
    VkResult result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    if (result == VK_SUCCESS)
        vkDestroyPipeline(device, pipeline, NULL);
    return result;
}

/* VkDescriptorSetAndBindingMappingEXT and VkShaderDescriptorSetAndBindingMappingInfoEXT, which old headers lack. A driver
 * without VK_EXT_descriptor_heap ignores them. */
typedef struct Mapping {
    VkStructureType sType;
    const void *pNext;
    uint32_t set, first_binding, binding_count, resources, source;
    _Alignas(8) uint32_t data[14];
} Mapping;
typedef struct MappingInfo {
    VkStructureType sType;
    const void *pNext;
    uint32_t mapping_count;
    const Mapping *mappings;
} MappingInfo;

static int create_mapped(VkShaderModule module, VkPipelineLayout layout, uint32_t offset, uint32_t stride)
{
    Mapping mappings[] = {
        {.sType = (VkStructureType)1000135005, .binding_count = 1},
        {.sType = (VkStructureType)1000135005, .set = 1, .binding_count = 1, .data = {offset, stride}}};
    MappingInfo info = {.sType = (VkStructureType)1000135006, .mapping_count = 2, .mappings = mappings};
    return create(module, layout, "main", &info);
}

/* Entry point, a constant's value and its number, where descriptors are, and code. */
static int apart(VkShaderModule module, VkPipelineLayout layout)
{
    int failed = create(module, layout, "main", NULL) | create(module, layout, "twin", NULL) |
                 create_specialized(module, layout, 0, 1) | create_specialized(module, layout, 0, 2) |
                 create_specialized(module, layout, 1, 2) | create_mapped(module, layout, 0, 0) |
                 create_mapped(module, layout, 64, 0) | create_mapped(module, layout, 64, 64);
    uint32_t code[sizeof shader_code / sizeof *shader_code];
    memcpy(code, shader_code, sizeof code);
    code[2] = 7; /* the generator's number: another code that compiles to the same */
    VkShaderModuleCreateInfo info = shader_info;
    info.pCode = code;
    return failed | create(VK_NULL_HANDLE, layout, "main", &info);
}

/* void main() {} as a vertex shader. */
static const uint32_t vertex_code[] = {
    0x07230203, 0x00010000, 0,          6, 0, 0x00020011, 1, 0x0003000e, 0, 1, 0x0005000f, 0, 4,          0x6e69616d, 0,
    0x00020013, 2,          0x00030021, 3, 2, 0x00050036, 2, 4,          0, 3, 0x000200f8, 5, 0x000100fd, 0x00010038,
};

static int create_graphics(const VkGraphicsPipelineCreateInfo *info)
{
    VkPipeline pipeline;
    VkResult result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, info, NULL, &pipeline);
    if (result == VK_SUCCESS)
        vkDestroyPipeline(device, pipeline, NULL);
    return result;
}

/* What is ignored with rasterization off, and in a library that has no shaders. */
static int garbage(VkPipelineLayout layout)
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
                                             .layout = layout};
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
    VkShaderModule module;
    VkPipelineLayout layout;
    if (count != 2 || create_device() || create_shader(device, &module, &layout))
        return 1;
    int failed = strcmp(arguments[1], "alike") == 0   ? alike(module, layout)
                 : strcmp(arguments[1], "apart") == 0 ? apart(module, layout)
                                                      : garbage(layout);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return failed;
}
