/*
 * Creates a library, and graphics pipelines that may have several views:
 *
 * views [multiview]     the feature is enabled
 *
 * One is plain, with dynamic rendering and without views; the others have a render pass, a viewMask, or
 * VK_PIPELINE_CREATE_VIEW_INDEX_FROM_DEVICE_INDEX_BIT. Prints each name and the result. Without shaders worth running: it
 * is for the tests' own driver.
 */
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "shader.h"

static VkDevice device;
static VkPipelineLayout layout;
static VkShaderModule module;

static void create(const char *name, const void *chain, VkRenderPass pass, VkPipelineCreateFlags flags)
{
    VkPipelineShaderStageCreateInfo stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                             .stage = VK_SHADER_STAGE_VERTEX_BIT,
                                             .module = module,
                                             .pName = "main"};
    VkPipelineVertexInputStateCreateInfo vertices = {.sType =
                                                         VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
    VkPipelineRasterizationStateCreateInfo raster = {.sType =
                                                         VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                                                     .rasterizerDiscardEnable = VK_TRUE,
                                                     .lineWidth = 1};
    VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                         .pNext = chain,
                                         .flags = flags,
                                         .stageCount = 1,
                                         .pStages = &stage,
                                         .pVertexInputState = &vertices,
                                         .pInputAssemblyState = &assembly,
                                         .pRasterizationState = &raster,
                                         .layout = layout,
                                         .renderPass = pass};
    VkPipeline pipeline = VK_NULL_HANDLE;
    printf("%s %d\n", name, vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
    vkDestroyPipeline(device, pipeline, NULL);
}

int main(int count, char **arguments)
{
    VkPhysicalDeviceVulkan13Features core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                             .dynamicRendering = VK_TRUE};
    VkPhysicalDeviceMultiviewFeatures views = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MULTIVIEW_FEATURES, .pNext = &core, .multiview = VK_TRUE};
    VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT libraries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT,
        .graphicsPipelineLibrary = VK_TRUE};
    VkInstance instance;
    core.pNext = &libraries;
    device = create_device_with(VK_API_VERSION_1_3, count > 1 ? (void *)&views : &core,
                                VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME, &instance);
    VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS};
    VkRenderPassCreateInfo pass_info = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO, .subpassCount = 1, .pSubpasses = &subpass};
    VkRenderPass pass;
    (void)arguments;
    if (!device || create_shader(device, &module, &layout) || vkCreateRenderPass(device, &pass_info, NULL, &pass))
        return 1;
    VkPipelineRenderingCreateInfo rendering = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO};
    create("plain", &rendering, VK_NULL_HANDLE, 0);
    rendering.viewMask = count > 1 ? 3 : 0;
    create("viewMask", &rendering, VK_NULL_HANDLE, VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT);
    create("render pass", NULL, pass, 0);
    rendering.viewMask = 0;
    create("device index", &rendering, VK_NULL_HANDLE, VK_PIPELINE_CREATE_VIEW_INDEX_FROM_DEVICE_INDEX_BIT);
    VkGraphicsPipelineLibraryCreateInfoEXT part = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
                                                   .pNext = &rendering,
                                                   .flags =
                                                       VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT};
    create("library", &part, VK_NULL_HANDLE, VK_PIPELINE_CREATE_LIBRARY_BIT_KHR);
    vkDestroyRenderPass(device, pass, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
