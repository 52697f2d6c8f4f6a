/* stored_binaries.c - puts the stored pipeline binaries of a device into memory. A key says nothing about where the
 * pipeline is stored, so all are read. */
#include <stdlib.h>
#include <string.h>

#include "binaries/binaries.h"

static void take_record(void *to, const RecordHeader *record, const uint8_t *data)
{
    Binaries *binaries = to;
    PylayerCounters *totals = &counters_of(binaries->run)->totals;
    if (!record_is(record, "BINR") || suspects_find_record(binaries->crash, record->digest) ||
        (record->fingerprint && suspects_find(binaries->crash, record->fingerprint, PYLAYER_KIND_COMPUTE)) ||
        !binary_index_load(binaries, data, record->size))
        return;
    atomic_store(&binaries->crash->holds_stored, true);
    count(&totals->fetched, 1);
    count(&totals->fetched_bytes, record->size);
    count(&totals->fetched_compile_ns, record->create_ns);
}

/* By the time at which it was made, which a name has behind the program's number. */
static int by_time(const void *left, const void *right)
{
    const StoredFile *const *a = left, *const *b = right;
    return strcmp((*a)->name + PROGRAM_PREFIX_BYTES - 1, (*b)->name + PROGRAM_PREFIX_BYTES - 1);
}

void stored_binaries_read(Binaries *binaries, const Store *store)
{
    const Stored *stored = &store->stored;
    const StoredFile **files = calloc(stored->file_count + 1, sizeof(StoredFile *));
    for (uint32_t i = 0; files && i < stored->file_count; i++)
        files[i] = &stored->files[i];
    if (files) /* of two records under one key, the index finds the one that was added last */
        qsort(files, stored->file_count, sizeof(StoredFile *), by_time);
    for (uint32_t i = 0; files && i < stored->file_count; i++) {
        const StoredFile *file = files[i];
        folder_records(file->system ? stored->system : stored->directory, file->name, stored->identity,
                       name_ends(file->name, ".pack") ? "PACK" : "JRNL", BINARIES_BYTES, take_record, binaries);
    }
    free(files);
}
