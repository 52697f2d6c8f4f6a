/* shared_map.c - see number_map.h */
#include "process/number_map.h"

uint64_t shared_map_find(SharedMap *map, uint64_t key)
{
    if (atomic_load_explicit(&map->lost, memory_order_relaxed) || !spread_lock_read(&map->lock, false))
        return 0;
    uint64_t value = number_map_find(&map->numbers, key);
    spread_unlock_read(&map->lock, false);
    return value;
}

bool shared_map_change(SharedMap *map)
{
    bool changes = spread_try_write(&map->lock);
    if (!changes)
        atomic_store(&map->lost, true);
    return changes;
}

void shared_map_put(SharedMap *map, uint64_t key, uint64_t value, size_t most)
{
    if (!shared_map_change(map))
        return;
    if (map->numbers.used < most || number_map_find(&map->numbers, key))
        number_map_put(&map->numbers, key, value);
    spread_unlock_write(&map->lock);
}

void shared_map_remove(SharedMap *map, uint64_t key)
{
    if (!shared_map_change(map))
        return;
    number_map_remove(&map->numbers, key);
    spread_unlock_write(&map->lock);
}
