/* seen.c - the fingerprints of the pipelines that this run created, which tell the store which of its records are in
 * use, and of those that the layer's cache holds. */
#include "shaders/seen.h"

#include "device/device.h"

void fingerprints_open(Device *device)
{
    for (unsigned i = 0; i < SEEN_SHARDS; i++)
        pthread_mutex_init(&device->seen.shards[i].mutex, NULL);
}

void fingerprints_close(Device *device)
{
    for (unsigned i = 0; i < SEEN_SHARDS; i++) {
        number_map_free(&device->seen.shards[i].fingerprints);
        pthread_mutex_destroy(&device->seen.shards[i].mutex);
    }
}

unsigned fingerprints_note(Device *device, uint64_t fingerprint, unsigned what)
{
    if (!fingerprint)
        return 0;
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    NumberMap *seen = &device->seen.shards[shard].fingerprints;
    pthread_mutex_lock(&device->seen.shards[shard].mutex);
    bool has_room = seen->used < SEEN_IN_A_SHARD || number_map_find(seen, fingerprint);
    uint64_t *known = has_room ? number_map_at(seen, fingerprint) : NULL;
    unsigned all = known ? (unsigned)(*known |= what) : 0;
    pthread_mutex_unlock(&device->seen.shards[shard].mutex);
    return all;
}

unsigned fingerprint_known(Device *device, uint64_t fingerprint)
{
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    pthread_mutex_lock(&device->seen.shards[shard].mutex);
    uint64_t known = number_map_find(&device->seen.shards[shard].fingerprints, fingerprint);
    pthread_mutex_unlock(&device->seen.shards[shard].mutex);
    return (unsigned)known;
}

bool fingerprint_may_be_merged(Device *device, uint64_t fingerprint, unsigned known)
{
    return !fingerprint || known & SEEN_MERGED ||
           atomic_load_explicit(&device->seen.merged_unknown, memory_order_relaxed);
}

void fingerprints_note_merged(Device *device, uint64_t fingerprint, unsigned more)
{
    if (!fingerprints_note(device, fingerprint, SEEN_MERGED | more))
        atomic_store(&device->seen.merged_unknown, true);
}

bool fingerprints_meet_stages(Device *device, uint64_t stages)
{
    return fingerprint_known(device, stages) & SEEN_STAGES || !fingerprints_note(device, stages, SEEN_STAGES);
}

uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < SEEN_SHARDS; i++) {
        pthread_mutex_lock(&device->seen.shards[i].mutex);
        const NumberMap *seen = &device->seen.shards[i].fingerprints;
        for (size_t j = 0; j < seen->capacity; j++)
            if ((seen->slots[j].value & (SEEN_CREATED | SEEN_TOLD)) == SEEN_CREATED && found++ < capacity)
                out[found - 1] = seen->slots[j].key;
        pthread_mutex_unlock(&device->seen.shards[i].mutex);
    }
    return found;
}
