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

struct BinaryEntry {
    BinaryEntry *next;  /* BinaryIndex::entries */
    BinaryEntry *older; /* of the same hash: used once this one is evicted */
    uint64_t hash;      /* of the key */
    uint32_t key_size, count;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint64_t bytes; /* these count against BINARIES_BYTES */
    atomic_bool evicted;
    _Atomic(VkPipelineBinaryKHR *) handles;
    BinaryRecord *record; /* under the entry's lock; NULL if there are handles */
};

static pthread_mutex_t *lock_of(Binaries *binaries, const BinaryEntry *entry)
{
    return &binaries->index.entry_locks[entry->hash % BINARY_ENTRY_LOCKS];
}

void binary_index_open(Binaries *binaries)
{
    spread_lock_init(&binaries->index.lock);
    for (unsigned i = 0; i < BINARY_ENTRY_LOCKS; i++)
        pthread_mutex_init(&binaries->index.entry_locks[i], NULL);
}

void binary_index_close(Binaries *binaries)
{
    for (BinaryEntry *entry = binaries->index.entries; entry; entry = entry->next) {
        VkPipelineBinaryKHR *handles = atomic_exchange(&entry->handles, NULL);
        for (uint32_t i = 0; handles && i < entry->count; i++)
            binaries->driver->destroy_pipeline_binary(binaries->driver->handle, handles[i], NULL);
        free(handles);
    }
}

void binary_index_free(Binaries *binaries)
{
    BinaryIndex *index = &binaries->index;
    while (index->entries) {
        BinaryEntry *entry = index->entries;
        index->entries = entry->next;
        free(entry->record);
        free(entry);
    }
    number_map_free(&index->newest);
    spread_lock_destroy(&index->lock);
    for (unsigned i = 0; i < BINARY_ENTRY_LOCKS; i++)
        pthread_mutex_destroy(&index->entry_locks[i]);
}

static uint64_t hash_of(const uint8_t *key, uint32_t key_size)
{
    uint64_t hash = digest64(key, key_size, 0);
    return hash ? hash : 1; /* the map has no key 0 */
}

static BinaryEntry *newest_of(const BinaryIndex *index, uint64_t hash)
{
    return (BinaryEntry *)(uintptr_t)number_map_find(&index->newest, hash);
}

/* Returns the newest entry of the key that was not evicted; NULL if there is none. */
static BinaryEntry *first_left(BinaryEntry *entry, const uint8_t *key, uint32_t key_size)
{
    while (entry && (atomic_load_explicit(&entry->evicted, memory_order_relaxed) || entry->key_size != key_size ||
                     memcmp(entry->key, key, key_size) != 0))
        entry = entry->older;
    return entry;
}

BinaryEntry *binary_index_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    BinaryIndex *index = &binaries->index;
    if (key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return NULL;
    uint64_t hash = hash_of(key->key, key->keySize);
    if (!spread_lock_read(&index->lock, false))
        return NULL;
    BinaryEntry *entry = first_left(newest_of(index, hash), key->key, key->keySize);
    spread_unlock_read(&index->lock, false);
    return entry;
}

/* Returns an entry that is not in the index yet, or NULL if there is no memory. */
static BinaryEntry *new_entry(const uint8_t *key, uint32_t key_size, uint32_t count, uint64_t size)
{
    BinaryEntry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->hash = hash_of(key, key_size);
    entry->key_size = key_size;
    memcpy(entry->key, key, key_size);
    entry->count = count;
    entry->bytes = sizeof *entry + size;
    return entry;
}

/* Returns false if there is no room, or if the key is in the index already and `once_more` does not allow another
 * entry. Sets *known if the key is in the index already. */
static bool publish(Binaries *binaries, BinaryEntry *entry, bool once_more, bool *known)
{
    BinaryIndex *index = &binaries->index;
    *known = false;
    if (!spread_try_write(&index->lock))
        return false;
    BinaryEntry *older = newest_of(index, entry->hash);
    *known = first_left(older, entry->key, entry->key_size) != NULL;
    bool fine = (!*known || once_more) && atomic_load(&index->bytes) + entry->bytes <= BINARIES_BYTES &&
                number_map_put(&index->newest, entry->hash, (uintptr_t)entry);
    if (fine) {
        entry->older = older;
        entry->next = index->entries;
        index->entries = entry;
        atomic_fetch_add(&index->bytes, entry->bytes);
    }
    spread_unlock_write(&index->lock);
    return fine;
}

bool binary_index_load(Binaries *binaries, const void *data, uint64_t size)
{
    const BinaryRecord *record = binary_record_check(data, size);
    if (!record || record->global_key != atomic_load(&binaries->global_key))
        return false;
    bool known = false;
    BinaryEntry *entry = new_entry(record->key, record->key_size, record->count, size);
    if (entry && (entry->record = malloc((size_t)size)))
        memcpy(entry->record, data, (size_t)size);
    /* A record that was evicted in an earlier run is still in the store, and so is its replacement, under the same key.
     * Both are taken; the newer one is tried first. */
    bool taken = entry && entry->record && publish(binaries, entry, true, &known);
    if (entry && !taken) {
        free(entry->record);
        free(entry);
    }
    if (!taken && !known)
        count(&counters_of(binaries->run)->totals.binaries_unindexed, 1);
    return taken || known;
}

BinaryEntry *binary_index_add(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, uint64_t size,
                              uint32_t handle_count, VkPipelineBinaryKHR *handles, bool *known)
{
    *known = false;
    BinaryEntry *entry = new_entry(key->key, key->keySize, handle_count, size);
    VkPipelineBinaryKHR *kept = calloc(handle_count ? handle_count : 1, sizeof *kept);
    if (kept && handle_count)
        memcpy(kept, handles, handle_count * sizeof *kept);
    if (entry && kept) {
        atomic_store(&entry->handles, kept);
        if (publish(binaries, entry, false, known))
            return entry;
    }
    free(kept);
    free(entry);
    if (!*known)
        count(&counters_of(binaries->run)->totals.binaries_unindexed, 1);
    return NULL;
}

/* ---- entries ----------------------------------------------------------------------------------- */

uint32_t binary_entry_count(const BinaryEntry *entry)
{
    return entry->count;
}

const VkPipelineBinaryKHR *binary_entry_handles(Binaries *binaries, BinaryEntry *entry)
{
    VkPipelineBinaryKHR *handles = atomic_load_explicit(&entry->handles, memory_order_acquire);
    if (handles)
        return handles;
    pthread_mutex_lock(lock_of(binaries, entry));
    handles = atomic_load_explicit(&entry->handles, memory_order_relaxed);
    if (!handles && entry->record) {
        handles = malloc(entry->count * sizeof *handles);
        if (handles && !binary_record_create(binaries->driver, entry->record, handles)) {
            free(handles);
            handles = NULL;
        }
        if (handles) {
            atomic_store_explicit(&entry->handles, handles, memory_order_release);
            free(entry->record);
            entry->record = NULL;
        }
    }
    pthread_mutex_unlock(lock_of(binaries, entry));
    return handles;
}

void binary_entry_evict(Binaries *binaries, BinaryEntry *entry)
{
    if (atomic_exchange(&entry->evicted, true))
        return;
    count(&counters_of(binaries->run)->totals.binaries_evicted, 1);
    atomic_fetch_sub(&binaries->index.bytes, entry->bytes);
    pthread_mutex_lock(lock_of(binaries, entry));
    free(entry->record);
    entry->record = NULL;
    pthread_mutex_unlock(lock_of(binaries, entry));
}
