/* number_map.c - see number_map.h. Open addressing, never more than half full. */
#include "process/number_map.h"

#include <stdlib.h>

#define FIRST_SLOTS 16

static size_t slot_of(const NumberMap *map, uint64_t key)
{
    return (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (map->capacity - 1);
}

/* Returns the key's slot, or the free slot that the key would take. */
static NumberPair *find_slot(const NumberMap *map, uint64_t key)
{
    size_t slot = slot_of(map, key);
    while (map->slots[slot].key != 0 && map->slots[slot].key != key)
        slot = (slot + 1) & (map->capacity - 1);
    return &map->slots[slot];
}

uint64_t number_map_find(const NumberMap *map, uint64_t key)
{
    return map->capacity ? find_slot(map, key)->value : 0;
}

static bool grow(NumberMap *map)
{
    NumberMap larger = {.capacity = map->capacity ? 2 * map->capacity : FIRST_SLOTS, .used = map->used};
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key != 0)
            *find_slot(&larger, map->slots[i].key) = map->slots[i];
    free(map->slots);
    *map = larger;
    return true;
}

uint64_t *number_map_at(NumberMap *map, uint64_t key)
{
    if (2 * map->used >= map->capacity && !grow(map))
        return NULL;
    NumberPair *slot = find_slot(map, key);
    map->used += slot->key == 0;
    slot->key = key;
    return &slot->value;
}

bool number_map_put(NumberMap *map, uint64_t key, uint64_t value)
{
    uint64_t *at = number_map_at(map, key);
    if (at)
        *at = value;
    return at != NULL;
}

void number_map_remove(NumberMap *map, uint64_t key)
{
    NumberPair *gap = map->capacity ? find_slot(map, key) : NULL;
    if (!gap || gap->key == 0)
        return;
    map->used--;
    /* Later entries move up into the gap, so that no search ends too early. */
    size_t mask = map->capacity - 1, hole = (size_t)(gap - map->slots);
    for (size_t at = (hole + 1) & mask; map->slots[at].key != 0; at = (at + 1) & mask) {
        size_t home = slot_of(map, map->slots[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (NumberPair){0, 0};
}

void number_map_free(NumberMap *map)
{
    free(map->slots);
    *map = (NumberMap){0};
}
