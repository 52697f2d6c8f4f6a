/* counters.h - adds up what a device's threads counted */
#ifndef PYLAYER_COUNTERS_H
#define PYLAYER_COUNTERS_H

#include "base.h"

struct Counters;

#define COUNTERS (sizeof(PylayerCounters) / sizeof(uint64_t))
_Static_assert(sizeof(PylayerCounters) == COUNTERS * sizeof(uint64_t), "PylayerCounters is an array of uint64_t");

/* counters: THREAD_SLOTS of them. */
void counters_add_up(const struct Counters *counters, PylayerCounters *out);
/* Without what the queue holds. */
void activity_add_up(const struct Counters *counters, PylayerActivity *out);

#endif
