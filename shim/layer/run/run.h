/*
 * run.h - a device's run: what policy decided about it, what it counts, and what it knows of fingerprints. All subjects
 * read it and count in it.
 */
#ifndef PYLAYER_RUN_H
#define PYLAYER_RUN_H

#include "run/seen.h"

/* The counters of one group of threads. A hit writes to no cache line that another group writes to. */
typedef struct Counters {
    _Alignas(CACHE_LINE_BYTES) PylayerCounters totals; /* without hits, which are the sum of kind_hits */
    uint64_t kind_hits[PYLAYER_KIND_COUNT];
    uint64_t untold;
} Counters;

#define COUNTERS (sizeof(PylayerCounters) / sizeof(uint64_t))
_Static_assert(sizeof(PylayerCounters) == COUNTERS * sizeof(uint64_t), "PylayerCounters is an array of uint64_t");

/* counters: THREAD_SLOTS of them. The sum has the hits in totals, too. */
void counters_add_up(const Counters *counters, Counters *out);

struct Frames;

typedef struct Run {
    uint64_t serial; /* the device's number in messages */
    PylayerPlan plan;
    bool planned;                    /* policy gave a plan, so it must be told when this device ends */
    atomic_int mode;                 /* PylayerMode in force; changes only to OFF */
    PylayerDeviceInfo info;          /* as policy got it */
    uint64_t begun_ns;               /* when the driver had created the device */
    bool sees_frames;                /* the commands of swapchains are hooked */
    atomic_bool written;             /* the layer has written the run's file */
    _Atomic(struct Frames *) frames; /* NULL until the first present */

    SeenFingerprints seen;
    char name[PYLAYER_RUN_NAME_BYTES]; /* of the crash marker that the layer made; empty if there is none */
    _Atomic(Counters *) counters;      /* THREAD_SLOTS of them: these, or those in the crash marker's file */
    Counters own_counters[THREAD_SLOTS];
} Run;

void run_open(Run *run, uint64_t serial);
void run_close(Run *run);

/* Returns false if the mode keeps no pipelines and uses no stored ones, so that the layer must add nothing to
 * the device and hold nothing for it. */
static inline bool mode_keeps(int mode)
{
    return mode != PYLAYER_MODE_OFF && mode != PYLAYER_MODE_OBSERVE;
}

static inline Counters *counters_of(Run *run)
{
    return atomic_load_explicit(&run->counters, memory_order_acquire) + thread_slot();
}

/* Notes that a pipeline with this fingerprint was created, of which so much is known. 0 is unknown, and not noted. */
static inline void note_created(Run *run, uint64_t fingerprint, unsigned known)
{
    if (fingerprint && !(known & SEEN_CREATED) && !fingerprints_note(&run->seen, fingerprint, SEEN_CREATED))
        count(&counters_of(run)->totals.fingerprints_dropped, 1);
}

/* Tells policy about a creation that left nothing to keep, if the plan asks for that. */
void run_tell_creation(Run *run, const PylayerCell *about, enum PylayerOutcome outcome);
/* Sends policy what the creation of a pipeline left, malloc'd data that is policy's from then on, and waits until that
 * is stored. NULL: the driver put nothing into the cell. */
void run_send_cell(Run *run, const PylayerCell *about, void *data, uint64_t size, int64_t wait_ns);

#endif
