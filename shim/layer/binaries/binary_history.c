/*
 * binary_history.c - the data of VkPipelineBinaryKHR objects that the application read, in this run or in earlier ones.
 * Data that the application brings back is compared with it, because drivers execute altered binaries without reporting
 * an error (RADV took 641 of 942 and crashed in 301, measured).
 */
#include <stdlib.h>
#include <string.h>

#include "binaries/binaries.h"

#define MAX_KNOWN (1u << 20)

/* Several contents may be known under one key: RADV's keys of ray-tracing binaries collide. */
typedef struct KnownBinary {
    struct KnownBinary *next; /* same bucket */
    uint32_t key_size;
    bool stale; /* read under another identity or global key */
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    uint64_t size;
} KnownBinary;

static KnownBinary **bucket_of(BinaryHistory *history, const uint8_t *key, uint32_t key_size)
{
    return &history->buckets[digest64(key, key_size, 0) % BINARY_HISTORY_BUCKETS];
}

static bool has_key(const KnownBinary *known, const uint8_t *key, uint32_t key_size)
{
    return known->key_size == key_size && memcmp(known->key, key, key_size) == 0;
}

static KnownBinary *find_locked(BinaryHistory *history, const PylayerAttested *attested, bool stale)
{
    KnownBinary *known = *bucket_of(history, attested->key, attested->key_size);
    while (known && !(has_key(known, attested->key, attested->key_size) && known->stale == stale &&
                      memcmp(known->digest, attested->digest, PYLAYER_DIGEST_BYTES) == 0))
        known = known->next;
    return known;
}

bool binary_history_add(Binaries *binaries, const PylayerAttested *attested)
{
    BinaryHistory *history = &binaries->history;
    if (attested->key_size == 0 || attested->key_size > PYLAYER_BINARY_KEY_BYTES)
        return false;
    bool stale = attested->stale || attested->global_key != atomic_load(&binaries->global_key);
    pthread_mutex_lock(&history->mutex);
    KnownBinary *known = find_locked(history, attested, stale);
    bool is_new = !known && history->count < MAX_KNOWN && (known = calloc(1, sizeof *known));
    if (is_new) {
        known->key_size = attested->key_size;
        known->stale = stale;
        memcpy(known->key, attested->key, attested->key_size);
        memcpy(known->digest, attested->digest, PYLAYER_DIGEST_BYTES);
        known->size = attested->size;
        KnownBinary **bucket = bucket_of(history, known->key, known->key_size);
        known->next = *bucket;
        *bucket = known;
        history->count++;
    }
    pthread_mutex_unlock(&history->mutex);
    return is_new;
}

enum BinaryOutcome binary_history_judge(Binaries *binaries, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data)
{
    BinaryHistory *history = &binaries->history;
    if (key->keySize == 0 || key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return BINARY_UNKNOWN;
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    digest128(data->pData, data->dataSize, digest);
    bool stale = false, read = false, attested = false;
    pthread_mutex_lock(&history->mutex);
    for (KnownBinary *known = *bucket_of(history, key->key, key->keySize); known; known = known->next) {
        if (!has_key(known, key->key, key->keySize))
            continue;
        bool same = known->size == data->dataSize && memcmp(known->digest, digest, PYLAYER_DIGEST_BYTES) == 0;
        attested |= same && !known->stale;
        stale |= known->stale;
        read |= !known->stale;
    }
    pthread_mutex_unlock(&history->mutex);
    if (attested)
        return BINARY_ATTESTED;
    if (read)
        return BINARY_ALTERED;
    return stale ? BINARY_STALE : BINARY_UNKNOWN;
}

void binary_history_free(Binaries *binaries)
{
    for (unsigned i = 0; i < BINARY_HISTORY_BUCKETS; i++) {
        KnownBinary *known = binaries->history.buckets[i];
        while (known) {
            KnownBinary *next = known->next;
            free(known);
            known = next;
        }
    }
    pthread_mutex_destroy(&binaries->history.mutex);
    pthread_mutex_destroy(&binaries->history.asking);
}
