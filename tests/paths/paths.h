/*
 * paths.h - what the modes share: a device with all that its driver has of what they need, shaders, and creation calls
 * that write down what came of them.
 *
 * device.c    instance and device
 * shaders.c   modules
 * states.c    create infos to begin with
 * contents.c  what the driver says of a pipeline's code
 * report.c    vkCreate*Pipelines and what is printed about each call
 */
#ifndef TEST_PATHS_H
#define TEST_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <vulkan/vulkan.h>

#include "newer.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* ---- device.c ------------------------------------------------------------------------------------------------ */

enum Feature {
    HAS_CACHE_CONTROL,
    HAS_DYNAMIC_RENDERING,
    HAS_SUBGROUP_SIZES,
    HAS_PRIVATE_DATA,
    HAS_MULTIVIEW,
    HAS_LIBRARIES,
    HAS_PIPELINE_ROBUSTNESS,
    HAS_ROBUSTNESS_2,
    HAS_EXECUTABLES,
    HAS_MESH,
    HAS_IDENTIFIERS,
    HAS_MAINTENANCE_5,
    HAS_SHADER_OBJECTS,
    HAS_LOCAL_READ,
    HAS_DESCRIPTOR_HEAP,
    FEATURE_COUNT,
};

enum Shader {
    KERNEL,
    WIDE_KERNEL,
    SCENE_VERTEX,
    VIEWS_VERTEX,
    SCENE_FRAGMENT,
    PATCH_CONTROL,
    PATCH_EVALUATION,
    TILES_TASK,
    TILES_MESH,
    SHADER_COUNT,
};

typedef struct DeviceOptions {
    bool group;               /* VkDeviceGroupDeviceCreateInfo, of one physical device */
    uint32_t reserved_slots;  /* VkDevicePrivateDataCreateInfo */
    bool without_identifiers; /* the extension is not enabled, whatever the driver has */
} DeviceOptions;

typedef struct Context {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    bool has[FEATURE_COUNT];
    bool int64;
    bool tessellation;
    uint32_t group_size;
    uint32_t min_subgroup, max_subgroup;
    VkShaderModule modules[SHADER_COUNT]; /* VK_NULL_HANDLE where the device has no such shaders */
    VkDescriptorSetLayout set;
    VkPipelineLayout layout;
    VkRenderPass pass, views_pass; /* views_pass: two views, where the device has multiview */
} Context;

void context_create(Context *context, const DeviceOptions *options);
void context_destroy(Context *context);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- shaders.c ----------------------------------------------------------------------------------------------- */

VkShaderModuleCreateInfo shader_code(enum Shader shader);
bool shader_is_there(const Context *context, enum Shader shader);

/* ---- states.c ------------------------------------------------------------------------------------------------ */

#define MAX_STAGES 5
#define COLOR_FORMAT VK_FORMAT_R8G8B8A8_UNORM

/* Each shader has a constant by which many pipelines are made of it. */
typedef struct Variant {
    uint32_t value;
    VkSpecializationMapEntry entry;
    VkSpecializationInfo info;
} Variant;

/* These point into themselves, so they are never moved. */
typedef struct Kernel {
    Variant variant;
    VkComputePipelineCreateInfo info;
} Kernel;

typedef struct Scene {
    Variant variant;
    VkPipelineShaderStageCreateInfo stages[MAX_STAGES];
    VkVertexInputBindingDescription binding;
    VkVertexInputAttributeDescription attribute;
    VkPipelineVertexInputStateCreateInfo vertex_input;
    VkPipelineInputAssemblyStateCreateInfo assembly;
    VkPipelineTessellationStateCreateInfo tessellation;
    VkPipelineViewportStateCreateInfo viewport;
    VkPipelineRasterizationStateCreateInfo rasterization;
    VkPipelineMultisampleStateCreateInfo multisample;
    VkPipelineColorBlendAttachmentState blend_attachment;
    VkPipelineColorBlendStateCreateInfo blend;
    VkPipelineDynamicStateCreateInfo dynamic;
    VkFormat color;
    VkPipelineRenderingCreateInfo rendering;
    VkGraphicsPipelineCreateInfo info;
} Scene;

VkPipelineShaderStageCreateInfo stage_of(const Context *context, enum Shader shader, const Variant *variant);
void kernel_init(Kernel *kernel, const Context *context, uint32_t variant);
/* A vertex and a fragment shader in a render pass. */
void scene_init(Scene *scene, const Context *context, uint32_t variant);
void scene_set_stages(Scene *scene, const Context *context, uint32_t count, const enum Shader *shaders);
void scene_render_dynamically(Scene *scene, uint32_t view_mask);

/* ---- contents.c ---------------------------------------------------------------------------------------------- */

/* Of a pipeline with captured statistics. */
uint64_t contents_of(const Context *context, VkPipeline pipeline);

/* ---- report.c ------------------------------------------------------------------------------------------------ */

typedef struct Options {
    bool feedback;   /* chained to every create info that has none */
    bool statistics; /* captured, and their digest printed */
    bool flags2;     /* the legacy flags go into a VkPipelineCreateFlags2CreateInfo */
    bool cache;      /* the program has a VkPipelineCache */
    uint32_t times;  /* the mode runs so often, at the same time */
} Options;

/* One mode at work. */
typedef struct Path {
    const Context *context;
    const Options *options;
    const char *name;
    VkPipelineCache cache;
    FILE *out;
} Path;

#define MAX_BATCH 16
/* What a driver that writes nothing leaves behind. */
#define UNTOUCHED 0x2bababab

/* Prints one line. Without a place for the pipelines they are destroyed. */
VkResult create_kernels(Path *path, const char *name, uint32_t count, const VkComputePipelineCreateInfo *infos,
                        VkPipeline *pipelines);
VkResult create_scenes(Path *path, const char *name, uint32_t count, const VkGraphicsPipelineCreateInfo *infos,
                       VkPipeline *pipelines);
void destroy_pipelines(const Path *path, uint32_t count, const VkPipeline *pipelines);
/* A line about something else than creation. */
void say(Path *path, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A mode that has nothing to do on this device says so; true then. */
bool lacks(Path *path, bool there, const char *what);

#endif
