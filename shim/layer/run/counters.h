/* counters.h - what a device's threads count */
#ifndef PYLAYER_COUNTERS_H
#define PYLAYER_COUNTERS_H

#include "base.h"
#include "process/spread_lock.h"

/* The counters of one group of threads. A hit writes to no cache line that another group writes to. */
typedef struct Counters {
    _Alignas(CACHE_LINE_BYTES) PylayerCounters totals; /* without hits, which are the sum of kind_hits */
    uint64_t kind_hits[PYLAYER_KIND_COUNT];
    uint64_t untold;
} Counters;

#define COUNTERS (sizeof(PylayerCounters) / sizeof(uint64_t))
_Static_assert(sizeof(PylayerCounters) == COUNTERS * sizeof(uint64_t), "PylayerCounters is an array of uint64_t");

/* counters: THREAD_SLOTS of them. */
void counters_add_up(const Counters *counters, PylayerCounters *out);
/* Adds up the activity of all groups. It does not include what waits in the mailbox's queue. */
void activity_add_up(const Counters *counters, PylayerActivity *out);

#endif
