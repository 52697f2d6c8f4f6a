/*
 * binary_history.c - the data of VkPipelineBinaryKHR objects that the application read, in this run or in earlier ones.
 * Data that the application brings back is compared with it, because drivers execute altered binaries without reporting
 * an error (RADV took 641 of 942 and crashed in 301, measured).
 *
 * The history is a set of hashes: of each key that was read, and of each key with the data's digest. Several contents may be
 * known under one key: RADV's keys of ray-tracing binaries collide.
 */
#include "binaries/binaries.h"

#define MAX_KNOWN (2u << 20)

/* digest: NULL for the key alone. stale: it was read under another identity or global key. */
static uint64_t number_of(const uint8_t *key, uint32_t key_size, bool stale, const uint8_t *digest)
{
    uint64_t number = digest64(key, key_size, stale);
    if (digest)
        number = digest64(digest, PYLAYER_DIGEST_BYTES, number);
    return number ? number : 1; /* the map has no key 0 */
}

bool binary_history_add(Binaries *binaries, const PylayerAttested *attested)
{
    if (attested->key_size == 0 || attested->key_size > PYLAYER_BINARY_KEY_BYTES)
        return false;
    bool stale = attested->stale || attested->global_key != atomic_load(&binaries->global_key);
    uint64_t whole = number_of(attested->key, attested->key_size, stale, attested->digest);
    if (shared_map_find(&binaries->history, whole))
        return false;
    shared_map_put(&binaries->history, whole, 1, MAX_KNOWN);
    shared_map_put(&binaries->history, number_of(attested->key, attested->key_size, stale, NULL), 1, MAX_KNOWN);
    return true;
}

enum BinaryOutcome binary_history_judge(Binaries *binaries, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (key->keySize == 0 || key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return BINARY_UNKNOWN;
    digest128(data->pData, data->dataSize, digest);
    if (shared_map_find(&binaries->history, number_of(key->key, key->keySize, false, digest)))
        return BINARY_ATTESTED;
    if (shared_map_find(&binaries->history, number_of(key->key, key->keySize, false, NULL)))
        return BINARY_ALTERED;
    bool stale = shared_map_find(&binaries->history, number_of(key->key, key->keySize, true, NULL));
    return stale ? BINARY_STALE : BINARY_UNKNOWN;
}
