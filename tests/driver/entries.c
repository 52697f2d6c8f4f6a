/* Entries: what a compiled pipeline is, and the tables that find them. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static uint64_t checksum_of(const Entry *entry)
{
    Hash all = hash_start(5);
    hash_bytes(&all, entry, offsetof(Entry, checksum));
    hash_bytes(&all, entry->code, entry->size);
    return hash_compacted(&all);
}

static SharedEntry *allocate_entry(uint32_t code_size)
{
    SharedEntry *made = allocate(sizeof *made + ((code_size + 7ull) & ~7ull));
    if (made)
        atomic_store(&made->users, 1);
    return made;
}

SharedEntry *entry_make(const DeviceSettings *device, const Hash *key, bool guilty)
{
    static const char mark[] = "GUILTY";
    uint32_t size = device->payload + (uint32_t)(key->a % 97);
    SharedEntry *made = allocate_entry(size);
    if (!made)
        return NULL;
    made->entry.key = *key;
    made->entry.build = device->build;
    made->entry.abi = device->abi;
    made->entry.flags = guilty ? ENTRY_GUILTY : 0;
    made->entry.size = size;
    Hash random = *key;
    hash_number(&random, device->build << 8 | device->abi);
    for (uint32_t i = 0; i < size; i++) {
        random.b = random.b * 6364136223846793005ull + 1442695040888963407ull;
        made->entry.code[i] = (uint8_t)(random.b >> 56);
    }
    if (guilty && size >= sizeof mark)
        memcpy(made->entry.code, mark, sizeof mark);
    made->entry.checksum = checksum_of(&made->entry);
    return made;
}

void entry_leave(SharedEntry *entry)
{
    if (entry && atomic_fetch_sub(&entry->users, 1) == 1)
        free(entry);
}

size_t entry_bytes(const Entry *entry)
{
    return sizeof *entry + ((entry->size + 7ull) & ~7ull);
}

/* Like drivers that exist: lengths are looked at, contents are not. */
SharedEntry *entry_read(const uint8_t *data, size_t size, size_t *used)
{
    Entry head;
    if (size < sizeof head)
        return NULL;
    memcpy(&head, data, sizeof head);
    *used = entry_bytes(&head);
    if (*used > size)
        return NULL;
    SharedEntry *made = allocate_entry(head.size);
    if (made)
        memcpy(&made->entry, data, *used);
    return made;
}

unsigned entry_traits(const DeviceSettings *device, const Entry *entry)
{
    unsigned traits = 0;
    if (entry->build != device->build || entry->abi != device->abi)
        traits |= TRAIT_STALE;
    if (entry->flags & ENTRY_GUILTY)
        traits |= TRAIT_GUILTY;
    if (entry->checksum != checksum_of(entry))
        traits |= TRAIT_DAMAGED;
    return traits;
}

/* ---- tables ---- */

bool cache_init(Cache *cache)
{
    pthread_mutex_init(&cache->mutex, NULL);
    return true;
}

void cache_clear(Cache *cache)
{
    for (size_t i = 0; i < cache->room; i++)
        entry_leave(cache->table[i]);
    free(cache->table);
    cache->table = NULL;
    cache->room = cache->used = 0;
    pthread_mutex_destroy(&cache->mutex);
}

static size_t place_of(const Cache *cache, const Hash *key)
{
    size_t at = key->a % cache->room;
    while (cache->table[at] && memcmp(&cache->table[at]->entry.key, key, sizeof *key) != 0)
        at = (at + 1) % cache->room;
    return at;
}

static bool grow_locked(Cache *cache)
{
    SharedEntry **old = cache->table;
    size_t old_room = cache->room;
    SharedEntry **table = allocate((old_room ? old_room * 2 : 8) * sizeof *table);
    if (!table)
        return false;
    cache->table = table;
    cache->room = old_room ? old_room * 2 : 8;
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            table[place_of(cache, &old[i]->entry.key)] = old[i];
    free(old);
    return true;
}

SharedEntry *cache_find(Cache *cache, const Hash *key)
{
    pthread_mutex_lock(&cache->mutex);
    SharedEntry *found = cache->room ? cache->table[place_of(cache, key)] : NULL;
    if (found)
        atomic_fetch_add(&found->users, 1);
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

bool cache_add(Cache *cache, SharedEntry *entry)
{
    pthread_mutex_lock(&cache->mutex);
    bool fits = cache->used * 2 < cache->room || grow_locked(cache);
    SharedEntry **at = fits ? &cache->table[place_of(cache, &entry->entry.key)] : NULL;
    if (at && !*at) {
        atomic_fetch_add(&entry->users, 1);
        *at = entry;
        cache->used++;
    }
    pthread_mutex_unlock(&cache->mutex);
    return fits;
}
