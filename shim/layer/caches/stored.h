/*
 * stored.h - finds stored pipelines by their fingerprints and gives them to the driver when they are created.
 *
 * The layer does this itself where policy needs not be asked: kept_plans.h says for which devices. Then no pipeline
 * waits for the interpreter, and what the program does not create is not read.
 */
#ifndef PYLAYER_STORED_H
#define PYLAYER_STORED_H

#include "caches/pipeline_cache.h"
#include "store/store_index.h"

/* Reads the folder of a header's identity and program, obeys its verdicts, and makes the crash sentinel with that header.
 * Returns false if policy must read the folder instead (index_read_folder), or if the layer is off (StoredFound::off,
 * late). */
bool stored_open(Caches *caches, const FileHeader *header, bool every_program, bool sentinel_outside,
                 StoredFound *found);

/* Gives the driver all stored cells with this fingerprint, and those behind them in their files, which a program
 * usually creates next, by merging them into the layer's cache. Returns what is known of the fingerprint: enum Seen. */
unsigned stored_fetch(Caches *caches, uint64_t fingerprint);
/* Gives an application's cache all stored cells with these fingerprints, and no others: the cache then holds what it would
 * hold without the layer. Returns false if it lacks one of them. */
bool stored_give_to(Caches *caches, AppCache *app_cache, const uint64_t *fingerprints, size_t count);

#endif
