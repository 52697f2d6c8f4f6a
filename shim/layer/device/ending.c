/* ending.c - see ending.h */
#include "device/ending.h"

#include "device/device.h"
#include "mailbox/mailbox.h"
#include "store/run_file.h"
#include "store/uses.h"

bool device_ends_quietly(Device *device)
{
    /* Policy asks the device what it counted, so it cannot wait until exit(). */
    if (mailbox_is_open() && device->store.has_undecided)
        return false;
    if (!mailbox_withdraw(device->run.serial, device->store.wants_work))
        return false;
    if (!atomic_load(&device->run.written)) /* a program may destroy its devices after exit() has called the layer */
        uses_write(&device->store);
    run_file_write(&device->store);
    return true;
}
