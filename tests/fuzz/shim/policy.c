/*
 * policy.c - see fuzz.h. Answers from the input, at once and on the program's thread, and what policy tells the layer to do,
 * with records that are nearly right.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "shim/layer/caches/caches.h"
#include "shim/layer/crash/crash.h"
#include "shim/layer/device/devices.h"
#include "shim/layer/policy/policy.h"

/* The layer looks for a policy file in every vkCreateInstance: an input means the same everywhere. */
__attribute__((constructor)) static void leave_home(void)
{
    static const char *const variables[] = {"HOME",           "PYLAYER_CONFIG", "PYLAYER_STORE",
                                            "XDG_CACHE_HOME", "XDG_DATA_HOME",  "XDG_CONFIG_HOME"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
}

uint64_t policy_device;
bool policy_runs;

bool policy_prepare(void)
{
    return policy_runs;
}

void policy_flush_at_exit(void)
{
}

bool mailbox_is_open(void)
{
    return policy_runs;
}

bool mailbox_has_policy(void)
{
    return true; /* it is always there */
}

bool mailbox_withdraw(uint64_t device, bool at_exit)
{
    return false;
}

void mailbox_close(void)
{
}

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device)
{
    PylayerMessage *message = calloc(1, sizeof *message);
    if (!message)
        abort();
    message->type = type;
    message->device = device;
    return message;
}

void message_done(PylayerMessage *message)
{
    if (!message)
        return;
    free((void *)(uintptr_t)message->data);
    free(message);
}

bool mailbox_post(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes)
{
    if (!message)
        return false;
    const uint8_t *data = message->data;
    uint64_t size = message->size;
    if (data)
        touch(data, size);
    if (message->type == PYLAYER_MSG_CELL && message->cell.unit == PYLAYER_UNIT_BINARIES)
        expect(binary_record_check(data, size), "a record that is none");
    bool accepted = policy_runs && size <= (chance(2) ? 100 : queue_bytes);
    message_done(message);
    return accepted;
}

bool mailbox_post_stored(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes, int64_t timeout_ns)
{
    return mailbox_post(message, needs_policy, queue_bytes);
}

static PylayerPlan make_plan(void)
{
    return (PylayerPlan){
        .mode = (uint8_t)((PYLAYER_MODE_BINARIES + below(4)) % 4),
        .check_caches = !chance(4),
        .strict_caches = chance(4),
        .driver_cache_off = chance(4),
        .check_binaries = !chance(4),
        .tell_creations = true,
        .record_state = chance(2),
        .remember_caches = chance(2),
    };
}

bool mailbox_request(PylayerMessage *message, int64_t timeout_ns)
{
    Device *device;
    if (!message || !policy_runs || chance(1))
        return false;
    switch (message->type) {
    case PYLAYER_MSG_PLAN_DEVICE:
        policy_device = message->device;
        message->plan = make_plan();
        break;
    case PYLAYER_MSG_DEVICE_CREATED: /* without a store that is open, the layer stores nothing */
        device = device_command_begin(message->device);
        if (device) {
            device->store.stored.directory = strdup("/dev/null/none");
            atomic_store(&device->store.stored.open, !chance(2));
            device_command_end(device);
        }
        break;
    case PYLAYER_MSG_ADMIT_CACHE:
        touch(message->cache.header, message->cache.header_size);
        message->verdict = (int32_t)below(5);
        break;
    default:
        break;
    }
    return true;
}

PylayerMessage *mailbox_next(int64_t timeout_ns)
{
    return NULL;
}

int32_t mailbox_answer(PylayerMessage *message)
{
    return -1;
}

void mailbox_release(PylayerMessage *message)
{
}

void decision_describe(PylayerMessage *message)
{
}

bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded)
{
    if (!chance(2))
        return false;
    policy_device = message->device;
    decision->plan = make_plan();
    *unrecorded = chance(2);
    return true;
}

/* ---- what policy has the layer do -------------------------------------------------------------- */

/* The crash marker's file, of the device that is there. */
static int live_file = -1;
static LiveFile *live;

static void watch(Device *device)
{
    if (live_file < 0) {
        live_file = memfd_create("live", MFD_CLOEXEC);
        if (live_file < 0 || ftruncate(live_file, sizeof *live) != 0)
            abort();
        live = mmap(NULL, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, live_file, 0);
        if (live == MAP_FAILED)
            abort();
    }
    if (!atomic_load(&device->crash.live))
        marker_map(&device->crash, live_file);
}

