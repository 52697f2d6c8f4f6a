/* objects.c - what pipelines of recipes are made of: layouts, render passes, shader modules. */
#include "recipes.h"

Objects objects;

/* One layout fits all shaders. */
static VkResult create_layout(const Device *device)
{
    VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
        {2, VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR, 1, VK_SHADER_STAGE_ALL, NULL},
    };
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = device->has[RAYS] ? 3 : 2,
                                           .pBindings = bindings};
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_ALL, .size = 16};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &objects.set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult result = vkCreateDescriptorSetLayout(device->handle, &set, device->allocator, &objects.set_layout);
    return result ? result : vkCreatePipelineLayout(device->handle, &layout, device->allocator, &objects.layout);
}

/* With one color attachment, which may be unused; one or two subpasses, one or two views. */
static VkResult create_pass(const Device *device, Pass pass)
{
    VkAttachmentDescription attachment = {.format = COLOR_FORMAT,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                          .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                          .finalLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference color = {pass == PASS_UNUSED ? VK_ATTACHMENT_UNUSED : 0,
                                   VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference unused = {VK_ATTACHMENT_UNUSED, VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpasses[2] = {{.colorAttachmentCount = 1,
                                          .pColorAttachments = &color,
                                          .pDepthStencilAttachment = pass == PASS_UNUSED ? &unused : NULL},
                                         {.colorAttachmentCount = 1, .pColorAttachments = &color}};
    uint32_t count = pass == PASS_SUBPASSES ? 2 : 1, mask = 3;
    VkRenderPassMultiviewCreateInfo views = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO, .subpassCount = count, .pViewMasks = &mask};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .pNext = pass == PASS_VIEWS ? &views : NULL,
                                   .attachmentCount = 1,
                                   .pAttachments = &attachment,
                                   .subpassCount = count,
                                   .pSubpasses = subpasses};
    return vkCreateRenderPass(device->handle, &info, device->allocator, &objects.passes[pass]);
}

static VkResult create_modules(const Device *device)
{
    VkResult result = VK_SUCCESS;
    for (ShaderName name = 0; name < SHADER_COUNT && !result; name++) {
        VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = shaders[name].size,
                                         .pCode = shaders[name].code};
        if (shader_is_there(device, name))
            result = vkCreateShaderModule(device->handle, &info, device->allocator, &objects.modules[name]);
    }
    return result;
}

VkResult objects_create(const Device *device, const Words *words)
{
    VkResult result = create_layout(device);
    for (Pass pass = PASS_PLAIN; pass < PASS_COUNT && !result; pass++)
        if (pass != PASS_VIEWS || device->has[MULTIVIEW])
            result = create_pass(device, pass);
    return result || !words_value(words, "modules") ? result : create_modules(device);
}

void objects_destroy(const Device *device)
{
    for (int i = 0; i < SHADER_COUNT; i++)
        vkDestroyShaderModule(device->handle, objects.modules[i], device->allocator);
    for (Pass pass = PASS_PLAIN; pass < PASS_COUNT; pass++)
        vkDestroyRenderPass(device->handle, objects.passes[pass], device->allocator);
    vkDestroyPipelineLayout(device->handle, objects.layout, device->allocator);
    vkDestroyDescriptorSetLayout(device->handle, objects.set_layout, device->allocator);
    vkDestroyPipelineCache(device->handle, objects.cache, device->allocator);
    objects = (Objects){.cache = VK_NULL_HANDLE};
}
