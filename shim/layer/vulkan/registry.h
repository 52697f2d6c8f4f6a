/* Written by shim/generate_registry.py from the vk.xml (1.4.363) of libvulkan-dev 1.4.363.0-1. */
/* registry.h - names of registry.inc: structures, facts of pipelines, dynamic states; kinds of objects. */
/* clang-format off */
#ifndef PYLAYER_REGISTRY_H
#define PYLAYER_REGISTRY_H

/* VK_HEADER_VERSION of the registry. */
#define REGISTRY_VERSION 363

enum StructureIndex {
    STRUCTURE_INSTANCE = 1,
    STRUCTURE_DEVICE = 3,
    STRUCTURE_SHADER_MODULE = 4,
    STRUCTURE_STAGE = 5,
    STRUCTURE_GRAPHICS = 15,
    STRUCTURE_COMPUTE = 16,
    STRUCTURE_PIPELINE_LAYOUT = 17,
    STRUCTURE_SAMPLER = 18,
    STRUCTURE_SET_LAYOUT = 19,
    STRUCTURE_RENDER_PASS = 20,
    STRUCTURE_RENDER_PASS_2 = 56,
    STRUCTURE_RAY_TRACING = 79,
    STRUCTURE_YCBCR_CONVERSION = 84,
};

/* What is known of a pipeline. */
enum Fact {
    FACT_VERTEX_INPUT = 0x1,      /* it has the state of this subset */
    FACT_PRE_RASTERIZATION = 0x2, /* likewise */
    FACT_FRAGMENT_SHADER = 0x4,   /* likewise */
    FACT_FRAGMENT_OUTPUT = 0x8,   /* likewise */
    FACT_STAGES = 0x10,           /* its own stages count */
    FACT_NO_STAGES = 0x20,        /* its create info has none */
    FACT_MESH = 0x40,             /* one of its stages is a mesh shader */
    FACT_TESSELLATION = 0x80,     /* it has both stages of tessellation */
    FACT_DISCARDS = 0x100,        /* it discards everything before rasterization, always */
    FACT_RASTERIZES = 0x200,      /* it may rasterize */
    FACT_RENDER_PASS = 0x400,     /* it is for a render pass */
    FACT_COLORS = 0x800,          /* it may have color attachments */
    FACT_DEPTH = 0x1000,          /* it may have a depth or stencil attachment */
    FACT_LINKED = 0x2000,         /* it is linked from libraries */
    FACT_HASHED = 0x4000,         /* of the walk: it makes a hash */
    FACT_RECORDED = 0x8000,       /* of the walk: it copies (layer/state/image.c) */
};

#define DYNAMIC_RASTERIZER_DISCARD_ENABLE (1ull << 36)

/* What an object is of: its kind's name, the structure's type and name, what a command makes of it, that
 * command, and the one that destroys it. */
#define STATE_KINDS(KIND) \
    KIND(INSTANCE, INSTANCE_CREATE_INFO, VkInstanceCreateInfo, INSTANCE, NULL, NULL) \
    KIND(DEVICE, DEVICE_CREATE_INFO, VkDeviceCreateInfo, DEVICE, NULL, NULL) \
    KIND(SAMPLER, SAMPLER_CREATE_INFO, VkSamplerCreateInfo, SAMPLER, "vkCreateSampler", "vkDestroySampler") \
    KIND(YCBCR_CONVERSION, SAMPLER_YCBCR_CONVERSION_CREATE_INFO, VkSamplerYcbcrConversionCreateInfo, SAMPLER_YCBCR_CONVERSION, "vkCreateSamplerYcbcrConversion", "vkDestroySamplerYcbcrConversion") \
    KIND(SET_LAYOUT, DESCRIPTOR_SET_LAYOUT_CREATE_INFO, VkDescriptorSetLayoutCreateInfo, DESCRIPTOR_SET_LAYOUT, "vkCreateDescriptorSetLayout", "vkDestroyDescriptorSetLayout") \
    KIND(PIPELINE_LAYOUT, PIPELINE_LAYOUT_CREATE_INFO, VkPipelineLayoutCreateInfo, PIPELINE_LAYOUT, "vkCreatePipelineLayout", "vkDestroyPipelineLayout") \
    KIND(RENDER_PASS, RENDER_PASS_CREATE_INFO, VkRenderPassCreateInfo, RENDER_PASS, "vkCreateRenderPass", "vkDestroyRenderPass") \
    KIND(RENDER_PASS_2, RENDER_PASS_CREATE_INFO_2, VkRenderPassCreateInfo2, RENDER_PASS, "vkCreateRenderPass2", "vkDestroyRenderPass") \
    KIND(SHADER_MODULE, SHADER_MODULE_CREATE_INFO, VkShaderModuleCreateInfo, SHADER_MODULE, "vkCreateShaderModule", "vkDestroyShaderModule") \
    KIND(GRAPHICS, GRAPHICS_PIPELINE_CREATE_INFO, VkGraphicsPipelineCreateInfo, PIPELINE, "vkCreateGraphicsPipelines", "vkDestroyPipeline") \
    KIND(COMPUTE, COMPUTE_PIPELINE_CREATE_INFO, VkComputePipelineCreateInfo, PIPELINE, "vkCreateComputePipelines", "vkDestroyPipeline") \
    KIND(RAY_TRACING, RAY_TRACING_PIPELINE_CREATE_INFO_KHR, VkRayTracingPipelineCreateInfoKHR, PIPELINE, "vkCreateRayTracingPipelinesKHR", "vkDestroyPipeline")

/* The commands that make those that have no hook of their own. WITH: is passed on. */
#define STATE_COMMANDS(HOOK, WITH) \
    HOOK(WITH, create_sampler, CreateSampler, SAMPLER, VkSamplerCreateInfo, VkSampler) \
    HOOK(WITH, create_sampler_ycbcr_conversion, CreateSamplerYcbcrConversion, YCBCR_CONVERSION, VkSamplerYcbcrConversionCreateInfo, VkSamplerYcbcrConversion) \
    HOOK(WITH, create_sampler_ycbcr_conversion_khr, CreateSamplerYcbcrConversionKHR, YCBCR_CONVERSION, VkSamplerYcbcrConversionCreateInfo, VkSamplerYcbcrConversion) \
    HOOK(WITH, create_descriptor_set_layout, CreateDescriptorSetLayout, SET_LAYOUT, VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout) \
    HOOK(WITH, create_pipeline_layout, CreatePipelineLayout, PIPELINE_LAYOUT, VkPipelineLayoutCreateInfo, VkPipelineLayout) \
    HOOK(WITH, create_render_pass, CreateRenderPass, RENDER_PASS, VkRenderPassCreateInfo, VkRenderPass) \
    HOOK(WITH, create_render_pass2, CreateRenderPass2, RENDER_PASS_2, VkRenderPassCreateInfo2, VkRenderPass) \
    HOOK(WITH, create_render_pass2_khr, CreateRenderPass2KHR, RENDER_PASS_2, VkRenderPassCreateInfo2, VkRenderPass)

#endif
