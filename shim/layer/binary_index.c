/*
 * binary_index.c - the binaries that a device has in memory, by pipeline key: those that policy loaded, and those of
 * pipelines that were created since.
 *
 * Looking up takes no lock and allocates nothing. An entry, once found, stays until the device goes, also when it
 * was evicted meanwhile, so a reader need not say that it reads. Its VkPipelineBinaryKHR objects are made when it is
 * first used, and kept: nothing in Vulkan says that they may be destroyed before the pipelines made from them
 * ('Object Lifetime' lists what may).
 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

#define FIRST_SLOTS 1024u

struct BinaryEntry {
    BinaryEntry *next;  /* BinaryIndex::entries */
    BinaryEntry *older; /* of the same key: what is left when this one is evicted */
    uint64_t hash;      /* of the key */
    uint32_t key_size, count;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint64_t bytes; /* that count against the bound */
    atomic_bool evicted;
    _Atomic(VkPipelineBinaryKHR *) handles;
    BinaryRecord *record; /* entry lock; NULL where there are handles, from which it can be read again */
};

typedef struct BinaryTable {
    struct BinaryTable *retired; /* the one that this one replaced */
    size_t capacity;             /* a power of two */
    _Atomic(BinaryEntry *) slots[];
} BinaryTable;

static pthread_mutex_t *lock_of(Device *device, const BinaryEntry *entry)
{
    return &device->index.entry_locks[entry->hash % BINARY_ENTRY_LOCKS];
}

void binary_index_open(Device *device)
{
    pthread_mutex_init(&device->index.mutex, NULL);
    for (unsigned i = 0; i < BINARY_ENTRY_LOCKS; i++)
        pthread_mutex_init(&device->index.entry_locks[i], NULL);
}

void binary_index_close(Device *device)
{
    for (BinaryEntry *entry = device->index.entries; entry; entry = entry->next) {
        VkPipelineBinaryKHR *handles = atomic_exchange(&entry->handles, NULL);
        for (uint32_t i = 0; handles && i < entry->count; i++)
            device->destroy_pipeline_binary(device->handle, handles[i], NULL);
        free(handles);
    }
}

void binary_index_free(Device *device)
{
    BinaryIndex *index = &device->index;
    while (index->entries) {
        BinaryEntry *entry = index->entries;
        index->entries = entry->next;
        free(entry->record);
        free(entry);
    }
    BinaryTable *table = atomic_load(&index->table);
    while (table) {
        BinaryTable *older = table->retired;
        free(table);
        table = older;
    }
    pthread_mutex_destroy(&index->mutex);
    for (unsigned i = 0; i < BINARY_ENTRY_LOCKS; i++)
        pthread_mutex_destroy(&index->entry_locks[i]);
}

/* The slot of a key, or the empty one where it would go, and what was seen in it. A reader takes that: read again, a slot
 * that was empty may have been filled with another key's entry. */
static _Atomic(BinaryEntry *) *find_slot(BinaryTable *table, uint64_t hash, const uint8_t *key, uint32_t key_size,
                                         BinaryEntry **found)
{
    for (size_t at = hash & (table->capacity - 1);; at = (at + 1) & (table->capacity - 1)) {
        BinaryEntry *entry = atomic_load_explicit(&table->slots[at], memory_order_acquire);
        if (!entry || (entry->hash == hash && entry->key_size == key_size && memcmp(entry->key, key, key_size) == 0)) {
            *found = entry;
            return &table->slots[at];
        }
    }
}

static BinaryEntry *first_left(BinaryEntry *entry)
{
    while (entry && atomic_load_explicit(&entry->evicted, memory_order_relaxed))
        entry = entry->older;
    return entry;
}

