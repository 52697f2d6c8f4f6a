/* binaries.c - see binaries.h */
#include "binaries/binaries.h"

#include <string.h>

#include "crash/crash.h"

uint64_t binaries_global_key(Binaries *binaries)
{
    uint64_t known = atomic_load(&binaries->global_key);
    if (known || !binaries->enabled || call_is_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, 0))
        return known;
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    Mark mark = mark_added(binaries->crash, PYLAYER_MARK_KEY, 0, 0);
    VkResult result = binaries->driver->get_pipeline_key(binaries->driver->handle, NULL, &key);
    mark_end(mark);
    if (result == VK_SUCCESS && key.keySize > 0 && key.keySize <= sizeof key.key)
        known = digest64(key.key, key.keySize, 0);
    atomic_store(&binaries->global_key, known);
    return known;
}

static BinaryEntry *entry_of(uint64_t value)
{
    return (BinaryEntry *)(uintptr_t)value;
}

void binaries_destroy(Binaries *binaries)
{
    for (size_t i = 0; i < binaries->index.capacity; i++)
        for (BinaryEntry *entry = entry_of(binaries->index.slots[i].value), *older; entry; entry = older) {
            older = entry->older;
            binary_entry_free(binaries->driver, entry);
        }
    number_map_free(&binaries->index);
}

/* The map has no key 0. */
static uint64_t hash_of(const VkPipelineBinaryKeyKHR *key)
{
    return digest64(key->key, key->keySize, 0) | 1;
}

static BinaryEntry *find_locked(const Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    BinaryEntry *entry = entry_of(number_map_find(&binaries->index, hash_of(key)));
    while (entry && (atomic_load(&entry->evicted) || entry->key.keySize != key->keySize ||
                     memcmp(entry->key.key, key->key, key->keySize) != 0))
        entry = entry->older;
    return entry;
}

BinaryEntry *binaries_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    pthread_mutex_lock(&binaries->mutex);
    BinaryEntry *found = find_locked(binaries, key);
    pthread_mutex_unlock(&binaries->mutex);
    return found;
}

bool binaries_add(Binaries *binaries, BinaryEntry *entry, uint64_t size)
{
    pthread_mutex_lock(&binaries->mutex);
    bool known = find_locked(binaries, &entry->key);
    uint64_t *newest = number_map_at(&binaries->index, hash_of(&entry->key));
    if (newest) {
        entry->older = entry_of(*newest);
        *newest = (uintptr_t)entry;
    }
    pthread_mutex_unlock(&binaries->mutex);
    if (newest)
        atomic_fetch_add(&binaries->held_bytes, size);
    else /* memory is short */
        binary_entry_free(binaries->driver, entry);
    return !known;
}
