/* merging.h - merging into caches that threads create pipelines with */
#ifndef PYLAYER_MERGING_H
#define PYLAYER_MERGING_H

#include "process/spread_lock.h"

/* Who uses a VkPipelineCache that is merged into. */
typedef struct CacheUse {
    SpreadLock lock;
    VkPipelineCache annex;   /* under merge_mutex: merged while somebody used the cache for long; often none */
    atomic_bool has_annex;   /* there is something in it */
    atomic_bool for_ever;    /* a deferred operation may be using it, and its end is not known: never merged into */
    bool synchronized_merge; /* the driver lets others use the cache meanwhile */
} CacheUse;

void cache_use_init(CacheUse *use);
void cache_use_destroy(CacheUse *use);
/* Around each command that uses the cache otherwise than to merge. for_long: it may compile, or reads all data. False: the
 * driver hangs in a merge into it; then there is no end, and the command does without the cache. */
bool cache_use_begin(CacheUse *use, bool for_long);
void cache_use_end(Device *device, CacheUse *use, VkPipelineCache cache, bool for_long);
/* Before the command: the use may go on when the command has returned. */
void cache_use_for_ever(CacheUse *use);
/* Nobody else is in the cache until the end. False: somebody is, for long, or may be for ever. */
bool cache_try_alone_locked(CacheUse *use);
void cache_alone_end_locked(CacheUse *use);
/* Merges into the cache or its annex. */
VkResult cache_merge_locked(Device *device, CacheUse *use, VkPipelineCache cache, uint32_t source_count,
                            const VkPipelineCache *sources);
/* Merges the annex into its cache where nobody is in the way. */
void cache_take_over_annex(Device *device, CacheUse *use, VkPipelineCache cache);
/* The cache is about to be destroyed. */
void cache_drop_annex(Device *device, CacheUse *use);

#endif
