/*
 * pipeline_cache.c - the application's own VkPipelineCache objects. The application keeps the driver's handles. For
 * each, the layer keeps an AppCache with what merging into the cache needs.
 */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"

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

static void describe_app_cache(AppCache *cache, VkPipelineCacheCreateFlags flags, bool from_data, uint64_t data_id)
{
    atomic_store(&cache->holds_unknown, from_data);
    cache->data_id = data_id;
    atomic_store(&cache->owes_all, false);
    atomic_store(&cache->used_for_ever, false);
    cache->synchronized_merge = flags & VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR;
}

static AppCache *new_app_cache(void)
{
    AppCache *cache = aligned_alloc(_Alignof(AppCache), sizeof *cache);
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof *cache);
    spread_lock_init(&cache->lock);
    shared_map_open(&cache->contents);
    return cache;
}

void app_cache_add(Caches *caches, VkPipelineCache handle, VkPipelineCacheCreateFlags flags, bool from_data,
                   uint64_t data_id)
{
    unsigned bucket = bucket_of(handle);
    pthread_mutex_lock(&caches->apps_mutex);
    AppCache *cache = atomic_load_explicit(&caches->apps[bucket], memory_order_relaxed);
    /* Acquire: the thread that destroyed the entry's cache read the entry for the last time before this. */
    while (cache && atomic_load_explicit(&cache->handle, memory_order_acquire) != VK_NULL_HANDLE)
        cache = cache->next;
    if (cache) {
        describe_app_cache(cache, flags, from_data, data_id);
        atomic_store_explicit(&cache->handle, handle, memory_order_release);
    } else if ((cache = new_app_cache())) {
        describe_app_cache(cache, flags, from_data, data_id);
        atomic_store(&cache->handle, handle);
        cache->next = atomic_load_explicit(&caches->apps[bucket], memory_order_relaxed);
        atomic_store_explicit(&caches->apps[bucket], cache, memory_order_release);
    }
    pthread_mutex_unlock(&caches->apps_mutex);
}

void app_cache_forget(AppCache *app_cache)
{
    if (shared_map_change(&app_cache->contents)) {
        number_map_free(&app_cache->contents.numbers);
        spread_unlock_write(&app_cache->contents.lock);
    }
    atomic_store_explicit(&app_cache->handle, VK_NULL_HANDLE, memory_order_release);
}

void app_caches_free(Caches *caches)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++) {
        AppCache *cache = atomic_load(&caches->apps[i]);
        while (cache) {
            AppCache *next = cache->next;
            spread_lock_destroy(&cache->lock);
            shared_map_close(&cache->contents);
            free(cache);
            cache = next;
        }
    }
}

/* ---- what belongs into them --------------------------------------------------------------------- */

/* A cache with more gets all of the layer's when somebody looks. */
#define MOST_CONTENTS 65536

enum Content { ABSENT, OWED, THERE };

bool app_cache_owes(AppCache *app_cache, uint64_t fingerprint)
{
    if (fingerprint && shared_map_find(&app_cache->contents, fingerprint) != ABSENT)
        return true;
    if (fingerprint)
        shared_map_put(&app_cache->contents, fingerprint, OWED, MOST_CONTENTS);
    if (!fingerprint || shared_map_find(&app_cache->contents, fingerprint) == ABSENT)
        atomic_store(&app_cache->owes_all, true);
    return false;
}

void app_cache_holds(AppCache *app_cache, uint64_t fingerprint)
{
    if (fingerprint)
        shared_map_put(&app_cache->contents, fingerprint, THERE, MOST_CONTENTS);
}

uint64_t *app_cache_take_owed(AppCache *app_cache, size_t *count)
{
    SharedMap *contents = &app_cache->contents;
    *count = 0;
    if (!shared_map_change(contents)) {
        atomic_store(&app_cache->owes_all, true);
        return NULL;
    }
    NumberMap *numbers = &contents->numbers;
    uint64_t *owed = numbers->used > 0 ? malloc(numbers->used * sizeof *owed) : NULL;
    for (size_t i = 0; owed && i < numbers->capacity; i++)
        if (numbers->slots[i].key && numbers->slots[i].value == OWED) {
            numbers->slots[i].value = THERE;
            owed[(*count)++] = numbers->slots[i].key;
        }
    spread_unlock_write(&contents->lock);
    return owed;
}
