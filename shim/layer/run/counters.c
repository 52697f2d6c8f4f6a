/* counters.c - see counters.h */
#include "run/counters.h"

#include <string.h>

void counters_add_up(const Counters *counters, PylayerCounters *out)
{
    uint64_t sums[COUNTERS] = {0}, hits = 0;
    for (unsigned slot = 0; slot < THREAD_SLOTS; slot++) {
        const Counters *group = &counters[slot];
        const uint64_t *totals = (const uint64_t *)(const void *)&group->totals;
        for (size_t i = 0; i < COUNTERS; i++)
            sums[i] += __atomic_load_n(&totals[i], __ATOMIC_RELAXED);
        for (unsigned kind = 0; kind < PYLAYER_KIND_COUNT; kind++)
            hits += __atomic_load_n(&group->kind_hits[kind], __ATOMIC_RELAXED);
    }
    memcpy(out, sums, sizeof *out);
    out->hits = hits;
}

void activity_add_up(const Counters *counters, PylayerActivity *out)
{
    *out = (PylayerActivity){0};
    for (unsigned slot = 0; slot < THREAD_SLOTS; slot++) {
        const Counters *group = &counters[slot];
        out->untold += __atomic_load_n(&group->untold, __ATOMIC_RELAXED);
        for (unsigned kind = 0; kind < PYLAYER_KIND_COUNT; kind++)
            out->kind_hits[kind] += __atomic_load_n(&group->kind_hits[kind], __ATOMIC_RELAXED);
    }
}
