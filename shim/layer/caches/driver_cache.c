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

uint8_t *driver_cache_read(const Driver *driver, VkPipelineCache cache, size_t *size)
{
    size_t wanted = 0;
    if (driver->get_pipeline_cache_data(driver->handle, cache, &wanted, NULL) != VK_SUCCESS)
        wanted = 0;
    uint8_t *data = wanted ? malloc(wanted) : NULL;
    *size = wanted;
    if (data && driver->get_pipeline_cache_data(driver->handle, cache, size, data) == VK_SUCCESS && *size <= wanted)
        return data;
    free(data);
    *size = 0;
    return NULL;
}
