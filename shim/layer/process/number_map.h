/* number_map.h - a hash map from one number to another. Its owner sees to it that a writer is alone. */
#ifndef PYLAYER_NUMBER_MAP_H
#define PYLAYER_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `key` 0: a free slot. */
typedef struct NumberPair {
    uint64_t key, value;
} NumberPair;

/* All zero: an empty map. */
typedef struct NumberMap {
    NumberPair *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t used;
} NumberMap;

/* Returns the value under a key that is not 0; 0 if there is none. */
uint64_t number_map_find(const NumberMap *map, uint64_t key);
/* Returns false if memory is short; then the map is as before. */
bool number_map_put(NumberMap *map, uint64_t key, uint64_t value);
void number_map_remove(NumberMap *map, uint64_t key);
void number_map_free(NumberMap *map);

#endif
