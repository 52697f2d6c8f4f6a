// What pipelines are made from: instance and device, modules, layouts, render passes, the cache.
#ifndef DEMO_OBJECTS_H
#define DEMO_OBJECTS_H

#include "../recipes/device.h"
#include "options.h"
#include "shaders.h"

enum { COLOR_FORMATS = 3, SAMPLE_COUNTS = 2 };

typedef enum { PASS_FORWARD, PASS_SCREEN, PASS_GBUFFER, PASS_COUNT } Pass;

typedef enum { LAYOUT_COMPUTE, LAYOUT_GRAPHICS, LAYOUT_RAYS, LAYOUT_COUNT } LayoutName;

typedef struct {
    VkShaderModule modules[SHADER_COUNT];
    VkDescriptorSetLayout sets[LAYOUT_COUNT];
    VkPipelineLayout layouts[LAYOUT_COUNT];
    VkRenderPass passes[PASS_COUNT][COLOR_FORMATS][SAMPLE_COUNTS];
    VkPipelineCache cache;
    uint64_t read_cache_ns, create_cache_ns; // its file, and vkCreatePipelineCache
    size_t cache_loaded_bytes;
} Objects;

// Instance and device, as the command line asks.
void device_open(Device *device, const Options *options);
void device_close(Device *device);

uint32_t pass_colors(Pass pass);

// Of the command line; replaces what was there.
void create_cache(Objects *objects, VkDevice device, const Options *options);
void objects_create(Objects *objects, const Device *device, const Options *options);
void objects_destroy(Objects *objects, VkDevice device);

// The size of the program's own cache, 0 without one.
size_t cache_size(const Objects *objects, VkDevice device);

void cache_save(const Objects *objects, VkDevice device, const char *path);

#endif
