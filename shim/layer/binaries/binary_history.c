/*
 * binary_history.c - the data of VkPipelineBinaryKHR objects that the application read, in this run or in earlier ones.
 * Data that the application brings back is compared with it, because drivers execute altered binaries without reporting
 * an error (RADV took 641 of 942 and crashed in 301, measured).
 *
 * Known is the digest of each key with its data, and of each key with the driver's global key, as the data of the
 * application's caches is (cache_history.c). Several contents may be known under one key: RADV's keys of ray-tracing
 * binaries collide.
 */
#include <string.h>

#include "binaries/binaries.h"

typedef struct Digests {
    uint8_t content[PYLAYER_DIGEST_BYTES]; /* of the key and the data */
    uint8_t name[PYLAYER_DIGEST_BYTES];    /* of the key and the global key */
} Digests;

/* Returns false if the key is not valid. */
static bool describe(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, const void *data, size_t size, Digests *out)
{
    struct {
        uint8_t key[PYLAYER_BINARY_KEY_BYTES], data[PYLAYER_DIGEST_BYTES];
        uint64_t key_size, global_key;
    } facts = {.key_size = key->keySize, .global_key = binaries_global_key(binaries)};
    if (key->keySize == 0 || key->keySize > sizeof facts.key)
        return false;
    memcpy(facts.key, key->key, key->keySize);
    digest128(&facts, sizeof facts, out->name);
    facts.global_key = 0;
    digest128(data, size, facts.data);
    digest128(&facts, sizeof facts, out->content);
    return true;
}

void binary_history_note(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key, const void *data,
                         size_t size)
{
    Digests digests;
    if (!describe(binaries, key, data, size, &digests))
        return;
    own_data_note(caches, digests.content, size, NULL);
    own_data_note(caches, digests.name, size, NULL);
}

bool binary_history_admits(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key,
                           const VkPipelineBinaryDataKHR *data)
{
    PylayerCounters *totals = &counters_of(binaries->run)->totals;
    Digests digests;
    bool valid = describe(binaries, key, data->pData, data->dataSize, &digests);
    bool has_name = valid && cache_history_has(caches, digests.name, false);
    bool has_content = valid && cache_history_has(caches, digests.content, false);
    bool stale = has_content
                     ? !has_name
                     : valid && !has_name && own_data_is_of_another_driver(caches, digests.content, data->dataSize);
    count(&totals->application_binaries, 1);
    count(&totals->binaries_attested, has_content && has_name);
    count(&totals->binaries_stale, stale);
    count(&totals->binaries_altered, has_name && !has_content);
    /* No driver gives empty data, and RADV crashes on it (measured). */
    return !stale && (has_content || (!has_name && data->dataSize > 0 && data->pData));
}
