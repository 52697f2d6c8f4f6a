/*
 * shards.c - copies of the layer's cache, each for one thread at a time (policy 'sharding').
 *
 * A lookup modifies the cache it is done in, so a driver locks a cache that is not flagged EXTERNALLY_SYNCHRONIZED for
 * each. A shard is flagged; a thread takes one that nobody has, and when all are taken goes to the cache that is
 * shared. It is a full copy: it costs the memory of the store, and the first thread to take it the time of a merge.
 *
 * What was merged into the layer's cache since is not in the shard, and is found in the layer's cache after it. When
 * that has happened often the shard is filled again, by who has it, and the next time twice as often has to be: a
 * program that compiles new pipelines all the time must not copy everything each time.
 */
#include <stdlib.h>
#include <string.h>

#include "driver_cache.h"
#include "layer.h"

#define FIRST_LATE_HITS 16

struct Shard {
    _Alignas(CACHE_LINE_BYTES) atomic_bool taken;
    VkPipelineCache cache; /* the rest belongs to who has it */
    unsigned generation;   /* Device::cells_generation when last filled */
    atomic_uint late_hits; /* pipelines that it lacked and the layer's cache had */
    unsigned allowed_late_hits;
};

bool shards_open(Device *device)
{
    uint32_t wanted = device->plan.shards;
    /* VUID-VkPipelineCacheCreateInfo-pipelineCreationCacheControl-02892: the flag needs the feature. */
    if (wanted == 0 || !device->cache_control)
        return false;
    size_t bytes = wanted * sizeof *device->shards;
    Shard *shards = aligned_alloc(_Alignof(Shard), bytes);
    if (!shards)
        return false;
    memset(shards, 0, bytes);
    device->shard_count = wanted;
    device->shards = shards;
    return true;
}

void shards_close(Device *device)
{
    for (uint32_t i = 0; i < device->shard_count; i++)
        if (device->shards[i].cache != VK_NULL_HANDLE)
            device->destroy_pipeline_cache(device->handle, device->shards[i].cache, NULL);
    free(device->shards);
    device->shards = NULL;
    device->shard_count = 0;
}

static void fill(Device *device, Shard *shard)
{
    if (patient_lock(&device->merge_mutex)) {
        shard->generation = atomic_load(&device->cells_generation);
        cells_copy_merged_locked(device, shard->cache);
        patient_unlock(&device->merge_mutex);
    }
    atomic_store_explicit(&shard->late_hits, 0, memory_order_relaxed);
    shard->allowed_late_hits = shard->allowed_late_hits ? 2 * shard->allowed_late_hits : FIRST_LATE_HITS;
}

/* The shard is this thread's. False: it has no cache and gets none. */
static bool make_ready(Device *device, Shard *shard)
{
    if (shard->cache == VK_NULL_HANDLE) {
        shard->cache = driver_cache_create(device, true);
        if (shard->cache == VK_NULL_HANDLE)
            return false;
        fill(device, shard);
    } else if (atomic_load_explicit(&shard->late_hits, memory_order_relaxed) > shard->allowed_late_hits) {
        fill(device, shard);
    }
    return true;
}

Shard *shard_take(Device *device)
{
    /* Not before the store is there: what is filled now would have to be filled again. */
    if (device->shard_count == 0 || loading_is_under_way(device))
        return NULL;
    unsigned first = thread_number();
    for (uint32_t i = 0; i < device->shard_count; i++) {
        Shard *shard = &device->shards[(first + i) % device->shard_count];
        if (atomic_load_explicit(&shard->taken, memory_order_relaxed) || atomic_exchange(&shard->taken, true))
            continue;
        if (make_ready(device, shard))
            return shard;
        shard_give_back(shard);
        return NULL;
    }
    return NULL;
}

void shard_give_back(Shard *shard)
{
    atomic_store_explicit(&shard->taken, false, memory_order_release);
}

VkPipelineCache shard_cache(const Shard *shard)
{
    return shard->cache;
}

bool shard_is_late(const Device *device, const Shard *shard)
{
    return shard->generation != atomic_load_explicit(&device->cells_generation, memory_order_relaxed);
}

void shard_note_late_hit(Shard *shard)
{
    atomic_fetch_add_explicit(&shard->late_hits, 1, memory_order_relaxed);
}
