/* stored_binaries.c - puts the stored pipeline binaries of a device into memory. A key says nothing about where the
 * pipeline is stored, so all are read. */

#include "binaries/binaries.h"

typedef struct Taking {
    Binaries *binaries;
    uint64_t bytes; /* of the records that verify */
    bool foreign;   /* a record is of another global key */
} Taking;

static void take_record(void *to, const RecordHeader *record, const uint8_t *data)
{
    Taking *taking = to;
    Binaries *binaries = taking->binaries;
    PylayerCounters *totals = &counters_of(binaries->run)->totals;
    taking->bytes += record_space(record->size);
    if (!record_is(record, "BINR") || blocks_record(binaries->crash, record, NULL, 0))
        return;
    const BinaryRecord *of = binary_record_check(data, record->size);
    taking->foreign |= of && of->global_key != atomic_load(&binaries->global_key);
    if (!binary_index_load(binaries, data, record->size))
        return;
    atomic_store(&binaries->crash->holds_stored, true);
    count(&totals->fetched, 1);
    count(&totals->fetched_bytes, record->size);
    count(&totals->fetched_compile_ns, record->create_ns);
}

void stored_binaries_read(Binaries *binaries, Store *store)
{
    Stored *stored = &store->stored;
    Taking taking = {.binaries = binaries};
    /* The oldest file comes first: of two records under one key, the index finds the one that was added last. */
    for (uint32_t i = 0; i < stored->file_count; i++) {
        const StoredFile *file = &stored->files[i];
        taking.bytes = 0;
        folder_records(file->system ? stored->system : stored->directory, file->name, stored->identity,
                       file->has_table ? "PACK" : "JRNL", 1u << 30 /* no import is larger */, take_record, &taking);
        if (taking.bytes + sizeof(FileHeader) < file->size)
            index_tell_damage(store, i, READ_FAILED);
    }
    /* The global key of ANV 26.1.6 differs in each process: binaries would be stored in each run and never found. */
    for (unsigned kind = 0; taking.foreign && binaries->index_bytes == 0 && kind < PYLAYER_KIND_COUNT; kind++)
        call_switch_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, kind);
}
