/* Hashes of bytes, entries (what a compiled pipeline is), and the tables that find them. Entries stay for as long as the
 * process runs. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

Hash hash_start(uint32_t of)
{
    return (Hash){0xcbf29ce484222325ull + of, 0x9e3779b97f4a7c15ull ^ of};
}

void hash_bytes(Hash *to, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        to->a = (to->a ^ bytes[i]) * 0x100000001b3ull;
        to->b = (to->b + bytes[i] + 1) * 0xff51afd7ed558ccdull;
        to->b ^= to->b >> 33;
    }
}

void hash_number(Hash *to, uint64_t number)
{
    hash_bytes(to, &number, sizeof number);
}

void hash_text(Hash *to, const char *text)
{
    hash_bytes(to, text, strlen(text) + 1);
}

uint64_t hash_compacted(const Hash *of)
{
    return of->a ^ (of->b << 17 | of->b >> 47);
}

/* ---- entries ---- */

static uint64_t checksum_of(const Entry *entry)
{
    Hash all = hash_start(5);
    hash_bytes(&all, entry, offsetof(Entry, checksum));
    hash_bytes(&all, entry->code, entry->size);
    return hash_compacted(&all);
}

static Entry *allocate_entry(uint32_t code_size)
{
    typedef struct Kept {
        struct Kept *before;
        Entry entry;
    } Kept;
    static _Atomic(Kept *) last; /* leads to all of them: nothing is lost */
    Kept *made = allocate(sizeof *made + ((code_size + 7ull) & ~7ull));
    if (!made)
        return NULL;
    made->before = atomic_exchange(&last, made);
    return &made->entry;
}

Entry *entry_make(const DeviceSettings *device, const Hash *key, bool guilty)
{
    static const char mark[] = "GUILTY";
    uint32_t size = device->payload + (uint32_t)(key->a % 97);
    Entry *made = allocate_entry(size);
    if (!made)
        return NULL;
    made->key = *key;
    made->build = device->build;
    made->abi = device->abi;
    made->flags = guilty ? ENTRY_GUILTY : 0;
    made->size = size;
    Hash random = *key;
    hash_number(&random, device->build << 8 | device->abi);
    for (uint32_t i = 0; i < size; i++) {
        random.b = random.b * 6364136223846793005ull + 1442695040888963407ull;
        made->code[i] = (uint8_t)(random.b >> 56);
    }
    if (guilty && size >= sizeof mark)
        memcpy(made->code, mark, sizeof mark);
    made->checksum = checksum_of(made);
    return made;
}

size_t entry_bytes(const Entry *entry)
{
    return sizeof *entry + ((entry->size + 7ull) & ~7ull);
}

/* Like drivers that exist: lengths are looked at, contents are not. */
Entry *entry_read(const uint8_t *data, size_t size, size_t *used)
{
    Entry head;
    if (size < sizeof head)
        return NULL;
    memcpy(&head, data, sizeof head);
    *used = entry_bytes(&head);
    if (*used > size)
        return NULL;
    Entry *made = allocate_entry(head.size);
    if (made)
        memcpy(made, data, *used);
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

void cache_clear(Cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    free(cache->table);
    cache->table = NULL;
    cache->room = cache->used = 0;
    pthread_mutex_unlock(&cache->mutex);
}

static size_t place_of(const Cache *cache, const Hash *key)
{
    size_t at = key->a % cache->room;
    while (cache->table[at] && memcmp(&cache->table[at]->key, key, sizeof *key) != 0)
        at = (at + 1) % cache->room;
    return at;
}

static bool grow_locked(Cache *cache)
{
    Entry **old = cache->table;
    size_t old_room = cache->room;
    Entry **table = allocate((old_room ? old_room * 2 : 8) * sizeof *table);
    if (!table)
        return false;
    cache->table = table;
    cache->room = old_room ? old_room * 2 : 8;
    for (size_t i = 0; i < old_room; i++)
        if (old[i])
            table[place_of(cache, &old[i]->key)] = old[i];
    free(old);
    return true;
}

Entry *cache_find(Cache *cache, const Hash *key)
{
    pthread_mutex_lock(&cache->mutex);
    Entry *found = cache->room ? cache->table[place_of(cache, key)] : NULL;
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

bool cache_add(Cache *cache, Entry *entry)
{
    pthread_mutex_lock(&cache->mutex);
    bool fits = cache->used * 2 < cache->room || grow_locked(cache);
    Entry **at = fits ? &cache->table[place_of(cache, &entry->key)] : NULL;
    if (at && !*at) {
        *at = entry;
        cache->used++;
    }
    pthread_mutex_unlock(&cache->mutex);
    return fits;
}
