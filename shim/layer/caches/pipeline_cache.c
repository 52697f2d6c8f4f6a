/*
 * pipeline_cache.c - the application's own VkPipelineCache objects. The application keeps the driver's handles. For
 * each, the layer keeps an AppCache with what merging into the cache needs.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "caches/cells.h"
#include "loader/dispatch.h"
#include "policy/mailbox.h"
#include "process/process.h"
#include "crash/sentinel.h"
#include "caches/sketch.h"

static atomic_ullong next_cache_serial = 1;

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

/* Number of a vkCreatePipelineCache call: `serial` in the process, `slot` in the device. */
typedef struct CacheNumber {
    uint64_t serial;
    uint32_t slot;
} CacheNumber;

static void describe_app_cache(AppCache *cache, CacheNumber number, VkPipelineCacheCreateFlags flags, bool from_data,
                               uint64_t data_id)
{
    cache->serial = number.serial;
    cache->slot = number.slot;
    cache->from_data = from_data;
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
    return cache;
}

/* Returns NULL if there is no memory. The cache is then used as it is, and never seeded or merged into. */
static AppCache *app_cache_add(Device *device, VkPipelineCache handle, CacheNumber number,
                               VkPipelineCacheCreateFlags flags, bool from_data, uint64_t data_id)
{
    unsigned bucket = bucket_of(handle);
    pthread_mutex_lock(&device->app_caches_mutex);
    AppCache *cache = atomic_load_explicit(&device->app_caches[bucket], memory_order_relaxed);
    /* Acquire: the thread that destroyed the entry's cache read the entry for the last time before this. */
    while (cache && atomic_load_explicit(&cache->handle, memory_order_acquire) != VK_NULL_HANDLE)
        cache = cache->next;
    if (cache) {
        describe_app_cache(cache, number, flags, from_data, data_id);
        atomic_store(&cache->seeded, 0);
        atomic_store(&cache->holds_plain, false);
        atomic_store_explicit(&cache->handle, handle, memory_order_release);
    } else if ((cache = new_app_cache())) {
        describe_app_cache(cache, number, flags, from_data, data_id);
        atomic_store(&cache->handle, handle);
        cache->next = atomic_load_explicit(&device->app_caches[bucket], memory_order_relaxed);
        atomic_store_explicit(&device->app_caches[bucket], cache, memory_order_release);
    }
    pthread_mutex_unlock(&device->app_caches_mutex);
    return cache;
}

/* Returns true if the layer has to keep the whole cache. Under the cells carrier, cells hold nearly everything that an
 * application's cache holds. */
static bool is_kept_whole(Device *device, AppCache *cache)
{
    if (device->merged == VK_NULL_HANDLE) /* the observe carrier keeps nothing */
        return false;
    return atomic_load(&device->carrier) == PYLAYER_CARRIER_SNAPSHOT || atomic_load(&cache->holds_plain);
}

void app_caches_absorb(Device *device)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++)
        for (AppCache *cache = atomic_load(&device->app_caches[i]); cache; cache = cache->next)
            if (is_kept_whole(device, cache))
                cells_absorb(device, cache, false);
}

void app_caches_free(Device *device)
{
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++) {
        AppCache *cache = atomic_load(&device->app_caches[i]);
        while (cache) {
            AppCache *next = cache->next;
            cache_drop_annex(device, &cache->use);
            cache_use_destroy(&cache->use);
            free(cache);
            cache = next;
        }
    }
}

/* ---- data of which policy has a copy ---------------------------------------------------------- */

static bool is_kept(Device *device, const uint8_t *digest)
{
    KeptDigests *kept = &device->kept_digests;
    bool found = false;
    pthread_mutex_lock(&kept->mutex);
    for (unsigned i = 0; i < kept->count && !found; i++)
        found = memcmp(kept->digests[i], digest, PYLAYER_DIGEST_BYTES) == 0;
    pthread_mutex_unlock(&kept->mutex);
    return found;
}

static void remember_kept(Device *device, const uint8_t *digest)
{
    KeptDigests *kept = &device->kept_digests;
    pthread_mutex_lock(&kept->mutex);
    memcpy(kept->digests[kept->next], digest, PYLAYER_DIGEST_BYTES);
    kept->next = (kept->next + 1) % KEPT_DIGESTS;
    if (kept->count < KEPT_DIGESTS)
        kept->count++;
    pthread_mutex_unlock(&kept->mutex);
}

static bool post_read(const Device *device, const PylayerCacheRead *read, const void *copied, const void *sketched)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CACHE_READ, device->serial);
    uint8_t *copy = message && copied ? malloc(read->size) : NULL;
    if (!message || (copied && !copy)) {
        message_done(message);
        return false;
    }
    if (copy)
        memcpy(copy, copied, read->size);
    message->read = *read;
    message->read.data = copy;
    if (sketched)
        message->read.sketch = sketch_of(sketched, read->size, &message->read.sketch_size);
    return mailbox_post(message, device->plan.queue_bytes);
}

