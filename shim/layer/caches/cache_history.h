/*
 * cache_history.h - what the program read from its own caches in earlier runs, for the layer itself.
 *
 * pylayer/store/cache_history.py keeps the history, and has what the layer leaves to policy: data that the history does
 * not know, and copies of the data. Known data passes without policy, so that a program that loads and saves its own
 * cache, and compiles nothing, needs no interpreter.
 */
#ifndef PYLAYER_CACHE_HISTORY_H
#define PYLAYER_CACHE_HISTORY_H

#include "base.h"
#include "process/number_map.h"
#include "store/verdicts.h"

typedef struct Caches Caches;

/* All zero but the mutex: not read yet. */
typedef struct CacheHistory {
    pthread_mutex_t mutex; /* guards what follows; held while the store is read and written */
    bool read;
    bool loads;      /* the program passed data of its own in some run */
    bool scattered;  /* more files than one exit leaves: a program that is always killed; policy combines them */
    bool large;      /* policy may soon delete the oldest records */
    uint64_t bytes;  /* of the records that were read */
    uint64_t blobs;  /* bit n: the store has a copy of what the program read from the n-th cache */
    NumberMap known; /* by digest_id: the size and KNOWN_... bits */
    char name[PYLAYER_STORE_NAME_BYTES]; /* of the file with what was read from this device's caches; empty: none yet */
    uint64_t salt;                       /* of that file */
    uint64_t *suspected; /* beginnings of the digests of data that processes died over; constant after vkCreateDevice */
    size_t suspected_count;
} CacheHistory;

void cache_history_init(CacheHistory *history);
void cache_history_free(CacheHistory *history);
/* Notes which data settled verdicts name: policy is asked about it. Returns false if memory is short. */
bool cache_history_suspect(Caches *caches, const Verdicts *verdicts);
/* Returns true if the program read this data from this driver, or passed it in an earlier run, so that policy would let
 * it pass. */
bool cache_history_knows(Caches *caches, const VkPipelineCacheCreateInfo *info, uint32_t slot,
                         const uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* Adds what vkGetPipelineCacheData returned, unless policy runs or has something to do about it. Returns false if policy
 * must be told. is_new: it holds pipelines that no record has, so that the store should get a copy. */
bool cache_history_note(Caches *caches, const PylayerCacheRead *read, const void *data, bool is_new);
/* Returns a bit mask of the program's caches, in order of creation, that policy fills if they are created empty. All
 * bits: only policy knows. */
uint64_t cache_history_restorable(Caches *caches);

#endif
