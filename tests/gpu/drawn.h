/* drawn.h - a device that draws into an image without a window, for drawn.c. gpu.c has it. */
#ifndef TEST_DRAWN_H
#define TEST_DRAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <vulkan/vulkan.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define SIDE 64
#define FORMAT VK_FORMAT_R8G8B8A8_UNORM
#define VALUES 64

enum Views { ONE_VIEW, TWO_VIEWS, DEVICE_INDEX };
enum { TESSELLATION = 1, GEOMETRY = 2, VERTEX_WRITES = 4, FRAGMENT_WRITES = 8 };

enum Shader {
    VERTEX,
    VERTEX_VIEWS,
    VERTEX_WRITING,
    VERTEX_VIEWS_WRITES,
    CONTROL,
    EVALUATION,
    EVALUATION_VIEWS,
    GEOMETRIES,
    GEOMETRIES_VIEWS,
    COLORS,
    COLORS_WRITING,
    NUMBERS,
    SHADER_COUNT,
};

typedef struct Gpu {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    bool multiview, view_tessellation, view_geometry, dynamic_rendering, libraries;
    unsigned stages; /* of enum above, what the device has */
    VkPipelineCache cache;
    VkShaderModule modules[SHADER_COUNT];
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkDescriptorPool sets;
    VkDescriptorSet set;
    VkRenderPass passes[2]; /* one view, two views */
    VkImage image;          /* of two layers */
    VkDeviceMemory image_memory;
    VkImageView views[2]; /* one layer, both layers */
    VkFramebuffer framebuffers[2];
    VkBuffer pixels, values;
    VkDeviceMemory pixels_memory, values_memory;
    uint8_t *pixel_bytes, *value_bytes; /* mapped */
    VkCommandPool pool;
    VkCommandBuffer commands;
} Gpu;

_Noreturn void die(const char *text);
void gpu_open(Gpu *gpu, bool with_cache);
void gpu_close(Gpu *gpu);
/* Forgets what the last pipeline left. */
void gpu_clear(Gpu *gpu);
void gpu_draw(Gpu *gpu, VkPipeline pipeline, bool pass, bool two_views);
void gpu_dispatch(Gpu *gpu, VkPipeline pipeline);
/* How many pixels something was drawn to. */
unsigned gpu_pixels(const Gpu *gpu);
uint64_t gpu_image_digest(const Gpu *gpu);
uint64_t gpu_values_digest(const Gpu *gpu);

#endif
