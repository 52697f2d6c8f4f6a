/*
 * pipeline_cache.c - the application's own VkPipelineCache objects. The application keeps the driver's handles. For
 * each, the layer keeps an AppCache with what merging into the cache needs.
 */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"

AppCache *app_cache_find(Caches *caches, VkPipelineCache handle)
{
    return handle == VK_NULL_HANDLE ? NULL : (AppCache *)(uintptr_t)shared_map_find(&caches->apps, (uint64_t)handle);
}

static void app_cache_free(AppCache *cache)
{
    number_map_free(&cache->contents.numbers);
    free(cache);
}

void app_cache_add(Caches *caches, VkPipelineCache handle, VkPipelineCacheCreateFlags flags, bool from_data,
                   uint64_t data_id)
{
    /* A driver that says VK_SUCCESS may still have created nothing. */
    AppCache *cache = handle == VK_NULL_HANDLE ? NULL : aligned_alloc(_Alignof(AppCache), sizeof *cache);
    if (!cache)
        return;
    memset(cache, 0, sizeof *cache);
    cache->handle = handle;
    cache->synchronized_merge = flags & VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR;
    cache->data_id = data_id;
    atomic_store(&cache->holds_unknown, from_data);
    bool changes = shared_map_change(&caches->apps);
    bool added = changes && !atomic_load(&caches->apps.lost) &&
                 number_map_put(&caches->apps.numbers, (uint64_t)handle, (uintptr_t)cache);
    if (changes)
        spread_unlock_write(&caches->apps.lock);
    if (!added)
        app_cache_free(cache);
}

void app_cache_forget(Caches *caches, AppCache *app_cache)
{
    if (!shared_map_change(&caches->apps))
        return; /* no cache is found any more */
    number_map_remove(&caches->apps.numbers, (uint64_t)app_cache->handle);
    spread_unlock_write(&caches->apps.lock);
    app_cache_free(app_cache);
}

void caches_close(Caches *caches)
{
    NumberMap *apps = &caches->apps.numbers;
    for (size_t i = 0; i < apps->capacity; i++)
        if (apps->slots[i].key)
            app_cache_free((AppCache *)(uintptr_t)apps->slots[i].value);
    number_map_free(apps);
    number_map_free(&caches->given);
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
