/* layouts.c - pipelines of one shader with each kind of pipeline layout. */
#include "recipes.h"

#include <string.h>

enum {
    IMMUTABLE = 1,
    YCBCR = 2, /* with an immutable sampler */
    YCBCR_709 = 4,
    REDUCTION = 8,
    BORDER = 16,
    PUSHED = 32,
    BUFFER = 64,
    INDEXED = 128,
    MUTABLE = 256,
    INLINE_BLOCK = 512,
    SECOND_SET = 1024,
};

static const struct {
    const char *name;
    unsigned traits;
} kinds[] = {
    {"plain", 0},
    {"immutable", IMMUTABLE},
    {"reduction", IMMUTABLE | REDUCTION},
    {"border", IMMUTABLE | BORDER},
    {"ycbcr", IMMUTABLE | YCBCR},
    {"ycbcr-709", IMMUTABLE | YCBCR | YCBCR_709},
    {"push-descriptor", PUSHED},
    {"push-descriptor-ycbcr", PUSHED | IMMUTABLE | YCBCR},
    {"descriptor-buffer", BUFFER},
    {"descriptor-buffer-ycbcr", BUFFER | IMMUTABLE | YCBCR},
    {"descriptor-indexing", INDEXED},
    {"mutable", MUTABLE},
    {"inline-uniform-block", INLINE_BLOCK},
    {"second-set", SECOND_SET},
};

static VkSamplerYcbcrConversion create_conversion(VkDevice device, unsigned traits)
{
    const VkSamplerYcbcrConversionCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SAMPLER_YCBCR_CONVERSION_CREATE_INFO,
        .format = VK_FORMAT_G8_B8R8_2PLANE_420_UNORM,
        .ycbcrModel = traits & YCBCR_709 ? VK_SAMPLER_YCBCR_MODEL_CONVERSION_YCBCR_709
                                         : VK_SAMPLER_YCBCR_MODEL_CONVERSION_YCBCR_601,
        .ycbcrRange = VK_SAMPLER_YCBCR_RANGE_ITU_NARROW,
        .chromaFilter = VK_FILTER_NEAREST,
    };
    VkSamplerYcbcrConversion conversion = VK_NULL_HANDLE;
    if (traits & YCBCR)
        must(vkCreateSamplerYcbcrConversion(device, &info, NULL, &conversion), "vkCreateSamplerYcbcrConversion");
    return conversion;
}

static VkSampler create_sampler(VkDevice device, unsigned traits, VkSamplerYcbcrConversion conversion)
{
    const VkSamplerYcbcrConversionInfo converted = {.sType = VK_STRUCTURE_TYPE_SAMPLER_YCBCR_CONVERSION_INFO,
                                                    .conversion = conversion};
    const VkSamplerReductionModeCreateInfo reduction = {.sType = VK_STRUCTURE_TYPE_SAMPLER_REDUCTION_MODE_CREATE_INFO,
                                                        .reductionMode = VK_SAMPLER_REDUCTION_MODE_MIN};
    const VkSamplerCustomBorderColorCreateInfoEXT border = {
        .sType = VK_STRUCTURE_TYPE_SAMPLER_CUSTOM_BORDER_COLOR_CREATE_INFO_EXT,
        .customBorderColor.float32 = {0.25f, 0.5f, 0.75f, 1},
        .format = VK_FORMAT_R8G8B8A8_UNORM,
    };
    const VkSamplerCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
        .pNext = traits & YCBCR       ? (const void *)&converted
                 : traits & REDUCTION ? (const void *)&reduction
                 : traits & BORDER    ? (const void *)&border
                                      : NULL,
        .addressModeU =
            traits & BORDER ? VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_BORDER : VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
        .addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
        .addressModeW = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
        .borderColor = traits & BORDER ? VK_BORDER_COLOR_FLOAT_CUSTOM_EXT : VK_BORDER_COLOR_FLOAT_TRANSPARENT_BLACK,
    };
    VkSampler sampler = VK_NULL_HANDLE;
    if (traits & IMMUTABLE)
        must(vkCreateSampler(device, &info, NULL, &sampler), "vkCreateSampler");
    return sampler;
}

