/* driver_cache.h - VkPipelineCache objects of the layer's own */
#ifndef PYLAYER_DRIVER_CACHE_H
#define PYLAYER_DRIVER_CACHE_H

#include "driver/driver.h"

/* Creates an empty cache. one_thread: one thread at a time uses it. Returns VK_NULL_HANDLE if the driver refuses. */
VkPipelineCache driver_cache_create(const Driver *driver, bool one_thread);
/* Creates a cache from data, for one thread at a time. Returns VK_NULL_HANDLE if the driver refuses. */
VkPipelineCache driver_cache_create_from(const Driver *driver, const void *data, size_t size);
/* Returns all data of a cache, which the caller frees. Returns NULL, and a size of 0, if it cannot be read. */
uint8_t *driver_cache_read(const Driver *driver, VkPipelineCache cache, size_t *size);

#endif
