/* pipeline_caches.c - the hooks of the commands for VkPipelineCache */
#include "crash/crash.h"
#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

/* Returns true if the driver may have failed because of the program's data. Without memory, or on a lost
 * device, it fails with any data. An empty cache would then hide the failure and lose the data, which the
 * program may overwrite. */
static bool may_refuse_data(VkResult result)
{
    return result != VK_SUCCESS && result != VK_ERROR_OUT_OF_HOST_MEMORY && result != VK_ERROR_OUT_OF_DEVICE_MEMORY &&
           result != VK_ERROR_DEVICE_LOST;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineCache(VkDevice handle, const VkPipelineCacheCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->driver.create_pipeline_cache(handle, info, allocator, cache);
    uint32_t slot = atomic_fetch_add_explicit(&device->caches.next_slot, 1, memory_order_relaxed);
    VkPipelineCacheCreateInfo empty = *info;
    empty.initialDataSize = 0;
    empty.pInitialData = NULL;
    OwnData data;
    bool refused = own_data_is_refused(&device->caches, &data, slot, info);
    bool mends = device->run.plan.check_caches && !device->run.plan.report_caches;
    Mark mark = mark_application(&device->crash, PYLAYER_MARK_APPLICATION, &data.id, data.id != 0);
    VkResult result = device->driver.create_pipeline_cache(handle, refused ? &empty : info, allocator, cache);
    mark_end(mark);
    if (may_refuse_data(result) && !refused && info->initialDataSize > 0 && mends) {
        own_data_tell_failed(&device->caches, &data, result);
        result = device->driver.create_pipeline_cache(handle, &empty, allocator, cache);
        refused = true;
        data.id = 0;
    } else if (result == VK_SUCCESS) {
        own_data_passed(&device->caches, &data);
    }
    if (refused)
        count(&counters_of(&device->run)->totals.caches_emptied, 1);
    if (result != VK_SUCCESS)
        return result;
    app_cache_add(&device->caches, *cache, info->flags, info->initialDataSize > 0 && !refused, data.id);
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyPipelineCache(VkDevice handle, VkPipelineCache cache,
                                                      const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(&device->caches, cache);
    if (app_cache) {
        /* Another thread may be merging into this cache: wait for its end. */
        if (!patient_lock(&device->caches.merge_mutex))
            return; /* a merge hangs, perhaps with this cache: the cache and its entry stay */
        app_cache_forget(&device->caches, app_cache);
        patient_unlock(&device->caches.merge_mutex);
    }
    device->driver.destroy_pipeline_cache(handle, cache, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineCacheData(VkDevice handle, VkPipelineCache cache, size_t *size,
                                                          void *data)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->driver.get_pipeline_cache_data(handle, cache, size, data);
    AppCache *app_cache = app_cache_find(&device->caches, cache);
    if (app_cache)
        stored_settle(&device->caches, app_cache);
    if (app_cache && !spread_lock_read(&app_cache->lock, true))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult result = device->driver.get_pipeline_cache_data(handle, cache, size, data);
    if (app_cache)
        spread_unlock_read(&app_cache->lock, true);
    if (device->run.plan.check_caches && data && *size > 0 && (result == VK_SUCCESS || result == VK_INCOMPLETE))
        own_data_read(&device->caches, data, *size);
    return result;
}

static Mark mark_merged_data(Caches *caches, VkPipelineCache destination, uint32_t source_count,
                             const VkPipelineCache *sources)
{
    uint64_t data_ids[PYLAYER_MARK_IDS];
    unsigned found = 0;
    for (uint32_t i = 0; i <= source_count && found < PYLAYER_MARK_IDS; i++) {
        const AppCache *cache = app_cache_find(caches, i < source_count ? sources[i] : destination);
        if (cache && cache->data_id)
            data_ids[found++] = cache->data_id;
    }
    return mark_application(caches->crash, PYLAYER_MARK_MERGE, data_ids, found);
}

static void settle_sources(Caches *caches, uint32_t source_count, const VkPipelineCache *sources)
{
    for (uint32_t i = 0; i < source_count; i++) {
        AppCache *from = app_cache_find(caches, sources[i]);
        if (from)
            stored_settle(caches, from);
    }
}

VKAPI_ATTR VkResult VKAPI_CALL layer_MergePipelineCaches(VkDevice handle, VkPipelineCache destination,
                                                         uint32_t source_count, const VkPipelineCache *sources)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->driver.merge_pipeline_caches(handle, destination, source_count, sources);
    settle_sources(&device->caches, source_count, sources);
    /* The application keeps its own threads out of the destination, or asked the driver to. Threads of
     * the layer's use it only while they hold this mutex. */
    if (!patient_lock(&device->caches.merge_mutex))
        return device->driver.merge_pipeline_caches(handle, destination, source_count, sources);
    AppCache *into = app_cache_find(&device->caches, destination);
    if (into)
        atomic_store(&into->holds_unknown, true);
    Mark mark = mark_merged_data(&device->caches, destination, source_count, sources);
    VkResult result = device->driver.merge_pipeline_caches(handle, destination, source_count, sources);
    mark_end(mark);
    patient_unlock(&device->caches.merge_mutex);
    return result;
}
