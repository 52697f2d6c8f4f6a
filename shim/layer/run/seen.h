/* seen.h - what this run knows of fingerprints: which it created, and what the layer's cache and the store have */
#ifndef PYLAYER_SEEN_H
#define PYLAYER_SEEN_H

#include "base.h"
#include "process/number_map.h"
#include "process/spread_lock.h"

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

void fingerprints_open(SeenFingerprints *seen);
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

#endif
