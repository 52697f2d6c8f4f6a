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
    uint8_t *data; /* NULL: only the digest is known */
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

/* Keeps the data if altered copies of it are to be restored and there is room. */
static void keep_data_locked(Binaries *binaries, KnownBinary *known, const PylayerAttested *attested)
{
    BinaryHistory *history = &binaries->history;
    if (known->data || !attested->data || !binaries->run->plan.restore_binaries || attested->size == 0 ||
        history->bytes + attested->size > BINARIES_BYTES)
        return;
    known->data = malloc((size_t)attested->size);
    if (!known->data)
        return;
    memcpy(known->data, attested->data, (size_t)attested->size);
    history->bytes += attested->size;
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
    if (known)
        keep_data_locked(binaries, known, attested);
    pthread_mutex_unlock(&history->mutex);
    return is_new;
}

enum BinaryOutcome binary_history_judge(Binaries *binaries, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data, VkPipelineBinaryDataKHR *restored)
{
    BinaryHistory *history = &binaries->history;
    *restored = (VkPipelineBinaryDataKHR){0};
    if (key->keySize == 0 || key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return BINARY_UNKNOWN;
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    digest128(data->pData, data->dataSize, digest);
    unsigned contents = 0;
    bool stale = false, attested = false;
    const KnownBinary *only = NULL;
    pthread_mutex_lock(&history->mutex);
    for (KnownBinary *known = *bucket_of(history, key->key, key->keySize); known; known = known->next) {
        if (!has_key(known, key->key, key->keySize))
            continue;
        bool same = known->size == data->dataSize && memcmp(known->digest, digest, PYLAYER_DIGEST_BYTES) == 0;
        attested |= same && !known->stale;
        stale |= known->stale;
        if (!known->stale) {
            contents++;
            only = known;
        }
    }
    if (contents == 1 && only->data)
        *restored = (VkPipelineBinaryDataKHR){(size_t)only->size, only->data};
    pthread_mutex_unlock(&history->mutex);
    if (attested)
        return BINARY_ATTESTED;
    if (contents)
        return BINARY_ALTERED;
    return stale ? BINARY_STALE : BINARY_UNKNOWN;
}

void binary_history_free(Binaries *binaries)
{
    for (unsigned i = 0; i < BINARY_HISTORY_BUCKETS; i++) {
        KnownBinary *known = binaries->history.buckets[i];
        while (known) {
            KnownBinary *next = known->next;
            free(known->data);
            free(known);
            known = next;
        }
    }
    pthread_mutex_destroy(&binaries->history.mutex);
    pthread_mutex_destroy(&binaries->history.asking);
}
