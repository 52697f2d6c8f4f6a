/* seen.h - the fingerprints of the pipelines that this run created */
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
} SeenFingerprints;

void fingerprints_open(Device *device);
void fingerprints_close(Device *device);
/* Notes that a pipeline with this fingerprint was created. 0, unknown, is not noted. */
void fingerprints_note(Device *device, uint64_t fingerprint);
/* Writes at most `capacity` fingerprints. Returns how many there are. */
uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity);

#endif
