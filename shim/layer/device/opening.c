/* opening.c - opens a device's folder of the store (devices.h) */
#include "device/devices.h"

#include <stdio.h>
#include <string.h>

#include "store/run_file.h"

bool device_open_store(Device *device)
{
    Store *store = &device->store;
    const StoredFound *found = &store->found;
    FileHeader header;
    memcpy(&header, store->kept.header, sizeof header);
    /* Before the folder is read: a death of this run says nothing new about what is decided from now on. */
    if (!header.created_ns)
        header.created_ns = wall_clock_ns();
    header.program = device->run.info.instance.program_id;
    bool open = stored_open(&device->caches, &header);
    if (found->work)
        atomic_store(&store->wants_work, true);
    device->crash.lost |= index_stored_since(&store->stored, found->ended.last) < found->ended.compiled;
    if (open && atomic_load(&device->run.carrier) == PYLAYER_CARRIER_BINARIES)
        stored_binaries_read(&device->binaries, store);
    return open;
}

PylayerDeviceCreated device_state(const Device *device)
{
    PylayerDeviceCreated state = {
        .carrier = (uint8_t)atomic_load(&device->run.carrier),
        .cache_control = device->driver.cache_control,
        .feedback = device->driver.feedback,
        .reads_store = atomic_load(&device->store.stored.open),
        .records_state = device->state.on,
        .used_recently = device->store.found.used_recently,
        .stored_cells = device->store.found.records,
        .off_by = device->store.found.off,
    };
    memcpy(state.run_name, device->run.name, sizeof device->run.name);
    return state;
}
