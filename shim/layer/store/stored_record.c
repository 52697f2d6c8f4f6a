/* stored_record.c - see store.h */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"

enum ReadResult record_read(int fd, uint64_t salt, uint64_t offset, RecordHeader *header, uint8_t **data)
{
    *data = NULL;
    if (!store_read_at(fd, header, sizeof *header, offset) || !record_header_is_whole(header, salt))
        return READ_FAILED;
    *data = malloc(header->size + 1);
    if (!*data)
        return READ_LATE;
    bool whole = store_read_at(fd, *data, header->size, offset + sizeof *header) && record_data_is_whole(header, *data);
    return whole ? READ_DONE : READ_FAILED;
}

/* Fills in the cells of a record. Returns false if nothing writes such a record. */
static bool describe(StoredRecord *record)
{
    const RecordHeader *header = &record->header;
    record->cache = record->data;
    record->cache_size = header->size;
    if (record_is(header, "CELL")) {
        record->alone.fingerprint = header->fingerprint;
        record->cells = &record->alone;
        record->cell_count = 1;
        return true;
    }
    if (!record_is(header, "CHNK"))
        return true;
    ChunkHead head = {0};
    if (header->size >= sizeof head)
        memcpy(&head, record->data, sizeof head);
    uint64_t first = sizeof head + head.cell_count * sizeof(ChunkCell);
    if (head.cell_count == 0 || head.cell_count > STORE_CHUNK_CELLS || first >= header->size)
        return false;
    record->cells = (const ChunkCell *)(const void *)(record->data + sizeof head);
    record->cell_count = head.cell_count;
    record->cache += first;
    record->cache_size -= first;
    return true;
}

enum ReadResult stored_record_read(Store *store, Place place, StoredRecord *out)
{
    Stored *stored = &store->stored;
    uint64_t size;
    *out = (StoredRecord){.file = place_file(place)};
    pthread_mutex_lock(&stored->mutex);
    StoredFile file = stored->files[out->file];
    pthread_mutex_unlock(&stored->mutex);
    int fd = reopen_in_store(file.system ? stored->system : stored->directory, file.name, file.number, &size);
    if (fd < 0) {
        if (errno != ENOENT)
            return open_may_succeed_later(errno) ? READ_LATE : READ_REFUSED;
        index_forget_file(stored, out->file);
        return READ_GONE;
    }
    enum ReadResult result = record_read(fd, file.salt, place_offset(place), &out->header, &out->data);
    close(fd);
    return result == READ_DONE && !describe(out) ? READ_FAILED : result;
}
