/* number_map.h - a hash map from one number to another. It has no lock: its owner must keep other threads out while
 * it writes. */
#ifndef PYLAYER_NUMBER_MAP_H
#define PYLAYER_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/spread_lock.h"

/* A `key` of 0 marks a free slot. */
typedef struct NumberPair {
    uint64_t key, value;
} NumberPair;

/* An all-zero map is empty. */
typedef struct NumberMap {
    NumberPair *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t used;
} NumberMap;

/* Returns the value of a key, which must not be 0; returns 0 if the key is not there. */
uint64_t number_map_find(const NumberMap *map, uint64_t key);
/* Returns where the value of a key is, which is 0 at first. Returns NULL if memory is short. */
uint64_t *number_map_at(NumberMap *map, uint64_t key);
/* Returns false if memory is short; the map is then unchanged. */
bool number_map_put(NumberMap *map, uint64_t key, uint64_t value);
void number_map_remove(NumberMap *map, uint64_t key);
void number_map_free(NumberMap *map);

/* ---- shared_map.c: a map that many threads read at once and few ever write ------------------------- */

typedef struct SharedMap {
    SpreadLock lock;
    NumberMap numbers;
    atomic_bool lost; /* a change was not made: the map may be out of date, so nothing is found any more */
} SharedMap;

/* Returns 0 if the key is not there. */
uint64_t shared_map_find(SharedMap *map, uint64_t key);
/* Adds or replaces a value. Does nothing if the map would hold more than `most` keys, or memory is short. */
void shared_map_put(SharedMap *map, uint64_t key, uint64_t value, size_t most);
void shared_map_remove(SharedMap *map, uint64_t key);
/* Locks the map for a change of `numbers`; spread_unlock_write ends it. Returns false if a thread has been reading for
 * a second, because it does not run. Then the map is `lost`. */
bool shared_map_change(SharedMap *map);

#endif
