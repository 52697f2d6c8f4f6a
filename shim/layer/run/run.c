/* run.c - see run.h */
#include "run/run.h"

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
