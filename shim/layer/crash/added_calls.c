/* added_calls.c - see added_calls.h */
#include "crash/added_calls.h"

void added_calls_open(AddedCalls *calls, unsigned plain_kinds)
{
    for (unsigned i = 0; i < sizeof calls->off / sizeof *calls->off; i++)
        atomic_init(&calls->off[i], 0);
    atomic_fetch_or(&calls->off[PYLAYER_MARK_PROBE - PYLAYER_MARK_ADDED], plain_kinds);
}

/* One of them is useless without the others. */
static unsigned first_of_its_group(unsigned call)
{
    switch (call) {
    case PYLAYER_MARK_BINARIES:
    case PYLAYER_MARK_BINARY_DATA:
    case PYLAYER_MARK_CAPTURE:
        return PYLAYER_MARK_KEY;
    case PYLAYER_MARK_CELL_MERGE:
        return PYLAYER_MARK_CELL;
    default:
        return call;
    }
}

bool call_switch_off(AddedCalls *calls, unsigned call, unsigned kind)
{
    if (call < PYLAYER_MARK_ADDED || call >= PYLAYER_MARK_END || kind >= PYLAYER_KIND_COUNT)
        return false;
    atomic_fetch_or(&calls->off[first_of_its_group(call) - PYLAYER_MARK_ADDED], 1u << kind);
    return true;
}
