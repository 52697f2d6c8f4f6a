/* commands.c - the functions of PylayerShim, which policy calls on the policy thread. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "mailbox/mailbox.h"
#include "run/run.h"
#include "device/devices.h"
#include "frames/frames.h"
#include "policy/commands.h"
#include "process/process.h"
#include "process/program_name.h"
#include "crash/sentinel.h"
#include "crash/crash.h"

static int64_t load_records(uint64_t serial, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                            const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    int64_t result = loading_take(&device->caches, base, offsets, sizes, digests, fingerprint_array, record_count);
    device_command_end(device);
    return result;
}

static int64_t load_done(uint64_t serial)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    int64_t taken = loading_done(&device->caches);
    device_command_end(device);
    return taken;
}

static int64_t load_binaries(uint64_t serial, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             uint64_t record_count)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    int64_t taken = 0;
    for (uint64_t i = 0; i < record_count; i++)
        taken += binary_index_load(&device->binaries, base + offsets[i], sizes[i]);
    if (taken > 0)
        atomic_store(&device->crash.holds_stored, true);
    device_command_end(device);
    return taken;
}

static int64_t load_attested(uint64_t serial, const PylayerAttested *attested, uint64_t attested_count)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    int64_t taken = 0;
    for (uint64_t i = 0; i < attested_count; i++)
        taken += binary_history_add(&device->binaries, &attested[i]);
    device_command_end(device);
    return taken;
}

static int32_t watch(uint64_t serial, int32_t fd)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    int result = sentinel_open(&device->crash, fd);
    device_command_end(device);
    return result;
}

static int32_t suspect(uint64_t serial, const uint64_t *fingerprint_array, uint64_t fingerprint_count, uint32_t kinds)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    bool set = suspects_set(&device->crash, fingerprint_array, fingerprint_count, kinds);
    device_command_end(device);
    return set ? 0 : -1;
}

static int32_t call_off(uint64_t serial, int32_t call, int32_t kind)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    bool known = call_switch_off(&device->crash.added_calls, (unsigned)call, (unsigned)kind);
    device_command_end(device);
    return known ? 0 : -1;
}

static int32_t switch_off(uint64_t serial)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    atomic_store(&device->run.carrier, PYLAYER_CARRIER_OFF);
    loading_end(&device->caches);
    device_command_end(device);
    return 0;
}

static int32_t read_counters(uint64_t serial, PylayerCounters *out)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    bool ended = atomic_load(&device->run.written); /* the layer has written the run's statistics */
    if (!ended)
        counters_add_up(device->run.counters, out);
    device_command_end(device);
    return ended ? -1 : 0;
}

static int32_t read_activity(uint64_t serial, PylayerActivity *out)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    activity_add_up(device->run.counters, out);
    device_command_end(device);
    return 0;
}

static int64_t take_frames(uint64_t serial, PylayerFrame *out, uint64_t capacity, uint64_t *lost)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    uint64_t taken = frames_take(&device->run, out, capacity, lost);
    device_command_end(device);
    return (int64_t)taken;
}

static int64_t fingerprints(uint64_t serial, uint64_t *out, uint64_t capacity)
{
    Device *device = device_command_begin(serial);
    if (!device)
        return -1;
    uint64_t seen = fingerprints_read(&device->run.seen, out, capacity);
    device_command_end(device);
    return (int64_t)seen;
}

static const char *environment(const char *name)
{
    return environment_get(name);
}

static void write_log(int32_t level, const char *text)
{
    log_line((enum PylayerLogLevel)level, "%s", text);
}

static int32_t log_wanted(int32_t level)
{
    return log_enabled((enum PylayerLogLevel)level);
}

static int32_t is_open(void)
{
    return mailbox_is_open();
}

const PylayerShim shim_commands = {
    .boundary_version = PYLAYER_BOUNDARY_VERSION,
    .next = mailbox_next,
    .answer = mailbox_answer,
    .release = mailbox_release,
    .load_records = load_records,
    .load_done = load_done,
    .load_binaries = load_binaries,
    .load_attested = load_attested,
    .watch = watch,
    .suspect = suspect,
    .call_off = call_off,
    .switch_off = switch_off,
    .counters = read_counters,
    .activity = read_activity,
    .frames = take_frames,
    .fingerprints = fingerprints,
    .executable = executable_name,
    .environment = environment,
    .log_wanted = log_wanted,
    .log = write_log,
    .is_open = is_open,
};
