/* merging.h - merging into caches while threads create pipelines with them */
#ifndef PYLAYER_MERGING_H
#define PYLAYER_MERGING_H

#include "base.h"
#include "process/spread_lock.h"

typedef struct Caches Caches;

/* The users of a VkPipelineCache that the layer merges into. */
typedef struct CacheUse {
    SpreadLock lock;
    VkPipelineCache annex;   /* under merge_mutex: takes merges while a thread uses the cache for long; often none */
    atomic_bool has_annex;   /* the annex holds something */
    atomic_bool for_ever;    /* a deferred operation may use it until an unknown end: never merged into */
    bool synchronized_merge; /* the driver lets others use the cache during a merge */
} CacheUse;

void cache_use_init(CacheUse *use);
void cache_use_destroy(CacheUse *use);
/* Enclose each command that uses the cache, except merges. for_long: the command may compile, or reads all data.
 * cache_use_begin returns false if a merge into the cache appears hung. Do not call cache_use_end then; run the command
 * without this cache. */
bool cache_use_begin(CacheUse *use, bool for_long);
void cache_use_end(Caches *caches, CacheUse *use, VkPipelineCache cache, bool for_long);
/* Call it before a command whose use of the cache may go on after the command returned. */
void cache_use_for_ever(CacheUse *use);
/* Keeps all others out of the cache until cache_alone_end_locked. Returns false if somebody uses it for long, or may
 * use it for ever. */
bool cache_try_alone_locked(CacheUse *use);
void cache_alone_end_locked(CacheUse *use);
/* Merges into the cache or, if somebody uses it for long, into its annex. */
VkResult cache_merge_locked(Caches *caches, CacheUse *use, VkPipelineCache cache, uint32_t source_count,
                            const VkPipelineCache *sources);
/* Some drivers move what they merge (Plan.merge_moves). Returns what to merge instead of a cache that must keep its content:
 * a copy, or the cache itself. Give it to cache_source_end. */
VkPipelineCache cache_source(Caches *caches, VkPipelineCache cache);
void cache_source_end(Caches *caches, VkPipelineCache cache, VkPipelineCache source);
/* Merges the annex into its cache, unless somebody uses the cache for long. */
void cache_take_over_annex(Caches *caches, CacheUse *use, VkPipelineCache cache);
/* Destroys the annex of a cache that is about to be destroyed. */
void cache_drop_annex(Caches *caches, CacheUse *use);

#endif
