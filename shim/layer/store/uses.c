/* uses.c - see uses.h. A closed journal with one USED record, as policy writes it (docs/internals/format.md). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/counters.h"
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
static bool make_head(UsesHead *head, const Store *store, const uint64_t *fingerprints, uint64_t count,
                      char name[PYLAYER_STORE_NAME_BYTES])
{
    memcpy(&head->file, store->kept.header, sizeof head->file);
    memcpy(head->file.kind, "JRNL", sizeof head->file.kind);
    head->file.program = store->stored.program;
    if (!own_file_describe(store->run, &head->file, ".closed", name))
        return false;
    memcpy(head->record.magic, "USED", sizeof head->record.magic);
    head->record.size = count * sizeof *fingerprints;
    head->record.last_used = head->file.created_ns / 1000000000;
    digest128(fingerprints, head->record.size, head->record.digest);
    record_header_seal(&head->record, head->file.salt);
    return true;
}

/* `journal`: malloc'd, with room for the head before the fingerprints. */
static void write_journal(const Store *store, uint8_t *journal, uint64_t count)
{
    char name[PYLAYER_STORE_NAME_BYTES];
    UsesHead head = {0};
    if (!make_head(&head, store, (const uint64_t *)(void *)(journal + sizeof head), count, name)) {
        free(journal);
        return;
    }
    memcpy(journal, &head, sizeof head);
    /* Without disk space the end is missing. Then only the order of eviction suffers. */
    own_file_write(store->stored.directory, name, journal, sizeof head.file + record_space(head.record.size));
}

void uses_write(Store *store)
{
    PylayerCounters totals;
    counters_add_up(store->run->counters, &totals);
    uint64_t count = fingerprints_read(&store->run->seen, NULL, 0);
    bool is_new = totals.pipelines > 0 && (count > 0 || !store->used_recently);
    if (!is_new || !atomic_load(&store->stored.open) || store->kept.sentinel_outside)
        return;
    uint8_t *journal = calloc(1, sizeof(UsesHead) + (count + 1) * sizeof(uint64_t));
    if (!journal)
        return;
    uint64_t *fingerprints = (uint64_t *)(void *)(journal + sizeof(UsesHead));
    uint64_t found = fingerprints_read(&store->run->seen, fingerprints, count);
    write_journal(store, journal, found < count ? found : count);
}
