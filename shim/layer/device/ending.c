/* ending.c - see ending.h */
#include "device/ending.h"

#include "device/counters.h"
#include "device/device.h"
#include "policy/mailbox.h"

/* One process of this many, by chance, has policy prune what the others left. */
#define PRUNED_BY 64

bool device_ends_quietly(Device *device)
{
    if (!mailbox_is_resting() || now_ns() / 1000 % PRUNED_BY == 0)
        return false;
    if (!carrier_keeps(atomic_load(&device->carrier)))
        return true;
    PylayerCounters totals;
    counters_add_up(device, &totals);
    if (totals.pipelines == 0)
        return true;
    /* What was created without a probe, or is in no cell, belongs into a snapshot. Once a day the store learns which
     * pipelines are in use. */
    return totals.plain + totals.absorbed == 0 && device->used_recently && fingerprints_read(device, NULL, 0) == 0;
}
