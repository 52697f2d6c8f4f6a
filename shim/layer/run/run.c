/* run.c - see run.h */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

#include "mailbox/mailbox.h"

void run_open(Run *run, uint64_t serial)
{
    run->serial = serial;
    atomic_store(&run->counters, run->own_counters);
    fingerprints_open(&run->seen);
}

void run_close(Run *run)
{
    fingerprints_close(&run->seen);
}

void run_tell_creation(Run *run, const PylayerCell *about, enum PylayerOutcome outcome)
{
    if (!run->plan.tell_creations)
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, run->serial);
    if (message) {
        message->cell = *about;
        message->cell.unit = PYLAYER_UNIT_NONE;
        message->cell.outcome = (uint8_t)outcome;
    }
    if (!mailbox_post(message, QUEUE_BYTES))
        count(&counters_of(run)->untold, 1);
}

void run_send_cell(Run *run, const PylayerCell *about, void *data, uint64_t size, int64_t wait_ns)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, run->serial);
    if (message) {
        message->cell = *about;
        message->cell.size = size;
        message->cell.data = data;
    } else {
        free(data);
    }
    if (!mailbox_post_stored(message, QUEUE_BYTES, wait_ns))
        count(&counters_of(run)->totals.events_dropped, 1);
}

/* ---- counters ---------------------------------------------------------------------------------- */

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
