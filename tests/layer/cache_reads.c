/*
 * cache_reads FILE [again]: creates a pipeline in a cache and reads its data as programs do: the size, all of it twice,
 * and with a buffer that is too small. Writes both results to FILE, creates a second cache from it and reads that too.
 * 'again' does only this last step, with what FILE holds.
 */
#include "device.h"
#include "shader.h"
#include <stdio.h>
#include <stdlib.h>

static unsigned char data[1 << 16], other[1 << 16];

static int write_file(const char *name, size_t size, size_t small)
{
    FILE *file = fopen(name, "wb");
    return !file || fwrite(data, 1, size, file) != size || fwrite(other, 1, small, file) != small || fclose(file);
}

static size_t read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file)
        fclose(file);
    return size;
}

/* How many bytes of data there are; 0: something failed. */
static size_t fill_and_read(VkDevice device, const char *name)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    VkShaderModule module;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    if (vkCreatePipelineCache(device, &info, NULL, &cache) || create_shader(device, &module, &layout) ||
        create_compute(device, cache, module, layout, "main", NULL, &pipeline))
        return 0;
    size_t size, again = sizeof other, small;
    if (vkGetPipelineCacheData(device, cache, &size, NULL) || size > sizeof data)
        return 0;
    small = size - 1;
    if (vkGetPipelineCacheData(device, cache, &size, data) || vkGetPipelineCacheData(device, cache, &again, other) ||
        vkGetPipelineCacheData(device, cache, &small, other) != VK_INCOMPLETE || write_file(name, size, small))
        return 0;
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyPipelineCache(device, cache, NULL);
    return size;
}

int main(int count, char **arguments)
{
    VkInstance instance;
    VkDevice device = create_device(VK_API_VERSION_1_1, &instance);
    if (count < 2 || !device)
        return 1;
    size_t size = count == 2 ? fill_and_read(device, arguments[1]) : read_file(arguments[1]), again = sizeof other;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
    VkPipelineCache cache;
    if (size == 0 || vkCreatePipelineCache(device, &info, NULL, &cache) ||
        vkGetPipelineCacheData(device, cache, &again, other))
        return 1;
    printf("%zu %zu\n", size, again);
    vkDestroyPipelineCache(device, cache, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