/* Tells policy what the application has read, with the data if policy lacks it. */
static void tell_read(Device *device, PylayerCacheRead read, const void *data)
{
    const PylayerPlan *plan = &device->plan;
    digest128(data, read.size, read.digest);
    bool is_new = !read.incomplete && !is_kept(device, read.digest);
    bool wanted = is_new && read.size <= plan->keep_cache_bytes && read.size <= plan->queue_bytes;
    const void *sketched = is_new && !plan->strict_caches ? data : NULL;
    if (wanted && post_read(device, &read, data, sketched))
        remember_kept(device, read.digest);
    else
        post_read(device, &read, NULL, sketched);
}

/* ---- hooks ------------------------------------------------------------------------------------ */

static PylayerMessage *describe_data(const Device *device, enum PylayerMessageType type, CacheNumber number,
                                     const VkPipelineCacheCreateInfo *info)
{
    PylayerMessage *message = message_new(type, device->serial);
    if (!message)
        return NULL;
    PylayerCacheInfo *cache = &message->cache;
    cache->cache = number.serial;
    cache->slot = number.slot;
    cache->data_size = info->initialDataSize;
    cache->data_is_null = info->pInitialData == NULL;
    if (info->pInitialData) {
        cache->header_size = info->initialDataSize < PYLAYER_CACHE_HEADER_BYTES ? (uint32_t)info->initialDataSize
                                                                                : PYLAYER_CACHE_HEADER_BYTES;
        memcpy(cache->header, info->pInitialData, cache->header_size);
        if (info->initialDataSize > 0)
            digest128(info->pInitialData, info->initialDataSize, cache->digest);
    }
    return message;
}

static bool without_data(const VkPipelineCacheCreateInfo *info)
{
    return info->initialDataSize == 0 && !info->pInitialData;
}

/* The application's cache begins empty: the application gave no data, or the driver failed on it. If policy has data
 * for the cache, its load begins here, before the first pipeline that misses can be compiled. */
static void tell_policy_of_empty(Device *device, enum PylayerMessageType type, CacheNumber number,
                                 const VkPipelineCacheCreateInfo *info, VkResult result)
{
    unsigned long long slots = atomic_load_explicit(&device->restorable_slots, memory_order_relaxed);
    bool restores = type == PYLAYER_MSG_CACHE_REFUSED ? slots != 0 : number.slot < 64 && slots >> number.slot & 1;
    PylayerMessage *message = describe_data(device, type, number, info);
    if (message) {
        message->cache.result = result;
        message->cache.load_expected = restores;
    }
    if (restores)
        loading_begin(device);
    if (!mailbox_post(message, device->plan.queue_bytes) && restores)
        loading_cancel(device);
}

/* Without memory there is no sketch, and policy decides without one. */
static void add_sketch(PylayerMessage *message, const VkPipelineCacheCreateInfo *info)
{
    if (message && info->pInitialData)
        message->cache.sketch = sketch_of(info->pInitialData, info->initialDataSize, &message->cache.sketch_size);
}

/* Without an answer nothing is known of the data, and it passes unchanged. A strict policy lets only data pass that was
 * read or judged in this run. */
static int32_t late_verdict(Device *device, const PylayerMessage *message)
{
    bool is_known = message && is_kept(device, message->cache.digest);
    return device->plan.strict_caches && !is_known ? PYLAYER_VERDICT_EMPTY : PYLAYER_VERDICT_NONE;
}

/* Sets *data_id, unless policy refuses the data. */
static int32_t ask_for_verdict(Device *device, CacheNumber number, const VkPipelineCacheCreateInfo *info, bool sketched,
                               uint64_t *data_id)
{
    PylayerMessage *message = describe_data(device, PYLAYER_MSG_ADMIT_CACHE, number, info);
    if (sketched)
        add_sketch(message, info);
    int32_t verdict = PYLAYER_VERDICT_NONE;
    if (mailbox_request(message, device->plan.answer_wait_ns)) {
        verdict = message->verdict;
    } else {
        count(&counters_of(device)->totals.answers_late, 1);
        verdict = late_verdict(device, message);
    }
    if (verdict == PYLAYER_VERDICT_PASS_KEPT)
        remember_kept(device, message->cache.digest);
    if (message && verdict != PYLAYER_VERDICT_EMPTY)
        *data_id = digest_id(message->cache.digest);
    message_done(message);
    return verdict;
}

