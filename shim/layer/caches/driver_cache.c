/* driver_cache.c - see caches.h */
#include <stdlib.h>

#include "caches/caches.h"

VkPipelineCache driver_cache_create(const Driver *driver, const void *data, size_t size, bool one_thread)
{
    /* One thread at a time uses a cell, so the driver need not lock it. The flag needs the feature
     * (VUID-VkPipelineCacheCreateInfo-pipelineCreationCacheControl-02892). */
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .flags = one_thread && driver->cache_control ? VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT : 0,
        .initialDataSize = size,
        .pInitialData = data,
    };
    VkPipelineCache cache = VK_NULL_HANDLE;
    /* Not the application's allocator: its callbacks may be called only during the application's calls, and this
     * object outlives the call (Vulkan, 'Host Memory'). */
    if (driver->create_pipeline_cache(driver->handle, &info, NULL, &cache) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    return cache;
}

/* The size may grow between the two calls (Vulkan, vkGetPipelineCacheData), hence the loop. NVK reports too small a
 * size for some pipelines, so each further attempt has twice the room. */
uint8_t *driver_cache_read(const Driver *driver, VkPipelineCache cache, size_t *size)
{
    *size = 0;
    for (int attempt = 0; attempt < 4; attempt++) {
        size_t wanted = 0;
        if (driver->get_pipeline_cache_data(driver->handle, cache, &wanted, NULL) != VK_SUCCESS || wanted == 0)
            return NULL;
        wanted <<= attempt;
        uint8_t *data = malloc(wanted);
        if (!data)
            return NULL;
        size_t got = wanted;
        VkResult result = driver->get_pipeline_cache_data(driver->handle, cache, &got, data);
        if (result == VK_SUCCESS && got <= wanted) {
            *size = got;
            return data;
        }
        free(data);
        if (result != VK_INCOMPLETE)
            return NULL;
    }
    return NULL;
}
