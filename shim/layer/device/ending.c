/* ending.c - see ending.h */
#include "device/ending.h"

#include "run/counters.h"
#include "device/device.h"
#include "mailbox/mailbox.h"
#include "store/run_file.h"
#include "store/uses.h"

/* Only policy can store what was created without a probe, or is in no cell: as a snapshot. */
static bool needs_snapshot(const Device *device)
{
    PylayerCounters totals;
    counters_add_up(device->run.counters, &totals);
    return carrier_keeps(atomic_load(&device->run.carrier)) && totals.plain + totals.absorbed > 0;
}

bool device_ends_quietly(Device *device)
{
    /* Policy asks the device what it counted, so it cannot wait until exit(). */
    if (mailbox_is_open() && (device->store.has_undecided || needs_snapshot(device)))
        return false;
    if (!mailbox_withdraw(device->run.serial, device->store.wants_work))
        return false;
    if (!atomic_load(&device->run.written)) /* a program may destroy its devices after exit() has called the layer */
        uses_write(&device->store);
    run_file_write(&device->store);
    return true;
}
