/* commands.c - the functions of PylayerShim, which policy calls on the policy thread. */
#include "mailbox/mailbox.h"
#include "device/devices.h"
#include "frames/frames.h"
#include "policy/policy.h"
#include "process/program_name.h"

static int32_t open_store(uint64_t serial, const PylayerDecision *decision, PylayerDeviceCreated *out)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    bool may = !atomic_load(&device->store.stored.open);
    if (may) {
        device->store.found = (StoredFound){.reviewed = true};
        device->store.kept = *decision;
        device_open_store(device);
    }
    *out = device_state(device);
    device_command_end(device);
    return may ? 0 : -1;
}

static int32_t switch_off(uint64_t serial)
{
    Device *device = device_command_begin(serial);
    if (device)
        atomic_store(&device->run.mode, PYLAYER_MODE_OFF);
    device_command_end(device);
    return device ? 0 : -1;
}

static int32_t read_counters(uint64_t serial, PylayerCounters *out)
{
    Device *device = device_command_begin(serial);
    bool ended = !device || atomic_load(&device->run.written); /* the layer has written the run's statistics */
    if (device)
        counters_add_up(device->run.counters, out);
    device_command_end(device);
    return ended ? -1 : 0;
}

static int64_t take_frames(uint64_t serial, PylayerFrame *out, uint64_t capacity, uint64_t *lost)
{
    Device *device = device_command_begin(serial);
    int64_t taken = device ? (int64_t)frames_take(&device->run, out, capacity, lost) : -1;
    device_command_end(device);
    return taken;
}

static int64_t fingerprints(uint64_t serial, uint64_t *out, uint64_t capacity)
{
    Device *device = device_command_begin(serial);
    int64_t seen = device ? (int64_t)fingerprints_read(&device->run.seen, out, capacity) : -1;
    device_command_end(device);
    return seen;
}

static int64_t join_cells(uint64_t serial, const uint8_t *cells, const uint64_t *sizes, uint32_t cell_count,
                          uint8_t *out, uint64_t capacity)
{
    Device *device = device_command_begin(serial);
    int64_t size = device ? (int64_t)cells_join(&device->caches, cells, sizes, cell_count, out, capacity) : -1;
    device_command_end(device);
    return size;
}

static void write_log(int32_t level, const char *text)
{
    log_line((enum PylayerLogLevel)level, "%s", text);
}

const PylayerShim shim_commands = {
    .boundary_version = PYLAYER_BOUNDARY_VERSION,
    .next = mailbox_next,
    .answer = mailbox_answer,
    .release = mailbox_release,
    .open_store = open_store,
    .switch_off = switch_off,
    .counters = read_counters,
    .frames = take_frames,
    .fingerprints = fingerprints,
    .join_cells = join_cells,
    .executable = executable_name,
    .log_wanted = log_enabled,
    .log = write_log,
    .is_open = mailbox_is_open,
};
