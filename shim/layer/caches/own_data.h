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

/* Fills in *data. Returns true if the driver must not get it: the history or policy says so. */
bool own_data_is_refused(Caches *caches, OwnData *data, CacheNumber number, const VkPipelineCacheCreateInfo *info);
/* Tells policy that the driver failed on the program's data with `result`, so that the program's cache begins empty. */
void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result);
/* Notes what the program has read. Tells policy if policy has something to do about it. */
void own_data_tell_read(Caches *caches, PylayerCacheRead read, const void *data);

#endif
