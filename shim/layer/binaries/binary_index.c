/*
 * binary_index.c - the binaries that a device has in memory, by pipeline key: those that policy loaded, and those of
 * pipelines that were created since.
 *
 * Entries stay in memory until the device is destroyed, even evicted ones, so a reader holds no lock while it uses an
 * entry. An entry's VkPipelineBinaryKHR objects are created at its first use, and kept: nothing in Vulkan says that
 * they may be destroyed before the pipelines created from them ('Object Lifetime' lists what may).
 */
#include <stdlib.h>
#include <string.h>

#include "binaries/binaries.h"

static BinaryEntry *entry_of(uint64_t value)
{
    return (BinaryEntry *)(uintptr_t)value;
}

void binary_index_close(Binaries *binaries)
{
    for (size_t i = 0; i < binaries->index.capacity; i++)
        for (BinaryEntry *entry = entry_of(binaries->index.slots[i].value), *older; entry; entry = older) {
            older = entry->older;
            if (entry->handles)
                binaries_destroy(binaries->driver, entry->count, entry->handles);
            pthread_mutex_destroy(&entry->mutex);
            free(entry->record);
            free(entry);
        }
    number_map_free(&binaries->index);
}

static uint64_t hash_of(const uint8_t *key, uint32_t key_size)
{
    uint64_t hash = digest64(key, key_size, 0);
    return hash ? hash : 1; /* the map has no key 0 */
}

static BinaryEntry *find_locked(const Binaries *binaries, const uint8_t *key, uint32_t key_size)
{
    BinaryEntry *entry = entry_of(number_map_find(&binaries->index, hash_of(key, key_size)));
    while (entry && (entry->evicted || entry->key_size != key_size || memcmp(entry->key, key, key_size) != 0))
        entry = entry->older;
    return entry;
}

BinaryEntry *binary_index_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    pthread_mutex_lock(&binaries->index_mutex);
    BinaryEntry *entry = find_locked(binaries, key->key, key->keySize);
    pthread_mutex_unlock(&binaries->index_mutex);
    return entry;
}

/* Returns a new entry, without handles and record; NULL if there is no room. */
static BinaryEntry *add_locked(Binaries *binaries, const uint8_t *key, uint32_t key_size, uint32_t handle_count,
                               uint64_t size)
{
    uint64_t hash = hash_of(key, key_size), bytes = sizeof(BinaryEntry) + size;
    BinaryEntry *older = entry_of(number_map_find(&binaries->index, hash));
    BinaryEntry *entry = binaries->index_bytes + bytes <= BINARIES_BYTES ? calloc(1, sizeof *entry) : NULL;
    if (!entry || !number_map_put(&binaries->index, hash, (uintptr_t)entry)) {
        free(entry);
        return NULL;
    }
    *entry = (BinaryEntry){.older = older, .key_size = key_size, .count = handle_count, .bytes = bytes};
    memcpy(entry->key, key, key_size);
    pthread_mutex_init(&entry->mutex, NULL);
    binaries->index_bytes += bytes;
    return entry;
}

bool binary_index_load(Binaries *binaries, const void *data, uint64_t size)
{
    const BinaryRecord *record = binary_record_check(data, size);
    if (!record || record->count == 0 || record->global_key != atomic_load(&binaries->global_key))
        return false;
    BinaryRecord *copy = malloc((size_t)size);
    if (!copy)
        return false;
    memcpy(copy, data, (size_t)size);
    pthread_mutex_lock(&binaries->index_mutex);
    /* A record that was evicted in an earlier run is still in the store, and so is its replacement, under the same key.
     * Both are taken; the newer one is tried first. Of equal ones one is. */
    const BinaryEntry *known = find_locked(binaries, record->key, record->key_size);
    while (known && !(known->record && known->bytes == sizeof *known + size && !memcmp(known->record, data, size)))
        known = known->older;
    BinaryEntry *entry = known ? NULL : add_locked(binaries, record->key, record->key_size, record->count, size);
    if (entry)
        entry->record = copy;
    pthread_mutex_unlock(&binaries->index_mutex);
    if (!entry)
        free(copy);
    return entry;
}

bool binary_index_add(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, uint64_t size, uint32_t handle_count,
                      VkPipelineBinaryKHR *handles)
{
    pthread_mutex_lock(&binaries->index_mutex);
    bool known = find_locked(binaries, key->key, key->keySize);
    BinaryEntry *entry = known ? NULL : add_locked(binaries, key->key, key->keySize, handle_count, size);
    if (entry)
        entry->handles = handles;
    pthread_mutex_unlock(&binaries->index_mutex);
    if (!entry)
        binaries_destroy(binaries->driver, handle_count, handles);
    return !known;
}

const VkPipelineBinaryKHR *binary_entry_handles(Binaries *binaries, BinaryEntry *entry)
{
    pthread_mutex_lock(&entry->mutex);
    if (!entry->handles && entry->record)
        entry->handles = binary_record_create(binaries->driver, entry->record);
    free(entry->record);
    entry->record = NULL;
    const VkPipelineBinaryKHR *handles = entry->handles;
    pthread_mutex_unlock(&entry->mutex);
    return handles;
}

void binary_entry_evict(Binaries *binaries, BinaryEntry *entry)
{
    pthread_mutex_lock(&binaries->index_mutex);
    bool evicted = entry->evicted;
    entry->evicted = true;
    binaries->index_bytes -= evicted ? 0 : entry->bytes;
    pthread_mutex_unlock(&binaries->index_mutex);
    count(&counters_of(binaries->run)->totals.binaries_evicted, !evicted);
}
