/* shader.h - the smallest of compute shaders, and a pipeline of it. */
#ifndef TEST_SHADER_H
#define TEST_SHADER_H

#include <vulkan/vulkan.h>

/* void main() {} for a workgroup of one, assembled by hand; a second entry point "twin" is the same function. */
static const uint32_t shader_code[] = {
    0x07230203, 0x00010000, 0,  6,          0, 0x00020011, 1,          0x0003000e, 0,          1,
    0x0005000f, 5,          4,  0x6e69616d, 0, 0x0005000f, 5,          4,          0x6e697774, 0,
    0x00060010, 4,          17, 1,          1, 1,          0x00020013, 2,          0x00030021, 3,
    2,          0x00050036, 2,  4,          0, 3,          0x000200f8, 5,          0x000100fd, 0x00010038,
};

static const VkShaderModuleCreateInfo shader_info = {
    .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof shader_code, .pCode = shader_code};

static inline VkResult create_shader(VkDevice device, VkShaderModule *module, VkPipelineLayout *layout)
{
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkResult result = vkCreateShaderModule(device, &shader_info, NULL, module);
    return result ? result : vkCreatePipelineLayout(device, &layout_info, NULL, layout);
}

/* stage_chain: pNext of the stage, which may have no module then. */
static inline VkResult create_compute(VkDevice device, VkPipelineCache cache, VkShaderModule module,
                                      VkPipelineLayout layout, const char *name, const void *stage_chain,
                                      VkPipeline *pipeline)
{
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = layout};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.pNext = stage_chain;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = name;
    return vkCreateComputePipelines(device, cache, 1, &info, NULL, pipeline);
}

#endif
