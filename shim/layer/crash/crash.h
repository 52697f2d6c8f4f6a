/* crash.h - what a device knows of crashes: its crash marker, for the next process, and what earlier processes left */
#ifndef PYLAYER_CRASH_H
#define PYLAYER_CRASH_H

#include "mailbox/mailbox.h"
#include "store/store.h"

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
    atomic_uint off[PYLAYER_MARK_END - PYLAYER_MARK_ADDED]; /* bit masks of PylayerPipelineKind, by PylayerMarkedCall */
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
    int marker_fd;                             /* open on overlayfs alone; 0: none */
    ino_t marker_inode;                        /* of that file */
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

#endif
