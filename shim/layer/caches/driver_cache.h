/* driver_cache.h - VkPipelineCache objects of the layer's own */
#ifndef PYLAYER_DRIVER_CACHE_H
#define PYLAYER_DRIVER_CACHE_H

#include "base.h"

/* An empty cache. one_thread: used by one thread at a time. Returns VK_NULL_HANDLE if the driver refuses. */
VkPipelineCache driver_cache_create(Device *device, bool one_thread);
/* A cache with these data, for one thread. Returns VK_NULL_HANDLE if the driver refuses. */
VkPipelineCache driver_cache_create_from(Device *device, const void *data, size_t size);
/* All data of a cache. The caller frees it. Returns NULL, and a size of 0, if it cannot be read. */
uint8_t *driver_cache_read(Device *device, VkPipelineCache cache, size_t *size);

#endif