static bool policy_refuses(Device *device, CacheNumber number, const VkPipelineCacheCreateInfo *info, uint64_t *data_id)
{
    *data_id = 0;
    if (!device->plan.check_caches || without_data(info))
        return false;
    if (device->plan.report_caches) {
        PylayerMessage *message = describe_data(device, PYLAYER_MSG_ADMIT_CACHE, number, info);
        add_sketch(message, info);
        mailbox_post(message, device->plan.queue_bytes);
        return false;
    }
    int32_t verdict = ask_for_verdict(device, number, info, false, data_id);
    if (verdict == PYLAYER_VERDICT_SKETCH)
        verdict = ask_for_verdict(device, number, info, true, data_id);
    return verdict == PYLAYER_VERDICT_EMPTY;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineCache(VkDevice handle, const VkPipelineCacheCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->create_pipeline_cache(handle, info, allocator, cache);
    CacheNumber number = {atomic_fetch_add_explicit(&next_cache_serial, 1, memory_order_relaxed),
                          atomic_fetch_add_explicit(&device->next_cache_slot, 1, memory_order_relaxed)};
    VkPipelineCacheCreateInfo empty = *info;
    empty.initialDataSize = 0;
    empty.pInitialData = NULL;
    uint64_t data_id;
    bool refused = policy_refuses(device, number, info, &data_id);
    bool mends = device->plan.check_caches && !device->plan.report_caches;
    Mark mark = mark_application_data(device, data_id);
    VkResult result = device->create_pipeline_cache(handle, refused ? &empty : info, allocator, cache);
    mark_end(mark);
    if (result != VK_SUCCESS && !refused && info->initialDataSize > 0 && mends) {
        tell_policy_of_empty(device, PYLAYER_MSG_CACHE_REFUSED, number, info, result);
        result = device->create_pipeline_cache(handle, &empty, allocator, cache);
        refused = true;
        data_id = 0;
    }
    if (refused)
        count(&counters_of(device)->totals.caches_emptied, 1);
    if (result != VK_SUCCESS)
        return result;
    if (mends && without_data(info))
        tell_policy_of_empty(device, PYLAYER_MSG_CACHE_EMPTY, number, info, VK_SUCCESS);
    AppCache *app_cache =
        app_cache_add(device, *cache, number, info->flags, info->initialDataSize > 0 && !refused, data_id);
    /* Without a probe a miss cannot be detected, so the snapshot carrier seeds beforehand. */
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
        if (is_kept_whole(device, app_cache))
            cells_absorb(device, app_cache, true);
        /* A snapshot that is being taken may be merging this cache: wait for its end. */
        if (!patient_lock(&device->merge_mutex))
            return; /* a merge hangs, perhaps with this cache: the cache and its entry stay */
        cache_drop_annex(device, &app_cache->use);
        atomic_store_explicit(&app_cache->handle, VK_NULL_HANDLE, memory_order_release);
        patient_unlock(&device->merge_mutex);
    }
    device->destroy_pipeline_cache(handle, cache, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineCacheData(VkDevice handle, VkPipelineCache cache, size_t *size,
                                                          void *data)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    AppCache *app_cache = process_is_forked_child() ? NULL : app_cache_find(device, cache);
    if (app_cache && !cache_use_begin(&app_cache->use, true))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult result = device->get_pipeline_cache_data(handle, cache, size, data);
    PylayerCacheRead read = {0};
    if (app_cache) {
        read = (PylayerCacheRead){.cache = app_cache->serial, .slot = app_cache->slot};
        cache_use_end(device, &app_cache->use, cache, true);
    }
    if (app_cache && device->plan.check_caches && data && *size > 0 &&
        (result == VK_SUCCESS || result == VK_INCOMPLETE)) {
        read.size = *size;
        read.incomplete = result == VK_INCOMPLETE;
        tell_read(device, read, data);
    }
    return result;
}

/* The source's annex has pipelines that the source lacks because another thread still compiles with the source. */
static void merge_annex_of(Device *device, VkPipelineCache destination, VkPipelineCache source)
{
    AppCache *from = app_cache_find(device, source);
    if (!from || from->use.annex == VK_NULL_HANDLE || call_is_off(&device->added_calls, PYLAYER_MARK_COPY, 0))
        return;
    Mark mark = mark_added(device, PYLAYER_MARK_COPY, 0, 0);
    device->merge_pipeline_caches(device->handle, destination, 1, &from->use.annex);
    mark_end(mark);
}

static Mark mark_merged_data(Device *device, VkPipelineCache destination, uint32_t source_count,
                             const VkPipelineCache *sources)
{
    uint64_t data_ids[PYLAYER_MARK_IDS];
    unsigned found = 0;
    for (uint32_t i = 0; i <= source_count && found < PYLAYER_MARK_IDS; i++) {
        const AppCache *cache = app_cache_find(device, i < source_count ? sources[i] : destination);
        if (cache && cache->data_id)
            data_ids[found++] = cache->data_id;
    }
    return mark_merge(device, data_ids, found);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_MergePipelineCaches(VkDevice handle, VkPipelineCache destination,
                                                         uint32_t source_count, const VkPipelineCache *sources)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (process_is_forked_child())
        return device->merge_pipeline_caches(handle, destination, source_count, sources);
    /* The application keeps its own threads out of the destination, or asked the driver to. Threads of
     * the layer's use it only while they hold this mutex. */
    if (!patient_lock(&device->merge_mutex))
        return device->merge_pipeline_caches(handle, destination, source_count, sources);
    Mark mark = mark_merged_data(device, destination, source_count, sources);
    VkResult result = device->merge_pipeline_caches(handle, destination, source_count, sources);
    mark_end(mark);
    for (uint32_t i = 0; i < source_count; i++)
        merge_annex_of(device, destination, sources[i]);
    patient_unlock(&device->merge_mutex);
    return result;
}
