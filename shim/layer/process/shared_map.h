/* shared_map.h - a map from one number to another that many threads read at once and few ever write */
#ifndef PYLAYER_SHARED_MAP_H
#define PYLAYER_SHARED_MAP_H

#include "process/number_map.h"
#include "process/spread_lock.h"

typedef struct SharedMap {
    SpreadLock lock;
    NumberMap numbers;
} SharedMap;

void shared_map_open(SharedMap *map);
void shared_map_close(SharedMap *map);
/* Returns 0 if the key is not there. */
uint64_t shared_map_find(SharedMap *map, uint64_t key);
/* Adds or replaces a value. Does nothing if the map would hold more than `most` keys, or memory is short. */
void shared_map_put(SharedMap *map, uint64_t key, uint64_t value, size_t most);
void shared_map_remove(SharedMap *map, uint64_t key);

#endif
