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

bool fingerprints_note(Device *device, uint64_t fingerprint, enum Seen what)
{
    if (!fingerprint)
        return false;
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    NumberMap *seen = &device->seen.shards[shard].fingerprints;
    pthread_mutex_lock(&device->seen.shards[shard].mutex);
    uint64_t known = number_map_find(seen, fingerprint);
    bool noted = (known & what) != 0 ||
                 ((known || seen->used < SEEN_IN_A_SHARD) && number_map_put(seen, fingerprint, known | what));
    pthread_mutex_unlock(&device->seen.shards[shard].mutex);
    return noted;
}

bool fingerprint_is(Device *device, uint64_t fingerprint, enum Seen what)
{
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    pthread_mutex_lock(&device->seen.shards[shard].mutex);
    uint64_t known = number_map_find(&device->seen.shards[shard].fingerprints, fingerprint);
    pthread_mutex_unlock(&device->seen.shards[shard].mutex);
    return (known & what) != 0;
}

void fingerprints_note_merged(Device *device, uint64_t fingerprint)
{
    if (!fingerprints_note(device, fingerprint, SEEN_MERGED))
        atomic_store(&device->seen.merged_unknown, true);
}

bool fingerprint_may_be_merged(Device *device, uint64_t fingerprint)
{
    return !fingerprint || atomic_load_explicit(&device->seen.merged_unknown, memory_order_relaxed) ||
           fingerprint_is(device, fingerprint, SEEN_MERGED);
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
