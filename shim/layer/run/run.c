/* run.c - see run.h */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

#include "mailbox/mailbox.h"

/* Takes the data. Returns false if policy does not get the message. */
static bool send_cell(const Run *run, const PylayerCell *about, enum PylayerOutcome outcome, void *data, uint64_t size,
                      int64_t wait_ns)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, run->serial);
    if (!message) {
        free(data);
        return false;
    }
    message->cell = *about;
    message->cell.outcome = (uint8_t)outcome;
    message->cell.flags |= wait_ns > 0 ? PYLAYER_CELL_AWAITED : 0;
    message->data = data;
    message->size = size;
    return mailbox_post_stored(message, outcome == PYLAYER_OUTCOME_KEPT, QUEUE_BYTES, wait_ns);
}

void run_tell_creation(Run *run, const PylayerCell *about, enum PylayerOutcome outcome)
{
    if (run->plan.tell_creations && !send_cell(run, about, outcome, NULL, 0, 0))
        count(&counters_of(run)->totals.untold, 1);
}

void run_send_cell(Run *run, const PylayerCell *about, void *data, uint64_t size, int64_t wait_ns)
{
    if (!send_cell(run, about, PYLAYER_OUTCOME_KEPT, data, size, wait_ns))
        count(&counters_of(run)->totals.events_dropped, 1);
}

/* ---- counters ---------------------------------------------------------------------------------- */

void counters_add_up(const Counters *counters, PylayerCounters *out)
{
    uint64_t *sums = (uint64_t *)(void *)out;
    memset(out, 0, sizeof *out);
    for (unsigned slot = 0; slot < THREAD_SLOTS; slot++) {
        const uint64_t *values = (const uint64_t *)(const void *)&counters[slot];
        for (size_t i = 0; i < sizeof *out / sizeof *sums; i++)
            sums[i] += __atomic_load_n(&values[i], __ATOMIC_RELAXED);
    }
    for (unsigned kind = 0; kind < PYLAYER_KIND_COUNT; kind++)
        out->hits += out->kind_hits[kind];
}
