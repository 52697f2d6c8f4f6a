/*
 * crash_marker.h - the crash marker: records which stored or application data the driver is working on now, and which
 * call that the layer added it is in.
 *
 * Drivers crash on damaged data, mostly not in the call that passes it: of 942 damaged binaries one driver crashed on
 * 301, all in vkCreate*Pipelines (measured, RADV 25.0.7). The layer cannot catch the crash, because signal handlers
 * are the program's. So before a call the layer writes a *mark* into a mapped file, which says what it is about to
 * pass, and clears it after the call: stores into memory, no system call. The file outlives the process. The next start
 * of the same device blocks what is still marked (pylayer/store/crash_marker.py).
 *
 * Marks must cost next to nothing, so they say little: records and data by the beginning of their digests, pipelines
 * by their fingerprints. The layer marks nothing while the driver compiles into a cell: that is the application's call.
 * Nor what it calls before the device's file is there, in vkCreateDevice, and vkDestroy* of its own objects.
 */
#ifndef PYLAYER_CRASH_MARKER_H
#define PYLAYER_CRASH_MARKER_H

#include "crash/crash.h"
#include "store/store.h"
#include "vulkan/create_info.h"

/* The mark of one call. NULL: the call is not watched. */
typedef PylayerMark *Mark;

/* Makes and maps the file (pylayer/store/crash_marker.py) in the device's folder. It is in the runtime directory
 * (Stored::outside) if the decision says so, or if a write to a mapped page may fail in the folder. created_ns: when the
 * run began to read what is decided. Returns false if it cannot be made. */
bool marker_create(Crash *crash, Store *store, uint64_t created_ns);
/* Maps a crash marker's file. Returns false if that fails. */
bool marker_map(Crash *crash, int fd);
/* Deletes the file if the layer made it. */
void marker_remove(Crash *crash);
/* Call it when no thread of the device can be in the driver any more. */
void marker_close(Crash *crash);

Mark mark_record(Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* APPLICATION or MERGE. data_ids: AppCache::data_id of the caches, at most PYLAYER_MARK_IDS of them. */
Mark mark_application(Crash *crash, enum PylayerMarkedCall call, const uint64_t *data_ids, unsigned id_count);
/* elements: those of one call, of which the first are named; NULL if what the call creates is not known. data_id: of
 * the application's cache. foreign: the driver also probes stored data outside the application's cache. */
Mark mark_pipelines(Crash *crash, const Element *elements, uint32_t count, uint64_t data_id, bool foreign,
                    bool may_compile);
/* A call that the layer adds, without stored data. kind, fingerprint: 0 if it concerns no pipeline. */
Mark mark_added(Crash *crash, enum PylayerMarkedCall call, unsigned kind, uint64_t fingerprint);
void mark_end(Mark mark);
/* The same, and the driver has created a pipeline: if it used stored data, that did no harm. */
void mark_end_created(Mark mark);
/* exit() has begun. A process that ends from now on, in whatever call to the driver, says nothing against it: the exit
 * may have ended the other threads in the middle of one (Wine's ExitProcess does), and whoever waits for the end may
 * lose patience. No call is marked any more. */
void marker_exit_begins(void);
/* Clears the marks of this device at exit. */
void marker_forget(Crash *crash);

/* Returns the beginning of a digest, which marks store. */
uint64_t digest_id(const uint8_t digest[PYLAYER_DIGEST_BYTES]);

#endif