void policy_forgets_device(void)
{
    if (live_file < 0)
        return;
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++)
        expect(live->marks[i].call == PYLAYER_MARK_NONE, "marked as in the driver's hands, and the device is gone");
    munmap(live, sizeof *live);
    close(live_file);
    live_file = -1;
}

/* It must not change while it is obeyed. */
static PylayerDecision *make_decision(void)
{
    PylayerDecision *decision = room(sizeof *decision);
    decision->off_by = chance(1);
    decision->undecided = chance(4);
    decision->calls_off[below(PYLAYER_ADDED_CALLS)] = chance(8) ? take8() : 0;
    decision->blocked_count = below(4);
    for (uint64_t i = 0, last = 0; i < decision->blocked_count; i++)
        decision->blocked[i] = last += 1 + (chance(8) ? take64() >> 4 : take8());
    return decision;
}

typedef struct Records {
    uint8_t *base;
    uint64_t *offsets, *sizes, count;
} Records;

/* Bytes that may be records of binaries: a count and sizes that are nearly right. */
static Records make_records(void)
{
    Records records = {.count = below(11)};
    uint64_t size = 8 * (records.count ? 16 + take8() : 1);
    records.base = room(size);
    uint64_t filled = chance(8) ? size : size / 2;
    for (uint64_t i = 0; i < filled; i++)
        records.base[i] = chance(6) ? take8() : 0;
    records.offsets = room((records.count + 1) * sizeof *records.offsets);
    records.sizes = room((records.count + 1) * sizeof *records.sizes);
    for (uint64_t i = 0; i < records.count; i++) {
        records.offsets[i] = (take32() % size) & ~7ull;
        records.sizes[i] = (size - records.offsets[i]) & ~(uint64_t)(chance(8) * 15);
        BinaryRecord *record = (BinaryRecord *)(void *)(records.base + records.offsets[i]);
        if (records.sizes[i] < sizeof *record + sizeof record->entries[0] + 16 || chance(4))
            continue;
        record->count = chance(14) ? 1 : take32();
        record->key_size = chance(14) ? 1 + below(32) : take32();
        record->entries[0].key_size = chance(14) ? 1 + below(32) : take32();
        record->entries[0].size = records.sizes[i] - sizeof *record - sizeof record->entries[0] - (chance(14) ? 0 : 1);
    }
    return records;
}

/* What the layer does with stored data and a decision, which it reads from files. */
static void stored(Device *device)
{
    Records records;
    switch (below(4)) {
    case 0:
        records = make_records();
        for (uint64_t i = 0; device->caches.merged != VK_NULL_HANDLE && i < records.count; i++)
            cells_merge_record(&device->caches, NULL,
                               &(StoredRecord){.header.size = records.sizes[i],
                                               .cache = records.base + records.offsets[i],
                                               .cache_size = records.sizes[i]});
        break;
    case 1:
        records = make_records();
        for (uint64_t i = 0; device->binaries.enabled && i < records.count; i++) {
            const BinaryRecord *record = binary_record_check(records.base + records.offsets[i], records.sizes[i]);
            BinaryEntry *entry = record ? binary_record_create(&device->driver, record) : NULL;
            if (entry)
                binaries_add(&device->binaries, entry, records.sizes[i]);
        }
        break;
    case 2:
        watch(device);
        break;
    default:
        blocks_obey(&device->crash, make_decision());
        break;
    }
}

void command_of_policy(void)
{
    const PylayerShim *shim = &shim_commands;
    uint64_t serial = chance(15) ? policy_device : take8();
    PylayerCounters *counters;
    uint64_t capacity;
    Device *device;
    switch (below(6)) {
    case 0:
    case 1:
        device = device_command_begin(serial);
        if (device) {
            stored(device);
            device_command_end(device);
        }
        break;
    case 2:
        shim->open_store(serial, make_decision(), room(sizeof(PylayerDeviceCreated)));
        break;
    case 3:
        shim->switch_off(serial);
        break;
    case 4:
        counters = room(sizeof *counters);
        shim->counters(serial, counters);
        break;
    default:
        capacity = below(9);
        shim->fingerprints(serial, room((capacity + 1) * sizeof(uint64_t)), capacity);
        break;
    }
}
