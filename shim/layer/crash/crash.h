/* crash.h - what a device knows of crashes: its crash marker, for the next process, and what earlier processes left */
#ifndef PYLAYER_CRASH_H
#define PYLAYER_CRASH_H

#include "mailbox/mailbox.h"
#include "store/store.h"
#include "vulkan/create_info.h"

/*
 * The calls to the driver that the layer adds to what the application asked for, and which of them are switched off on
 * a device.
 *
 * Without the layer a program would not make them, so a driver's fault in one of them must not cost more than one
 * crash: NVIDIA's driver (580.159.04) crashes in vkGetPipelineKeyKHR and in vkCreatePipelineBinariesKHR for some
 * pipelines (measured). Each call gets a mark in the crash marker. When a process dies in one, later processes switch
 * it off for that kind of pipeline.
 */
typedef struct AddedCalls {
    atomic_uint off[PYLAYER_ADDED_CALLS]; /* bit masks of PylayerPipelineKind, by PylayerMarkedCall */
} AddedCalls;

void call_switch_off(AddedCalls *calls, enum PylayerMarkedCall call, unsigned kind);

/* Of calls that are switched off together (TOGETHER of pylayer/store/crash_marker.py), ask for the first: KEY, CELL. */
static inline bool call_is_off(const AddedCalls *calls, enum PylayerMarkedCall call, unsigned kind)
{
    return atomic_load_explicit(&calls->off[call - PYLAYER_MARK_ADDED], memory_order_relaxed) >> kind & 1;
}

typedef struct Crash {
    AddedCalls added_calls;                    /* which of them are switched off */
    _Atomic(LiveFile *) live;                  /* the crash marker; NULL if there is none */
    char *marker_path;                         /* the crash marker's file, if the layer made it */
    atomic_bool holds_stored;                  /* stored data was given to the driver */
    _Atomic(const PylayerDecision *) blocking; /* the decision that is obeyed; NULL if it blocks nothing */
    bool lost;                                 /* the last run may have ended before what it compiled was stored */
} Crash;

/* ---- blocks.c: stored records, pipelines, and data of the program, over which an earlier process died ------- */

/* Call it before any pipeline is created. The decision must not change or go away afterwards. */
void blocks_obey(Crash *crash, const PylayerDecision *decision);
static inline bool blocks_something(const Crash *crash)
{
    return atomic_load_explicit(&crash->blocking, memory_order_acquire) != NULL;
}
bool blocks_pipeline(const Crash *crash, uint64_t fingerprint, enum PylayerPipelineKind kind);
/* Returns true if the driver must not get this record, or one of the cells in it. */
bool blocks_record(const Crash *crash, const RecordHeader *record, const ChunkCell *cells, size_t cell_count);
/* Returns true if policy must decide whether the driver gets this data of the program. */
bool blocks_data(const Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES]);

/* Returns how long a compile waits until it is stored: 0, unless an earlier run lost compiles or something is blocked.
 * Otherwise a program that dies in each run would lose the same pipelines each time. */
static inline int64_t stored_wait_ns(const Crash *crash)
{
    return crash->lost || blocks_something(crash) ? FLUSH_WAIT_NS : 0;
}

/* ---- crash_marker.c: records what the driver is working on now ------------------------------------
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