BinaryEntry *binary_index_find(Device *device, const VkPipelineBinaryKeyKHR *key)
{
    BinaryTable *table = atomic_load_explicit(&device->index.table, memory_order_acquire);
    if (!table || key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return NULL;
    uint64_t hash = digest64(key->key, key->keySize, 0);
    BinaryEntry *entry;
    find_slot(table, hash, key->key, key->keySize, &entry);
    return first_left(entry);
}

/* ---- writing: the index's mutex is held -------------------------------------------------------- */

/* A table with room for one entry more. */
static BinaryTable *roomy_table_locked(BinaryIndex *index)
{
    BinaryTable *table = atomic_load_explicit(&index->table, memory_order_relaxed);
    size_t capacity = table ? table->capacity : 0;
    if (table && (index->used + 1) * 2 <= capacity)
        return table;
    capacity = capacity ? capacity * 2 : FIRST_SLOTS;
    BinaryTable *larger = calloc(1, sizeof *larger + capacity * sizeof larger->slots[0]);
    if (!larger)
        return NULL;
    larger->capacity = capacity;
    larger->retired = table;
    for (size_t i = 0; table && i < table->capacity; i++) {
        BinaryEntry *entry = atomic_load_explicit(&table->slots[i], memory_order_relaxed), *none;
        if (entry)
            atomic_store_explicit(find_slot(larger, entry->hash, entry->key, entry->key_size, &none), entry,
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&index->table, larger, memory_order_release);
    return larger;
}

/* An entry for a key that is not there, or was evicted, or is to be there once more; NULL: it is there (known), or there
 * is no room. */
static BinaryEntry *reserve_locked(Device *device, const uint8_t *key, uint32_t key_size, uint64_t size, bool once_more,
                                   bool *known, _Atomic(BinaryEntry *) **slot)
{
    BinaryIndex *index = &device->index;
    *known = false;
    BinaryTable *table = roomy_table_locked(index);
    if (!table)
        return NULL;
    uint64_t hash = digest64(key, key_size, 0);
    BinaryEntry *present;
    *slot = find_slot(table, hash, key, key_size, &present);
    *known = first_left(present) != NULL;
    uint64_t bytes = sizeof *present + size;
    if ((*known && !once_more) || atomic_load(&index->bytes) + bytes > device->plan.index_bytes)
        return NULL;
    BinaryEntry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->key_size = key_size;
    memcpy(entry->key, key, key_size);
    entry->bytes = bytes;
    return entry;
}

static void publish_locked(BinaryIndex *index, BinaryEntry *entry, _Atomic(BinaryEntry *) *slot)
{
    entry->older = atomic_load_explicit(slot, memory_order_relaxed);
    index->used += entry->older == NULL;
    entry->next = index->entries;
    index->entries = entry;
    atomic_fetch_add(&index->bytes, entry->bytes);
    atomic_store_explicit(slot, entry, memory_order_release);
}

bool binary_index_load(Device *device, const void *data, uint64_t size)
{
    const BinaryRecord *record = binary_record_check(data, size);
    if (!record)
        return false;
    _Atomic(BinaryEntry *) *slot;
    bool known;
    pthread_mutex_lock(&device->index.mutex);
    /* What was evicted in an earlier run is in the store still, and what was made in its place is there too, under the
     * same key: both are taken, the newer one goes first. */
    BinaryEntry *entry = reserve_locked(device, record->key, record->key_size, size, true, &known, &slot);
    if (entry) {
        entry->count = record->count;
        entry->record = malloc((size_t)size);
        if (entry->record) {
            memcpy(entry->record, data, (size_t)size);
            publish_locked(&device->index, entry, slot);
        } else {
            free(entry);
            entry = NULL;
        }
    }
    pthread_mutex_unlock(&device->index.mutex);
    if (!entry && !known)
        count(&counters_of(device)->totals.binaries_unindexed, 1);
    return entry || known;
}

BinaryEntry *binary_index_add(Device *device, const VkPipelineBinaryKeyKHR *key, uint64_t size, uint32_t handle_count,
                              VkPipelineBinaryKHR *handles, bool *known)
{
    VkPipelineBinaryKHR *kept = calloc(handle_count ? handle_count : 1, sizeof *kept);
    *known = false;
    if (!kept)
        return NULL;
    if (handle_count)
        memcpy(kept, handles, handle_count * sizeof *kept);
    _Atomic(BinaryEntry *) *slot;
    pthread_mutex_lock(&device->index.mutex);
    BinaryEntry *entry = reserve_locked(device, key->key, key->keySize, size, false, known, &slot);
    if (entry) {
        entry->count = handle_count;
        atomic_store(&entry->handles, kept);
        publish_locked(&device->index, entry, slot);
    } else {
        free(kept);
    }
    pthread_mutex_unlock(&device->index.mutex);
    if (!entry && !*known)
        count(&counters_of(device)->totals.binaries_unindexed, 1);
    return entry;
}

/* ---- entries ----------------------------------------------------------------------------------- */

uint32_t binary_entry_count(const BinaryEntry *entry)
{
    return entry->count;
}

const VkPipelineBinaryKHR *binary_entry_handles(Device *device, BinaryEntry *entry)
{
    VkPipelineBinaryKHR *handles = atomic_load_explicit(&entry->handles, memory_order_acquire);
    if (handles)
        return handles;
    pthread_mutex_lock(lock_of(device, entry));
    handles = atomic_load_explicit(&entry->handles, memory_order_relaxed);
    if (!handles && entry->record) {
        handles = malloc(entry->count * sizeof *handles);
        if (handles && binary_record_create(device, entry->record, NULL, entry->count, handles) != VK_SUCCESS) {
            free(handles);
            handles = NULL;
        }
        if (handles) {
            atomic_store_explicit(&entry->handles, handles, memory_order_release);
            free(entry->record);
            entry->record = NULL;
        }
    }
    pthread_mutex_unlock(lock_of(device, entry));
    return handles;
}

BinaryRecord *binary_entry_record(Device *device, BinaryEntry *entry)
{
    BinaryRecord *copy = NULL;
    uint64_t size = entry->bytes - sizeof *entry;
    pthread_mutex_lock(lock_of(device, entry));
    const VkPipelineBinaryKHR *handles = atomic_load_explicit(&entry->handles, memory_order_relaxed);
    if (entry->record && (copy = malloc((size_t)size))) {
        memcpy(copy, entry->record, (size_t)size);
    } else if (handles) {
        VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, .keySize = entry->key_size};
        memcpy(key.key, entry->key, entry->key_size);
        copy = binary_record_read(device, &key, entry->count, handles, &size);
    }
    pthread_mutex_unlock(lock_of(device, entry));
    return copy;
}

void binary_entry_evict(Device *device, BinaryEntry *entry)
{
    if (atomic_exchange(&entry->evicted, true))
        return;
    count(&counters_of(device)->totals.binaries_evicted, 1);
    atomic_fetch_sub(&device->index.bytes, entry->bytes);
    pthread_mutex_lock(lock_of(device, entry));
    free(entry->record);
    entry->record = NULL;
    pthread_mutex_unlock(lock_of(device, entry));
}
