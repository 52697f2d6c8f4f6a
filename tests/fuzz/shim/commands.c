/* commands.c - see fuzz.h. What policy tells the layer to do, with records that are nearly right. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

typedef struct Records {
    uint8_t *base;
    uint64_t *offsets, *sizes, count;
    uint8_t *digests;
} Records;

/* Bytes that may be records of binaries: a count and sizes that are nearly right. */
static Records make_records(void)
{
    Records records = {.count = below(12)};
    uint64_t size = 8 * (records.count ? 16 + take8() : 1);
    records.base = room(size);
    uint64_t filled = chance(8) ? size : size / 2;
    for (uint64_t i = 0; i < filled; i++)
        records.base[i] = chance(6) ? take8() : 0;
    records.offsets = room((records.count + 1) * sizeof *records.offsets);
    records.sizes = room((records.count + 1) * sizeof *records.sizes);
    records.digests = room((records.count + 1) * PYLAYER_DIGEST_BYTES);
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

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The crash sentinel, and suspects among the pipelines that there were. */
static void watch_for_crashes(uint64_t serial)
{
    const PylayerShim *shim = &shim_commands;
    int fd = memfd_create("sentinel", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PYLAYER_LIVE_BYTES) != 0)
        abort();
    shim->watch(serial, fd);
    close(fd);
    uint64_t fingerprints[4];
    int64_t seen = shim->fingerprints(serial, fingerprints, 4);
    if (seen < 0)
        return;
    uint64_t count = seen < 4 ? (uint64_t)seen : 4;
    qsort(fingerprints, count, sizeof *fingerprints, compare);
    shim->suspect(serial, fingerprints, count, 0xff);
}

void command_of_policy(void)
{
    const PylayerShim *shim = &shim_commands;
    uint64_t serial = chance(15) ? policy_device : take8();
    Records records;
    PylayerCounters *counters;
    PylayerAttested *attested;
    uint64_t capacity;
    switch (below(13)) {
    case 0:
        records = make_records();
        shim->load_records(serial, records.base, records.offsets, records.sizes, records.digests, records.count);
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
        attested->data = chance(8) ? room_of_bytes(attested->size) : NULL;
        shim->load_attested(serial, attested, 1);
        break;
    case 4:
        shim->load_begin(serial);
        watch_for_crashes(serial);
        break;
    case 5:
        shim->load_cancel(serial);
        break;
    case 6:
        shim->restorable(serial, take64());
        break;
    case 7:
        shim->make_plain(serial, (int32_t)take8() - 2);
        break;
    case 8:
        shim->stop_adopting(serial, (int32_t)take8() - 2);
        break;
    case 9:
        shim->switch_off(serial);
        break;
    case 10:
        capacity = take8();
        shim->read_merged(serial, chance(8) ? room(capacity + 1) : NULL, capacity);
        break;
    case 11:
        counters = room(sizeof *counters);
        shim->counters(serial, counters);
        break;
    default:
        capacity = below(9);
        shim->fingerprints(serial, room((capacity + 1) * sizeof(uint64_t)), capacity);
        break;
    }
}
