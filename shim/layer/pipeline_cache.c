/*
 * pipeline_cache.c - the application's own VkPipelineCache objects. They stay the driver's handles; beside
 * each stands an AppCache with the lock that merging into it needs.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "layer.h"

static atomic_ullong next_cache_serial = 1;

void rwlock_init_for_merging(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

static unsigned bucket_of(VkPipelineCache handle)
{
    uint64_t mixed = (uint64_t)handle * 0x9e3779b97f4a7c15ull;
    return (unsigned)(mixed >> 48) % APP_CACHE_BUCKETS;
}

AppCache *app_cache_find(Device *device, VkPipelineCache handle)
{
    if (handle == VK_NULL_HANDLE)
        return NULL;
    AppCache *cache = atomic_load_explicit(&device->app_caches[bucket_of(handle)], memory_order_acquire);
    while (cache && atomic_load_explicit(&cache->handle, memory_order_acquire) != handle)
        cache = cache->next;
    return cache;
}

/* A cache that cannot be remembered is used as it is, never seeded or merged into. */
static AppCache *app_cache_add(Device *device, VkPipelineCache handle, VkPipelineCacheCreateFlags flags, bool from_data)
{
    unsigned bucket = bucket_of(handle);
    bool app_synchronized = flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT;
    pthread_mutex_lock(&device->app_caches_mutex);
    AppCache *cache = atomic_load_explicit(&device->app_caches[bucket], memory_order_relaxed);
    while (cache && atomic_load_explicit(&cache->handle, memory_order_relaxed) != VK_NULL_HANDLE)
        cache = cache->next;
    if (cache) {
        pthread_rwlock_wrlock(&cache->lock);
        cache->from_data = from_data;
        cache->app_synchronized = app_synchronized;
        atomic_store(&cache->seeded, 0);
        atomic_store_explicit(&cache->handle, handle, memory_order_release);
        pthread_rwlock_unlock(&cache->lock);
    } else if ((cache = calloc(1, sizeof *cache))) {
        rwlock_init_for_merging(&cache->lock);
        cache->from_data = from_data;
        cache->app_synchronized = app_synchronized;
        atomic_store(&cache->handle, handle);
        cache->next = atomic_load_explicit(&device->app_caches[bucket], memory_order_relaxed);
        atomic_store_explicit(&device->app_caches[bucket], cache, memory_order_release);
    }
    pthread_mutex_unlock(&device->app_caches_mutex);
    return cache;
}

void app_caches_absorb(Device *device)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++)
        for (AppCache *cache = atomic_load(&device->app_caches[i]); cache; cache = cache->next)
            cells_absorb(device, cache, false);
}

void app_caches_free(Device *device)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++) {
        AppCache *cache = atomic_load(&device->app_caches[i]);
        while (cache) {
            AppCache *next = cache->next;
            pthread_rwlock_destroy(&cache->lock);
            free(cache);
            cache = next;
        }
    }
}

static PylayerMessage *describe_data(const Device *device, enum PylayerMessageType type, uint64_t serial,
                                     const VkPipelineCacheCreateInfo *info)
{
    PylayerMessage *message = message_new(type, device->serial);
    if (!message)
        return NULL;
    PylayerCacheInfo *cache = &message->cache;
    cache->cache = serial;
    cache->data_size = info->initialDataSize;
    cache->data_is_null = info->pInitialData == NULL;
    if (info->pInitialData) {
        cache->header_size = info->initialDataSize < PYLAYER_CACHE_HEADER_BYTES ? (uint32_t)info->initialDataSize
                                                                                : PYLAYER_CACHE_HEADER_BYTES;
        memcpy(cache->header, info->pInitialData, cache->header_size);
    }
    return message;
}