static VkDescriptorSetLayout create_set_layout(VkDevice device, unsigned traits, const VkSampler *sampler)
{
    enum { BINDINGS = 3 };
    const VkDescriptorSetLayoutBinding bindings[BINDINGS] = {
        {0, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1, VK_SHADER_STAGE_COMPUTE_BIT, *sampler ? sampler : NULL},
        {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
        {2, traits & MUTABLE ? VK_DESCRIPTOR_TYPE_MUTABLE_EXT : VK_DESCRIPTOR_TYPE_INLINE_UNIFORM_BLOCK,
         traits & MUTABLE ? 1 : 16, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
    };
    const VkDescriptorBindingFlags flags[BINDINGS] = {[1] = VK_DESCRIPTOR_BINDING_PARTIALLY_BOUND_BIT};
    const uint32_t count = traits & (MUTABLE | INLINE_BLOCK) ? 3 : 2;
    const VkDescriptorSetLayoutBindingFlagsCreateInfo indexed = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_BINDING_FLAGS_CREATE_INFO,
        .bindingCount = count,
        .pBindingFlags = flags};
    static const VkDescriptorType types[] = {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    const VkMutableDescriptorTypeListEXT lists[BINDINGS] = {[2] = {2, types}};
    const VkMutableDescriptorTypeCreateInfoEXT mutable = {.sType =
                                                              VK_STRUCTURE_TYPE_MUTABLE_DESCRIPTOR_TYPE_CREATE_INFO_EXT,
                                                          .mutableDescriptorTypeListCount = BINDINGS,
                                                          .pMutableDescriptorTypeLists = lists};
    const VkDescriptorSetLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .pNext = traits & INDEXED   ? (const void *)&indexed
                 : traits & MUTABLE ? (const void *)&mutable
                                    : NULL,
        .flags = (traits & PUSHED ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0) |
                 (traits & BUFFER ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_DESCRIPTOR_BUFFER_BIT_EXT : 0),
        .bindingCount = count,
        .pBindings = bindings,
    };
    VkDescriptorSetLayout layout;
    must(vkCreateDescriptorSetLayout(device, &info, NULL, &layout), "vkCreateDescriptorSetLayout");
    return layout;
}

static VkPipelineLayout create_layout(VkDevice device, unsigned traits, const VkSampler *sampler)
{
    const VkDescriptorSetLayout sets[] = {create_set_layout(device, traits, sampler),
                                          create_set_layout(device, 0, sampler)};
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = traits & SECOND_SET ? 2 : 1,
                                             .pSetLayouts = sets,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &range};
    VkPipelineLayout layout;
    must(vkCreatePipelineLayout(device, &info, NULL, &layout), "vkCreatePipelineLayout");
    for (int i = 0; i < 2; i++)
        vkDestroyDescriptorSetLayout(device, sets[i], NULL);
    return layout;
}

static VkResult create_pipeline(VkDevice device, unsigned traits)
{
    VkSamplerYcbcrConversion conversion = create_conversion(device, traits);
    VkSampler sampler = create_sampler(device, traits, conversion);
    VkPipelineLayout layout = create_layout(device, traits, &sampler);
    const VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                              .flags =
                                                  traits & BUFFER ? VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT : 0,
                                              .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                        .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                        .module = objects.modules[SAMPLED],
                                                        .pName = "main"},
                                              .layout = layout,
                                              .basePipelineIndex = -1};
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroySampler(device, sampler, NULL);
    vkDestroySamplerYcbcrConversion(device, conversion, NULL);
    return result;
}

/* layout KIND: a compute pipeline with such a layout, of which everything is destroyed as early as Vulkan allows */
const char *run_layout(State *state, const Words *words)
{
    for (size_t i = 0; i < COUNT_OF(kinds) && state->device->has[LAYOUTS]; i++)
        if (strcmp(kinds[i].name, words->word[1]) == 0) {
            fprintf(state->out, "result=%d\n", create_pipeline(state->device->handle, kinds[i].traits));
            return NULL;
        }
    return words->word[1];
}
