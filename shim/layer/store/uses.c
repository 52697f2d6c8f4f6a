/* uses.c - see uses.h. A closed journal with one USED record, as policy writes it (docs/internals/format.md). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/counters.h"
#include "device/device.h"
#include "process/trusted.h"
#include "store/own_file.h"
#include "store/store_format.h"
#include "store/uses.h"

typedef struct UsesHead {
    FileHeader file;
    RecordHeader record;
} UsesHead;
_Static_assert(sizeof(UsesHead) == sizeof(FileHeader) + sizeof(RecordHeader), "no gap");

/* Fills in both headers and the file's name. */
static bool make_head(UsesHead *head, const Device *device, const uint64_t *fingerprints, uint64_t count,
                      char name[PYLAYER_STORE_NAME_BYTES])
{
    memcpy(&head->file, device->kept.header, sizeof head->file);
    memcpy(head->file.kind, "JRNL", sizeof head->file.kind);
    head->file.program = device->stored.program;
    if (!own_file_describe(device, &head->file, ".closed", name))
        return false;
    memcpy(head->record.magic, "USED", sizeof head->record.magic);
    head->record.size = count * sizeof *fingerprints;
    head->record.last_used = head->file.created_ns / 1000000000;
    digest128(fingerprints, head->record.size, head->record.digest);
    record_header_seal(&head->record, head->file.salt);
    return true;
}

/* `journal`: malloc'd, with room for the head before the fingerprints. */
static void write_journal(const Device *device, uint8_t *journal, uint64_t count)
{
    char name[PYLAYER_STORE_NAME_BYTES];
    UsesHead head = {0};
    if (!make_head(&head, device, (const uint64_t *)(void *)(journal + sizeof head), count, name)) {
        free(journal);
        return;
    }
    memcpy(journal, &head, sizeof head);
    /* Without disk space the end is missing. Then only the order of eviction suffers. */
    own_file_write(device->stored.directory, name, journal, sizeof head.file + record_space(head.record.size));
}

void uses_write(Device *device)
{
    PylayerCounters totals;
    counters_add_up(device->counters, &totals);
    uint64_t count = fingerprints_read(device, NULL, 0);
    bool is_new = totals.pipelines > 0 && (count > 0 || !device->used_recently);
    if (!is_new || !atomic_load(&device->stored.open) || device->kept.sentinel_outside)
        return;
    uint8_t *journal = calloc(1, sizeof(UsesHead) + (count + 1) * sizeof(uint64_t));
    if (!journal)
        return;
    uint64_t *fingerprints = (uint64_t *)(void *)(journal + sizeof(UsesHead));
    uint64_t found = fingerprints_read(device, fingerprints, count);
    write_journal(device, journal, found < count ? found : count);
}
