/* own_data.h - the data of the program's own caches: what it passes to vkCreatePipelineCache and what it reads */
#ifndef PYLAYER_OWN_DATA_H
#define PYLAYER_OWN_DATA_H

#include "caches/pipeline_cache.h"

/* Initial data of one vkCreatePipelineCache. */
typedef struct OwnData {
    CacheNumber number;
    const VkPipelineCacheCreateInfo *info;
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* zero if it was not needed */
    uint64_t id;                          /* of the digest, for marks; 0: no data, or refused */
} OwnData;

bool own_data_is_absent(const VkPipelineCacheCreateInfo *info);
/* Fills in *data. Returns true if the driver must not get it: the history or policy says so. */
bool own_data_is_refused(Caches *caches, OwnData *data, CacheNumber number, const VkPipelineCacheCreateInfo *info);
/* The driver failed on the program's data with `result`, so the program's cache begins empty. If policy has data for the
 * cache, its load begins here, before the first pipeline that misses can be compiled. */
void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result);
/* The program passed no data for this cache. If it did in an earlier run, policy has what the cache lost. Where the layer
 * reads the store itself, policy is told only when the store lacks a pipeline (own_data_tell_lost). */
void own_data_tell_absent(Caches *caches, const OwnData *data, AppCache *app_cache);
/* A pipeline is not stored. What the program's caches lost may have it, so its load begins here. Returns false if
 * they lost nothing, or if it has begun already. */
bool own_data_tell_lost(Caches *caches);
/* Notes what the program has read. Tells policy if policy has something to do about it, with the data if policy lacks
 * it. holds_plain: AppCache::holds_plain. */
void own_data_tell_read(Caches *caches, PylayerCacheRead read, const void *data, bool holds_plain);

#endif
