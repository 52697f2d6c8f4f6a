/* added_calls.c - see added_calls.h */
#include "crash/added_calls.h"

/* One of them is useless without the others. */
static unsigned first_of_its_group(unsigned call)
{
    switch (call) {
    case PYLAYER_MARK_BINARIES:
    case PYLAYER_MARK_BINARY_DATA:
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
