/* commands.c - see fuzz.h. What policy tells the layer to do, with records that are nearly right. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "shim/layer/policy/commands.h"

/* The crash sentinel's file, of the device that is there. */
static int live_file = -1;
static uint8_t *live;

static void watch(uint64_t serial)
{
    if (live_file < 0) {
        live_file = memfd_create("live", MFD_CLOEXEC);
        if (live_file < 0 || ftruncate(live_file, PYLAYER_LIVE_BYTES) != 0)
            abort();
        live = mmap(NULL, PYLAYER_LIVE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, live_file, 0);
        if (live == MAP_FAILED)
            abort();
    }
    shim_commands.watch(serial, live_file);
}

void policy_forgets_device(void)
{
    if (live_file < 0)
        return;
    const PylayerMark *marks = (const PylayerMark *)(const void *)(live + PYLAYER_MARKS_OFFSET);
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++)
        expect(marks[i].call == PYLAYER_MARK_NONE, "marked as in the driver's hands, and the device is gone");
    munmap(live, PYLAYER_LIVE_BYTES);
    close(live_file);
    live_file = -1;
}

static void suspect(uint64_t serial)
{
    uint64_t count = below(4), last = 0;
    uint64_t *fingerprints = room((count + 1) * sizeof *fingerprints);
    for (uint64_t i = 0; i < count; i++)
        fingerprints[i] = last += 1 + (chance(8) ? take64() >> 4 : take8());
    shim_commands.suspect(serial, fingerprints, count, chance(4) ? take8() : 0);
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

void command_of_policy(void)
{
    const PylayerShim *shim = &shim_commands;
    uint64_t serial = chance(15) ? policy_device : take8();
    Records records;
    PylayerCounters *counters;
    PylayerAttested *attested;
    uint64_t capacity;
    switch (below(11)) {
    case 0:
        records = make_records();
        shim->load_records(serial, records.base, records.offsets, records.sizes,
                           room_of_bytes(records.count * PYLAYER_DIGEST_BYTES),
                           (const uint64_t *)room_of_bytes(records.count * sizeof(uint64_t)), records.count);
        break;
    case 1:
        shim->load_done(serial);
        break;
    case 2:
        records = make_records();
        shim->load_binaries(serial, records.base, records.offsets, records.sizes, records.count);
        break;
    case 3:
        attested = room(sizeof *attested);
        attested->key_size = chance(14) ? 1 + below(32) : take32();
        attested->key[0] = take8();
        attested->stale = chance(6);
        attested->size = take8();
        attested->digest[0] = take8();
        shim->load_attested(serial, attested, 1);
        break;
    case 4:
        shim->call_off(serial, (int32_t)take8() - 2, (int32_t)take8() - 2);
        break;
    case 5:
        shim->call_off(serial, PYLAYER_MARK_PROBE, (int32_t)take8() - 2);
        break;
    case 6:
        shim->switch_off(serial);
        break;
    case 7:
        counters = room(sizeof *counters);
        shim->counters(serial, counters);
        break;
    case 8:
        watch(serial);
        break;
    case 9:
        suspect(serial);
        break;
    default:
        capacity = below(9);
        shim->fingerprints(serial, room((capacity + 1) * sizeof(uint64_t)), capacity);
        break;
    }
}
