/* pipeline_cache.h - the application's own VkPipelineCache objects */
#ifndef PYLAYER_PIPELINE_CACHE_H
#define PYLAYER_PIPELINE_CACHE_H

#include "caches/merging.h"
#include "process/shared_map.h"

/* Number of a vkCreatePipelineCache call: `serial` in the process, `slot` in the device. */
typedef struct CacheNumber {
    uint64_t serial;
    uint32_t slot;
} CacheNumber;

/* What the layer knows of an application's VkPipelineCache. The application uses the driver's handle. */
typedef struct AppCache {
    _Atomic(VkPipelineCache) handle; /* VK_NULL_HANDLE: the entry is free and may be reused */
    struct AppCache *next;           /* same bucket; never unlinked before the device is destroyed */
    uint64_t serial;                 /* PylayerCacheInfo::cache */
    uint32_t slot;                   /* PylayerCacheInfo::slot */
    CacheUse use;
    uint64_t data_id;          /* first bytes of the initial data's digest; 0: no data, or not known */
    atomic_bool holds_unknown; /* it may hold pipelines that this run did not create with it: data, merges */
    bool from_data;            /* created with initial data, which may not be this driver's own work */
    bool app_synchronized;     /* EXTERNALLY_SYNCHRONIZED: used only within the application's own calls */
    atomic_uint seeded;        /* Caches::generation when last seeded; 0: never */
    SharedMap contents;        /* contents.h */
} AppCache;

#define APP_CACHE_BUCKETS 4096

/* Returns AppCache::data_id for marks; 0 without a cache. */
static inline uint64_t app_cache_data_id(const AppCache *app_cache)
{
    return app_cache ? app_cache->data_id : 0;
}

AppCache *app_cache_find(Caches *caches, VkPipelineCache handle);
/* Without memory for it the cache is used as it is, and never seeded or merged into. */
void app_cache_add(Caches *caches, VkPipelineCache handle, CacheNumber number, VkPipelineCacheCreateFlags flags,
                   bool from_data, uint64_t data_id);
void app_caches_free(Caches *caches);

#endif
