/* opening.c - opens a device's folder of the store (devices.h): finds it, reads what is in it, obeys the decision */
#define _GNU_SOURCE
#include "device/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash/crash.h"

/* ---- where the folder is ---------------------------------------------------------------------------- */

/* Returns the path of a folder of the store with this root; NULL if there is no such store, or memory is short. *own:
 * the folder can be trusted. */
static char *folder_in(const char *root, const char *name, bool *own)
{
    char above[PATH_BYTES + 8], *path = NULL;
    snprintf(above, sizeof above, "%s/store", root);
    if (!*root || asprintf(&path, "%s/%s", above, name) < 0)
        return NULL;
    *own = is_own_root(root) && is_own_directory(above) && is_own_directory(path);
    return path;
}

/* Returns false if there is no store, or memory is short. */
static bool find_folder(Store *store, const uint8_t identity[PYLAYER_DIGEST_BYTES])
{
    Stored *stored = &store->stored;
    char root[PATH_BYTES], name[DIGEST_NAME_BYTES];
    bool system_is_own = false;
    digest_name(name, identity, "");
    memcpy(stored->identity, identity, sizeof stored->identity);
    free(stored->directory); /* of the attempt before policy looked into the folder */
    free(stored->system);
    system_store_path(root);
    stored->system = folder_in(root, name, &system_is_own);
    if (stored->system && !system_is_own) {
        free(stored->system);
        stored->system = NULL;
    }
    store_path(root, "");
    stored->directory = folder_in(root, name, &stored->own);
    if (!stored->directory)
        return false;
    live_outside(root, name, stored->outside);
    store->kept.marker_outside |= !stored->own; /* nothing is written there */
    return true;
}

/* ---- what is decided -------------------------------------------------------------------------------- */

/* Switches the layer off if the decision says so. */
static void obey_off(Device *device)
{
    Store *store = &device->store;
    atomic_store(&store->undecided, store->kept.undecided);
    if (!store->kept.off_by || !mode_keeps(atomic_load(&device->run.mode)))
        return;
    store->found.off = store->kept.off_by;
    atomic_store(&device->run.mode, PYLAYER_MODE_OFF);
    log_line(PYLAYER_LOG_WARN, "%s: %s; pylayer rm --all --blocks switches it on again", device->run.info.device_name,
             store->kept.reason);
}

/* Reads the folder and obeys the decision. Returns false if policy must look into the folder first. */
static bool read_folder(Device *device, uint64_t created_ns)
{
    Store *store = &device->store;
    /* Where nothing is stored and all data passes, nothing is marked. */
    bool marks = mode_keeps(atomic_load(&device->run.mode)) || !device->run.plan.report_caches;
    bool fine = index_read_folder(store);
    if (fine)
        obey_off(device);
    /* Without disk space the layer goes on without a crash marker: what is stored is of more use than the next crash's
     * cause. */
    bool read = fine && (!marks || marker_create(&device->crash, store, created_ns) || store->found.reviewed);
    if (read)
        blocks_obey(&device->crash, &store->kept);
    else
        index_forget(&store->stored);
    atomic_store(&store->stored.open, read);
    return read;
}

bool device_open_store(Device *device)
{
    Store *store = &device->store;
    const StoredFound *found = &store->found;
    FileHeader header;
    memcpy(&header, store->kept.header, sizeof header);
    /* Before the folder is read: a death of this run says nothing new about what is decided from now on. */
    uint64_t created_ns = header.created_ns ? header.created_ns : wall_clock_ns();
    bool open = find_folder(store, header.identity) && read_folder(device, created_ns);
    if (found->work)
        atomic_store(&store->wants_work, true);
    device->crash.lost |= index_stored_since(&store->stored, found->ended.last) < found->ended.compiled;
    return open;
}

PylayerDeviceCreated device_state(const Device *device)
{
    PylayerDeviceCreated state = {
        .mode = (uint8_t)atomic_load(&device->run.mode),
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
