/*
 * contents.h - what an application's cache would hold without the layer, by fingerprint.
 *
 * A stored pipeline that the program creates with a cache of its own belongs into that cache. The layer owes it until
 * somebody can look into the cache, and then reads all that it owes at once: most programs never look.
 */
#ifndef PYLAYER_CONTENTS_H
#define PYLAYER_CONTENTS_H

#include "caches/pipeline_cache.h"

/* Returns true if the cache holds the pipeline, or the layer owes it. */
bool contents_has(AppCache *app_cache, uint64_t fingerprint);
/* Notes that the cache holds a pipeline that it got now. */
void contents_add(AppCache *app_cache, uint64_t fingerprint);
/* Notes that the layer owes a stored pipeline. Returns false if it must be given now. */
bool contents_owe(AppCache *app_cache, uint64_t fingerprint);
/* Gives the cache what the layer owes it. Call it before a command that reads the cache. */
void contents_settle(Caches *caches, AppCache *app_cache);
/* The cache is another one from now on. */
void contents_forget(AppCache *app_cache);

#endif
