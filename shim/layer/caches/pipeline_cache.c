/*
 * pipeline_cache.c - the application's own VkPipelineCache objects. The application keeps the driver's handles. For
 * each, the layer keeps an AppCache with what merging into the cache needs.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "caches/cells.h"

static unsigned bucket_of(VkPipelineCache handle)
{
    uint64_t mixed = (uint64_t)handle * 0x9e3779b97f4a7c15ull;
    return (unsigned)(mixed >> 48) % APP_CACHE_BUCKETS;
}

AppCache *app_cache_find(Caches *caches, VkPipelineCache handle)
{
    if (handle == VK_NULL_HANDLE)
        return NULL;
    AppCache *cache = atomic_load_explicit(&caches->apps[bucket_of(handle)], memory_order_acquire);
    while (cache && atomic_load_explicit(&cache->handle, memory_order_acquire) != handle)
        cache = cache->next;
    return cache;
}

static void describe_app_cache(AppCache *cache, CacheNumber number, VkPipelineCacheCreateFlags flags, bool from_data,
                               uint64_t data_id)
{
    cache->serial = number.serial;
    cache->slot = number.slot;
    cache->from_data = from_data;
    atomic_store(&cache->holds_unknown, from_data);
    cache->data_id = data_id;
    cache->app_synchronized = flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT;
    atomic_store(&cache->use.for_ever, false);
    cache->use.synchronized_merge = flags & VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR;
}

static AppCache *new_app_cache(void)
{
    AppCache *cache = aligned_alloc(_Alignof(AppCache), sizeof *cache);
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof *cache);
    cache_use_init(&cache->use);
    shared_map_open(&cache->contents);
    return cache;
}

void app_cache_add(Caches *caches, VkPipelineCache handle, CacheNumber number, VkPipelineCacheCreateFlags flags,
                   bool from_data, uint64_t data_id)
{
    unsigned bucket = bucket_of(handle);
    pthread_mutex_lock(&caches->apps_mutex);
    AppCache *cache = atomic_load_explicit(&caches->apps[bucket], memory_order_relaxed);
    /* Acquire: the thread that destroyed the entry's cache read the entry for the last time before this. */
    while (cache && atomic_load_explicit(&cache->handle, memory_order_acquire) != VK_NULL_HANDLE)
        cache = cache->next;
    if (cache) {
        describe_app_cache(cache, number, flags, from_data, data_id);
        atomic_store(&cache->seeded, 0);
        atomic_store_explicit(&cache->handle, handle, memory_order_release);
    } else if ((cache = new_app_cache())) {
        describe_app_cache(cache, number, flags, from_data, data_id);
        atomic_store(&cache->handle, handle);
        cache->next = atomic_load_explicit(&caches->apps[bucket], memory_order_relaxed);
        atomic_store_explicit(&caches->apps[bucket], cache, memory_order_release);
    }
    pthread_mutex_unlock(&caches->apps_mutex);
}

void app_caches_free(Caches *caches)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++) {
        AppCache *cache = atomic_load(&caches->apps[i]);
        while (cache) {
            AppCache *next = cache->next;
            cache_drop_annex(caches, &cache->use);
            cache_use_destroy(&cache->use);
            shared_map_close(&cache->contents);
            free(cache);
            cache = next;
        }
    }
}
