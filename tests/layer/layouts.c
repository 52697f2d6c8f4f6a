/*
 * layouts [NAME...] - creates a compute pipeline of one shader for each kind of pipeline layout, or for these, and
 * prints its name and VkResult. What a layout is made of is destroyed as early as Vulkan allows.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "sampled.h"

enum Trait {
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

static Program program;

static void must(VkResult result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s: VkResult %d\n", what, result);
    exit(1);
}

static void open_all(void)
{
    static const char *const extensions[] = {
        VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, VK_EXT_DESCRIPTOR_BUFFER_EXTENSION_NAME,
        VK_EXT_MUTABLE_DESCRIPTOR_TYPE_EXTENSION_NAME, VK_EXT_CUSTOM_BORDER_COLOR_EXTENSION_NAME};
    VkPhysicalDeviceMutableDescriptorTypeFeaturesEXT mutable = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MUTABLE_DESCRIPTOR_TYPE_FEATURES_EXT,
        .mutableDescriptorType = VK_TRUE};
    VkPhysicalDeviceCustomBorderColorFeaturesEXT border = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CUSTOM_BORDER_COLOR_FEATURES_EXT,
        .pNext = &mutable,
        .customBorderColors = VK_TRUE};
    VkPhysicalDeviceDescriptorBufferFeaturesEXT buffer = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DESCRIPTOR_BUFFER_FEATURES_EXT,
        .pNext = &border,
        .descriptorBuffer = VK_TRUE};
    VkPhysicalDeviceVulkan11Features core_11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                                .pNext = &buffer,
                                                .samplerYcbcrConversion = VK_TRUE};
    VkPhysicalDeviceVulkan12Features core_12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                .pNext = &core_11,
                                                .descriptorIndexing = VK_TRUE,
                                                .descriptorBindingPartiallyBound = VK_TRUE,
                                                .bufferDeviceAddress = VK_TRUE,
                                                .samplerFilterMinmax = VK_TRUE};
    VkPhysicalDeviceVulkan13Features core_13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                                .pNext = &core_12,
                                                .inlineUniformBlock = VK_TRUE};
    const Wanted wanted = {.api = VK_API_VERSION_1_3,
                           .extensions = extensions,
                           .extension_count = sizeof extensions / sizeof *extensions,
                           .features = &core_13};
    must(open_instance(&program, &wanted), "vkCreateInstance");
    must(open_device(&program, &wanted), "vkCreateDevice");
}

static VkSamplerYcbcrConversion create_conversion(unsigned traits)
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
        must(vkCreateSamplerYcbcrConversion(program.device, &info, NULL, &conversion),
             "vkCreateSamplerYcbcrConversion");
    return conversion;
}

static VkSampler create_sampler(unsigned traits, VkSamplerYcbcrConversion conversion)
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
        must(vkCreateSampler(program.device, &info, NULL, &sampler), "vkCreateSampler");
    return sampler;
}

static VkDescriptorSetLayout create_set_layout(unsigned traits, const VkSampler *sampler)
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
    must(vkCreateDescriptorSetLayout(program.device, &info, NULL, &layout), "vkCreateDescriptorSetLayout");
    return layout;
}

static void create_layout(unsigned traits, const VkSampler *sampler)
{
    const VkDescriptorSetLayout sets[] = {create_set_layout(traits, sampler), create_set_layout(0, sampler)};
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = traits & SECOND_SET ? 2 : 1,
                                             .pSetLayouts = sets,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &range};
    must(vkCreatePipelineLayout(program.device, &info, NULL, &program.layout), "vkCreatePipelineLayout");
    for (int i = 0; i < 2; i++)
        vkDestroyDescriptorSetLayout(program.device, sets[i], NULL);
}

static void create_pipeline(const char *name, unsigned traits)
{
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof sampled, .pCode = sampled};
    VkSamplerYcbcrConversion conversion = create_conversion(traits);
    VkSampler sampler = create_sampler(traits, conversion);
    must(vkCreateShaderModule(program.device, &code, NULL, &program.module), "vkCreateShaderModule");
    create_layout(traits, &sampler);
    VkComputePipelineCreateInfo info = compute_info(&program, "main");
    info.flags = traits & BUFFER ? VK_PIPELINE_CREATE_DESCRIPTOR_BUFFER_BIT_EXT : 0;
    VkPipeline pipeline = VK_NULL_HANDLE;
    printf("%s result=%d\n", name, vkCreateComputePipelines(program.device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline));
    vkDestroyPipeline(program.device, pipeline, NULL);
    vkDestroyPipelineLayout(program.device, program.layout, NULL);
    vkDestroyShaderModule(program.device, program.module, NULL);
    vkDestroySampler(program.device, sampler, NULL);
    vkDestroySamplerYcbcrConversion(program.device, conversion, NULL);
}

static bool is_wanted(const char *name, int count, char **names)
{
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 1;
}

int main(int count, char **names)
{
    open_all();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_wanted(kinds[i].name, count, names))
            create_pipeline(kinds[i].name, kinds[i].traits);
    vkDestroyDevice(program.device, NULL);
    vkDestroyInstance(program.instance, NULL);
    return 0;
}
