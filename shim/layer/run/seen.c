/* seen.c - the fingerprints of the pipelines that this run created, which tell the store which of its records are in
 * use, and of those that the layer's cache holds. */
#include "run/run.h"

void fingerprints_close(SeenFingerprints *seen)
{
    for (unsigned i = 0; i < SEEN_SHARDS; i++)
        number_map_free(&seen->shards[i].fingerprints);
}

unsigned fingerprints_note(SeenFingerprints *seen, uint64_t fingerprint, unsigned what)
{
    if (!fingerprint)
        return 0;
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    NumberMap *numbers = &seen->shards[shard].fingerprints;
    pthread_mutex_lock(&seen->shards[shard].mutex);
    bool has_room = numbers->used < SEEN_IN_A_SHARD || number_map_find(numbers, fingerprint);
    uint64_t *known = has_room ? number_map_at(numbers, fingerprint) : NULL;
    unsigned all = known ? (unsigned)(*known |= what) : 0;
    pthread_mutex_unlock(&seen->shards[shard].mutex);
    return all;
}

unsigned fingerprint_known(SeenFingerprints *seen, uint64_t fingerprint)
{
    unsigned shard = (unsigned)fingerprint % SEEN_SHARDS;
    pthread_mutex_lock(&seen->shards[shard].mutex);
    uint64_t known = number_map_find(&seen->shards[shard].fingerprints, fingerprint);
    pthread_mutex_unlock(&seen->shards[shard].mutex);
    return (unsigned)known;
}

void fingerprints_note_merged(SeenFingerprints *seen, uint64_t fingerprint, unsigned more)
{
    if (!fingerprints_note(seen, fingerprint, SEEN_MERGED | more))
        atomic_store(&seen->merged_unknown, true);
}

uint64_t fingerprints_read(SeenFingerprints *seen, uint64_t *out, uint64_t capacity)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < SEEN_SHARDS; i++) {
        pthread_mutex_lock(&seen->shards[i].mutex);
        const NumberMap *numbers = &seen->shards[i].fingerprints;
        for (size_t j = 0; j < numbers->capacity; j++)
            if ((numbers->slots[j].value & (SEEN_CREATED | SEEN_TOLD)) == SEEN_CREATED && found++ < capacity)
                out[found - 1] = numbers->slots[j].key;
        pthread_mutex_unlock(&seen->shards[i].mutex);
    }
    return found;
}
