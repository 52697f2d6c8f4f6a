/*
 * merging.c - merging into a VkPipelineCache that threads create pipelines with.
 *
 * Vulkan lets threads create pipelines with one cache, read it and merge out of it at the same time. Nobody else may
 * use a cache that is merged into (vkMergePipelineCaches: dstCache is externally synchronized). An application that
 * does not know of the layer's merges cannot ensure that, so the layer does. A lookup takes microseconds, so merges and
 * lookups wait for each other. A compile takes up to seconds, and reading all data milliseconds. A merge that meets one
 * of these goes into an annex of the cache. The thread that was in the way merges the annex when it is done.
 *
 * Caches::merge_mutex is held for every merge of the device. So nobody merges into the sources meanwhile, and they need
 * no lock.
 */
#include <stdlib.h>

#include "caches/caches.h"
#include "caches/driver_cache.h"
#include "crash/sentinel.h"

void cache_use_init(CacheUse *use)
{
    spread_lock_init(&use->lock);
}

void cache_use_destroy(CacheUse *use)
{
    spread_lock_destroy(&use->lock);
}

static void drop_annex_locked(Caches *caches, CacheUse *use)
{
    caches->driver->destroy_pipeline_cache(caches->driver->handle, use->annex, NULL);
    use->annex = VK_NULL_HANDLE;
    atomic_store(&use->has_annex, false);
}

/* If the driver has no memory for the merge, the annex stays for the next attempt. */
static void take_over_annex_locked(Caches *caches, CacheUse *use, VkPipelineCache cache)
{
    if (use->annex == VK_NULL_HANDLE || !cache_try_alone_locked(use))
        return;
    VkResult result = caches->driver->merge_pipeline_caches(caches->driver->handle, cache, 1, &use->annex);
    cache_alone_end_locked(use);
    if (result == VK_SUCCESS)
        drop_annex_locked(caches, use);
}

void cache_take_over_annex(Caches *caches, CacheUse *use, VkPipelineCache cache)
{
    if (!atomic_load(&use->has_annex) || call_is_off(&caches->crash->added_calls, PYLAYER_MARK_COPY, 0))
        return;
    if (!patient_lock(&caches->merge_mutex))
        return;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_COPY, 0, 0);
    take_over_annex_locked(caches, use, cache);
    mark_end(mark);
    patient_unlock(&caches->merge_mutex);
}

VkResult cache_merge_locked(Caches *caches, CacheUse *use, VkPipelineCache cache, uint32_t source_count,
                            const VkPipelineCache *sources)
{
    bool alone = cache_try_alone_locked(use);
    if (!alone && use->annex == VK_NULL_HANDLE &&
        (use->annex = driver_cache_create(caches->driver, true)) == VK_NULL_HANDLE)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (alone) {
        VkResult result = caches->driver->merge_pipeline_caches(caches->driver->handle, cache, source_count, sources);
        cache_alone_end_locked(use);
        return result;
    }
    VkResult result = caches->driver->merge_pipeline_caches(caches->driver->handle, use->annex, source_count, sources);
    atomic_store(&use->has_annex, true);
    /* The thread that was in the way may have left before it could see the flag. */
    take_over_annex_locked(caches, use, cache);
    return result;
}

VkPipelineCache cache_source(Caches *caches, VkPipelineCache cache)
{
    if (!caches->run->plan.merge_moves || cache == VK_NULL_HANDLE)
        return cache;
    size_t size = 0;
    uint8_t *data = driver_cache_read(caches->driver, cache, &size);
    VkPipelineCache copy = data ? driver_cache_create_from(caches->driver, data, size) : VK_NULL_HANDLE;
    free(data);
    return copy != VK_NULL_HANDLE ? copy : cache;
}

void cache_source_end(Caches *caches, VkPipelineCache cache, VkPipelineCache source)
{
    if (source != cache)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, source, NULL);
}

void cache_drop_annex(Caches *caches, CacheUse *use)
{
    if (use->annex != VK_NULL_HANDLE)
        drop_annex_locked(caches, use);
}

bool cache_use_begin(CacheUse *use, bool for_long)
{
    return spread_lock_read(&use->lock, for_long);
}

void cache_use_end(Caches *caches, CacheUse *use, VkPipelineCache cache, bool for_long)
{
    spread_unlock_read(&use->lock, for_long);
    if (for_long)
        cache_take_over_annex(caches, use, cache);
}

void cache_use_for_ever(CacheUse *use)
{
    atomic_store(&use->for_ever, true);
}

bool cache_try_alone_locked(CacheUse *use)
{
    /* VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR: the driver synchronizes merges. */
    if (use->synchronized_merge)
        return true;
    if (!spread_try_write(&use->lock))
        return false;
    if (!atomic_load(&use->for_ever))
        return true;
    spread_unlock_write(&use->lock);
    return false;
}

void cache_alone_end_locked(CacheUse *use)
{
    if (!use->synchronized_merge)
        spread_unlock_write(&use->lock);
}