static bool policy_refuses(Device *device, uint64_t serial, const VkPipelineCacheCreateInfo *info)
{
    if (!device->plan.check_caches || (info->initialDataSize == 0 && !info->pInitialData))
        return false;
    PylayerMessage *message = describe_data(device, PYLAYER_MSG_ADMIT_CACHE, serial, info);
    int32_t verdict = PYLAYER_VERDICT_NONE;
    if (mailbox_request(message, device->plan.answer_wait_ns))
        verdict = message->verdict;
    else
        count(&device->counters.answers_late, 1);
    message_done(message);
    return verdict == PYLAYER_VERDICT_EMPTY;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineCache(VkDevice handle, const VkPipelineCacheCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->create_pipeline_cache(handle, info, allocator, cache);
    uint64_t serial = atomic_fetch_add_explicit(&next_cache_serial, 1, memory_order_relaxed);
    VkPipelineCacheCreateInfo empty = *info;
    empty.initialDataSize = 0;
    empty.pInitialData = NULL;
    bool refused = policy_refuses(device, serial, info);
    VkResult result = device->create_pipeline_cache(handle, refused ? &empty : info, allocator, cache);
    if (result != VK_SUCCESS && !refused && info->initialDataSize > 0 && device->plan.check_caches) {
        PylayerMessage *message = describe_data(device, PYLAYER_MSG_CACHE_REFUSED, serial, info);
        if (message)
            message->cache.result = result;
        mailbox_post(message, device->plan.queue_bytes);
        result = device->create_pipeline_cache(handle, &empty, allocator, cache);
        refused = true;
    }
    if (refused)
        count(&device->counters.caches_emptied, 1);
    if (result != VK_SUCCESS)
        return result;
    AppCache *app_cache = app_cache_add(device, *cache, info->flags, info->initialDataSize > 0 && !refused);
    /* Without a probe a miss cannot be seen, so the snapshot carrier seeds beforehand. */
    if (app_cache && device->plan.seed_caches && atomic_load(&device->carrier) == PYLAYER_CARRIER_SNAPSHOT) {
        loading_wait(device);
        cells_seed(device, app_cache);
    }
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyPipelineCache(VkDevice handle, VkPipelineCache cache,
                                                      const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(device, cache);
    if (app_cache) {
        if (atomic_load(&device->carrier) == PYLAYER_CARRIER_SNAPSHOT)
            cells_absorb(device, app_cache, true);
        /* A snapshot that is being taken reads it to the end. */
        pthread_rwlock_wrlock(&app_cache->lock);
        atomic_store_explicit(&app_cache->handle, VK_NULL_HANDLE, memory_order_release);
        pthread_rwlock_unlock(&app_cache->lock);
    }
    device->destroy_pipeline_cache(handle, cache, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineCacheData(VkDevice handle, VkPipelineCache cache, size_t *size,
                                                          void *data)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(device, cache);
    if (app_cache)
        pthread_rwlock_rdlock(&app_cache->lock);
    VkResult result = device->get_pipeline_cache_data(handle, cache, size, data);
    if (app_cache)
        pthread_rwlock_unlock(&app_cache->lock);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_MergePipelineCaches(VkDevice handle, VkPipelineCache destination,
                                                         uint32_t source_count, const VkPipelineCache *sources)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->merge_pipeline_caches(handle, destination, source_count, sources);
    AppCache *into = app_cache_find(device, destination);
    pthread_mutex_lock(&device->merge_mutex);
    if (into)
        pthread_rwlock_wrlock(&into->lock);
    for (uint32_t i = 0; i < source_count; i++) {
        AppCache *from = app_cache_find(device, sources[i]);
        if (from && from != into)
            pthread_rwlock_rdlock(&from->lock);
    }
    VkResult result = device->merge_pipeline_caches(handle, destination, source_count, sources);
    for (uint32_t i = 0; i < source_count; i++) {
        AppCache *from = app_cache_find(device, sources[i]);
        if (from && from != into)
            pthread_rwlock_unlock(&from->lock);
    }
    if (into)
        pthread_rwlock_unlock(&into->lock);
    pthread_mutex_unlock(&device->merge_mutex);
    return result;
}
