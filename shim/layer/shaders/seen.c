/* seen.c - the fingerprints of the pipelines that this run created. They tell the store which of its records are in
 * use. */
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

static bool note(NumberMap *seen, uint64_t fingerprint)
{
    if (number_map_find(seen, fingerprint))
        return true;
    return seen->used < SEEN_IN_A_SHARD && number_map_put(seen, fingerprint, 1);
}

void fingerprints_note(Device *device, uint64_t fingerprint)
{
    if (!fingerprint)
        return;
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    pthread_mutex_lock(&device->seen.shards[shard].mutex);
    bool noted = note(&device->seen.shards[shard].fingerprints, fingerprint);
    pthread_mutex_unlock(&device->seen.shards[shard].mutex);
    if (!noted)
        count(&counters_of(device)->totals.fingerprints_dropped, 1);
}

uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < SEEN_SHARDS; i++) {
        pthread_mutex_lock(&device->seen.shards[i].mutex);
        const NumberMap *seen = &device->seen.shards[i].fingerprints;
        for (size_t j = 0; j < seen->capacity; j++)
            if (seen->slots[j].key && found++ < capacity)
                out[found - 1] = seen->slots[j].key;
        pthread_mutex_unlock(&device->seen.shards[i].mutex);
    }
    return found;
}
