/* seen.h - the fingerprints of the pipelines that this run created, and of those that the layer's cache holds */
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

void fingerprints_open(Device *device);
void fingerprints_close(Device *device);
/* Notes that a pipeline with this fingerprint was created. 0, unknown, is not noted. */
void fingerprints_note(Device *device, uint64_t fingerprint);
/* Notes that the layer's cache gets a pipeline with this fingerprint. 0: it gets pipelines that are not known. */
void fingerprints_note_merged(Device *device, uint64_t fingerprint);
/* Returns false if the layer's cache holds no pipeline with this fingerprint. */
bool fingerprint_may_be_merged(Device *device, uint64_t fingerprint);
/* Writes at most `capacity` fingerprints of created pipelines. Returns how many there are. */
uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity);

#endif
