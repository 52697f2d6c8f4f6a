/* object.h - the bytes of an object, for the layer and for shim/replay: docs/internals/format.md, 'Recordings' */
#ifndef PYLAYER_OBJECT_H
#define PYLAYER_OBJECT_H

#include <stdint.h>

#define OBJECT_MAGIC 0x54535950u
#define OBJECT_VERSION 1

// clang-format off
/* What an object is of: its kind's name, the structure's type and name, what a command makes of it, that command, and
 * the one that destroys it. */
#define STATE_KINDS(KIND)                                                                                              \
    KIND(INSTANCE, INSTANCE_CREATE_INFO, VkInstanceCreateInfo, INSTANCE, NULL, NULL)                                   \
    KIND(DEVICE, DEVICE_CREATE_INFO, VkDeviceCreateInfo, DEVICE, NULL, NULL)                                           \
    KIND(SAMPLER, SAMPLER_CREATE_INFO, VkSamplerCreateInfo, SAMPLER, "vkCreateSampler", "vkDestroySampler")            \
    KIND(YCBCR_CONVERSION, SAMPLER_YCBCR_CONVERSION_CREATE_INFO, VkSamplerYcbcrConversionCreateInfo,                   \
         SAMPLER_YCBCR_CONVERSION, "vkCreateSamplerYcbcrConversion", "vkDestroySamplerYcbcrConversion")                \
    KIND(SET_LAYOUT, DESCRIPTOR_SET_LAYOUT_CREATE_INFO, VkDescriptorSetLayoutCreateInfo, DESCRIPTOR_SET_LAYOUT,        \
         "vkCreateDescriptorSetLayout", "vkDestroyDescriptorSetLayout")                                                \
    KIND(PIPELINE_LAYOUT, PIPELINE_LAYOUT_CREATE_INFO, VkPipelineLayoutCreateInfo, PIPELINE_LAYOUT,                    \
         "vkCreatePipelineLayout", "vkDestroyPipelineLayout")                                                          \
    KIND(RENDER_PASS, RENDER_PASS_CREATE_INFO, VkRenderPassCreateInfo, RENDER_PASS, "vkCreateRenderPass",              \
         "vkDestroyRenderPass")                                                                                        \
    KIND(RENDER_PASS_2, RENDER_PASS_CREATE_INFO_2, VkRenderPassCreateInfo2, RENDER_PASS, "vkCreateRenderPass2",        \
         "vkDestroyRenderPass")                                                                                        \
    KIND(SHADER_MODULE, SHADER_MODULE_CREATE_INFO, VkShaderModuleCreateInfo, SHADER_MODULE, "vkCreateShaderModule",    \
         "vkDestroyShaderModule")                                                                                      \
    KIND(GRAPHICS, GRAPHICS_PIPELINE_CREATE_INFO, VkGraphicsPipelineCreateInfo, PIPELINE, "vkCreateGraphicsPipelines", \
         "vkDestroyPipeline")                                                                                          \
    KIND(COMPUTE, COMPUTE_PIPELINE_CREATE_INFO, VkComputePipelineCreateInfo, PIPELINE, "vkCreateComputePipelines",     \
         "vkDestroyPipeline")                                                                                          \
    KIND(RAY_TRACING, RAY_TRACING_PIPELINE_CREATE_INFO_KHR, VkRayTracingPipelineCreateInfoKHR, PIPELINE,               \
         "vkCreateRayTracingPipelinesKHR", "vkDestroyPipeline")
// clang-format on

#define STATE_NAME(kind, type, structure, makes, create, destroy) STATE_##kind,
enum StateKind { STATE_NONE, STATE_KINDS(STATE_NAME) STATE_KIND_COUNT };

typedef struct ObjectHeader {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t flags, image, pointers, handles, vk_header, reserved;
    uint64_t reserved2;
} ObjectHeader;

/* Places and targets are offsets in the image. */
typedef struct ObjectPointer {
    uint32_t place, target;
} ObjectPointer;

typedef struct ObjectHandle {
    uint32_t place, type; /* VkObjectType */
    uint8_t digest[16];   /* XXH3-128 of the object that makes it */
} ObjectHandle;

/* As the upper half of a digest: the lower one is that of a shader's identifier. Policy puts the module's digest there. */
#define OBJECT_IDENTIFIED 0x726566697469646eull

#endif
