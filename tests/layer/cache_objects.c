/*
 * cache_objects sizes|growth|merges: what Vulkan lets a program do with VkPipelineCache objects. Prints what came of it.
 *
 * sizes   reads a cache into buffers of 0, 1, 31, 32, 33 bytes and of one byte less than all, and makes a cache of each
 * growth  asks for the size, creates a pipeline, and reads
 * merges  empty caches, one source twice, many sources, caches with and without EXTERNALLY_SYNCHRONIZED; pipelines are
 *         compiled in some and found in others
 */
#include "device.h"
#include "shader.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static VkDevice device;
static VkShaderModule module;
static VkPipelineLayout layout;
static unsigned char data[1 << 16];

static void must(VkResult result, const char *what)
{
    if (!result)
        return;
    fprintf(stderr, "%s: VkResult %d\n", what, result);
    exit(1);
}

static VkPipelineCache new_cache(VkPipelineCacheCreateFlags flags, size_t size, const void *initial)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .flags = flags,
                                      .initialDataSize = size,
                                      .pInitialData = initial};
    VkPipelineCache cache = VK_NULL_HANDLE;
    must(vkCreatePipelineCache(device, &info, NULL, &cache), "vkCreatePipelineCache");
    return cache;
}

static void create(VkPipelineCache cache, const char *name)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    must(create_compute(device, cache, module, layout, name, NULL, &pipeline), "vkCreateComputePipelines");
    vkDestroyPipeline(device, pipeline, NULL);
}

static size_t size_of(VkPipelineCache cache)
{
    size_t size = 0;
    must(vkGetPipelineCacheData(device, cache, &size, NULL), "vkGetPipelineCacheData");
    return size;
}

static void read_into(VkPipelineCache cache, size_t room)
{
    static const unsigned char untouched = 0xa5;
    size_t size = room;
    memset(data, untouched, sizeof data);
    VkResult result = vkGetPipelineCacheData(device, cache, &size, data);
    bool kept_in = size <= room;
    for (size_t i = room; i < sizeof data; i++)
        kept_in = kept_in && data[i] == untouched;
    printf("%s %s %zu\n",
           result == VK_SUCCESS      ? "success"
           : result == VK_INCOMPLETE ? "incomplete"
                                     : "error",
           kept_in ? "within" : "beyond", size);
    vkDestroyPipelineCache(device, new_cache(0, size, size ? data : NULL), NULL);
}

static void sizes(void)
{
    VkPipelineCache cache = new_cache(0, 0, NULL);
    create(cache, "main");
    const size_t rooms[] = {0, 1, 31, 32, 33, size_of(cache) - 1, size_of(cache), size_of(cache) + 1};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        read_into(cache, rooms[i]);
    vkDestroyPipelineCache(device, cache, NULL);
}

static void growth(void)
{
    VkPipelineCache cache = new_cache(0, 0, NULL);
    create(cache, "main");
    size_t before = size_of(cache);
    create(cache, "twin");
    read_into(cache, before);
    read_into(cache, size_of(cache));
    vkDestroyPipelineCache(device, cache, NULL);
}

static void merges(void)
{
    const VkPipelineCacheCreateFlags flags = VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT;
    VkPipelineCache caches[20];
    for (int i = 0; i < 20; i++)
        caches[i] = new_cache(i % 2 ? flags : 0, 0, NULL);
    create(caches[1], "main");
    create(caches[2], "twin");
    VkPipelineCache twice[] = {caches[1], caches[1], caches[4]};
    must(vkMergePipelineCaches(device, caches[0], 3, twice), "merge of one source twice, and an empty one");
    must(vkMergePipelineCaches(device, caches[3], 1, &caches[5]), "merge of nothing into nothing");
    must(vkMergePipelineCaches(device, caches[19], 19, caches), "merge of many");
    must(vkMergePipelineCaches(device, caches[6], 1, &caches[19]), "merge of merged ones");
    printf("%d %d %d\n", size_of(caches[0]) > size_of(caches[3]), size_of(caches[19]) > size_of(caches[0]),
           size_of(caches[6]) == size_of(caches[19]));
    /* Found, whichever way it came there. */
    create(caches[0], "main");
    create(caches[19], "twin");
    create(caches[6], "main");
    for (int i = 0; i < 20; i++)
        vkDestroyPipelineCache(device, caches[i], NULL);
}

int main(int count, char **arguments)
{
    VkInstance instance;
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
        .pipelineCreationCacheControl = VK_TRUE};
    device =
        create_device_with(VK_API_VERSION_1_1, &cache_control, "VK_EXT_pipeline_creation_cache_control", &instance);
    if (count != 2 || !device || create_shader(device, &module, &layout))
        return 1;
    if (!strcmp(arguments[1], "sizes"))
        sizes();
    else if (!strcmp(arguments[1], "growth"))
        growth();
    else
        merges();
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
