/* caches.c - VkPipelineCache objects of the program: merged, read in every way, and made again from what was read. */
#include <stdlib.h>

#include "modes.h"

#define MAY_NOT_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT

static VkPipelineCache create_cache(Path *path, const char *name, const void *data, size_t size)
{
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkResult result = vkCreatePipelineCache(path->context->device, &info, NULL, &cache);
    say(path, name, "result=%d handle=%d", result, cache != VK_NULL_HANDLE);
    return cache;
}

static void use(const Path *path, const char *name, VkPipelineCache cache, uint32_t variant,
                VkPipelineCreateFlags flags)
{
    Path with = *path;
    Kernel kernel;
    kernel_init(&kernel, path->context, variant);
    kernel.info.flags = flags;
    with.cache = cache;
    create_kernels(&with, name, 1, &kernel.info, NULL);
}

/* How large the data is, all of it, and the most that fits where it does not. */
static void *read_cache(Path *path, const char *name, VkPipelineCache cache, size_t *size)
{
    VkDevice device = path->context->device;
    size_t wanted = 0, whole, part;
    VkResult sized = vkGetPipelineCacheData(device, cache, &wanted, NULL);
    unsigned char *data = malloc(wanted + 1), *little = malloc(wanted + 1);
    if (!data || !little)
        die("no memory");
    whole = wanted;
    VkResult all = vkGetPipelineCacheData(device, cache, &whole, data);
    part = wanted - 1;
    VkResult some = vkGetPipelineCacheData(device, cache, &part, little);
    say(path, name, "results=%d,%d,%d header=%d whole=%d less=%d", sized, all, some, wanted >= 32, whole == wanted,
        part < wanted);
    free(little);
    *size = whole;
    return data;
}

void mode_caches(Path *path)
{
    VkDevice device = path->context->device;
    VkPipelineCache first = create_cache(path, "first", NULL, 0), second = create_cache(path, "second", NULL, 0);
    use(path, "into-the-first", first, 1400, 0);
    use(path, "into-the-second", second, 1401, 0);
    size_t size = 0;
    free(read_cache(path, "read-the-second", second, &size));
    say(path, "merge", "result=%d", vkMergePipelineCaches(device, first, 1, &second));
    void *data = read_cache(path, "read-the-first", first, &size);
    VkPipelineCache third = create_cache(path, "third-from-data", data, size);
    free(data);
    if (path->context->has[HAS_CACHE_CONTROL]) {
        /* A driver whose cache keeps nothing has to compile both. */
        use(path, "found-in-the-data", third, 1400, MAY_NOT_COMPILE);
        use(path, "merged-and-found-in-the-data", third, 1401, MAY_NOT_COMPILE);
    }
    vkDestroyPipelineCache(device, third, NULL);
    vkDestroyPipelineCache(device, second, NULL);
    vkDestroyPipelineCache(device, first, NULL);
    vkDestroyPipelineCache(device, VK_NULL_HANDLE, NULL);
}
