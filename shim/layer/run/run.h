/*
 * run.h - a device's run: what policy decided about it, what it counts, and what it knows of fingerprints. All subjects
 * read it and count in it.
 */
#ifndef PYLAYER_RUN_H
#define PYLAYER_RUN_H

#include "base.h"
#include "process/number_map.h"

/* ---- seen.c: what this run knows of fingerprints --------------------------------------------------- */

#define SEEN_SHARDS 16
/* 786,432 in all. Further ones are dropped and counted. */
#define SEEN_IN_A_SHARD 49152

/* A set that only grows. Each fingerprint has one shard, so threads that create different pipelines rarely meet. */
typedef struct SeenFingerprints {
    struct {
        _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
        NumberMap fingerprints;
    } shards[SEEN_SHARDS];
    atomic_bool merged_unknown; /* the layer's cache holds pipelines whose fingerprints are not known */
} SeenFingerprints;

/* What is known of a fingerprint: bits. */
enum Seen {
    SEEN_CREATED = 1,   /* this run created a pipeline with it */
    SEEN_MERGED = 2,    /* the layer's cache holds a pipeline with it */
    SEEN_FETCHED = 4,   /* what the store has of it was given to the driver */
    SEEN_TOLD = 8,      /* the store knows already that it was used within a day */
    SEEN_RECORDED = 16, /* policy was told of its creation; only noted where the program can name it */
    /* Not of a pipeline but of all that it is made of (batch.c): the driver created it from a cache once more, and
     * again. */
    SEEN_HARMLESS = 32,
    SEEN_HARMLESS_TWICE = 64,
};

void fingerprints_close(SeenFingerprints *seen);
/* Notes what is known of a fingerprint. 0, unknown, is not noted. Returns all that is known; 0 if it could not be
 * noted. */
unsigned fingerprints_note(SeenFingerprints *seen, uint64_t fingerprint, unsigned what);
/* Returns the bits of what is known of a fingerprint. */
unsigned fingerprint_known(SeenFingerprints *seen, uint64_t fingerprint);
/* Notes that the layer's cache gets a pipeline with this fingerprint, and what more is known of it. 0: it gets
 * pipelines that are not known. */
void fingerprints_note_merged(SeenFingerprints *seen, uint64_t fingerprint, unsigned more);
/* Writes at most `capacity` fingerprints of created pipelines of which the store does not know that they were used
 * within a day. Returns how many there are. */
uint64_t fingerprints_read(SeenFingerprints *seen, uint64_t *out, uint64_t capacity);

/* ---- run.c ----------------------------------------------------------------------------------------- */

/* The counters of one group of threads. A hit writes to no cache line that another group writes to. */
typedef struct Counters {
    _Alignas(CACHE_LINE_BYTES) PylayerCounters totals; /* without hits, which are the sum of kind_hits */
} Counters;

/* counters: THREAD_SLOTS of them. The sum has the hits in totals, too. */
void counters_add_up(const Counters *counters, PylayerCounters *out);

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
