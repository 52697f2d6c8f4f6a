/* stored.c - see stored.h */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "caches/cells.h"
#include "crash/sentinel_file.h"
#include "device/counters.h"
#include "store/patient_read.h"
#include "process/trusted.h"
#include "store/store_index.h"
#include "store/stored.h"

/* Bytes read at once, from the record that is wanted: pipelines that were stored together are created together. More
 * where a merge would otherwise get few records, because nobody looks into the cache meanwhile: NVIDIA's have 21 KB, and
 * with 64 KiB 8 threads take 1.14 times as long as with their own blob, with 256 KiB 0.95 (H100, 85 rounds). */
#define FETCH_BYTES (64u << 10)
#define FETCH_BYTES_MOST (256u << 10)
/* Most of RADV's records are smaller; others need a second read. */
#define RECORD_BYTES (8u << 10)
/* The thread that gives a record to the driver needs a few of these. Waking a sleeping thread takes 50 us and more. */
#define SPIN_NS 200000

#define GIVING 1
#define GIVEN 2

void stored_init(Device *device)
{
    Stored *stored = &device->stored;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stored->given, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&stored->mutex, NULL);
}

void stored_free(Device *device)
{
    Stored *stored = &device->stored;
    index_forget(stored);
    free(stored->directory);
    free(atomic_load(&stored->buffer));
    number_map_free(&stored->places);
    pthread_cond_destroy(&stored->given);
    pthread_mutex_destroy(&stored->mutex);
}

bool stored_open(Device *device, const FileHeader *header, bool every_program, bool sentinel_outside,
                 StoredFound *found)
{
    Stored *stored = &device->stored;
    char root[PATH_BYTES], above[PATH_BYTES + 8], name[DIGEST_HEX_BYTES];
    store_root_path(root);
    snprintf(above, sizeof above, "%s/store", root);
    digest_hex(name, header->identity);
    memcpy(stored->identity, header->identity, sizeof stored->identity);
    stored->program = header->program;
    stored->every_program = every_program;
    if (!*root || asprintf(&stored->directory, "%s/%s", above, name) < 0) {
        stored->directory = NULL;
        return false;
    }
    bool read = is_own_directory(above) && is_own_directory(stored->directory) && index_read_folder(device, found) &&
                !sentinels_outside_may_be_dead(stored->directory) &&
                sentinel_create(device, stored->directory, *header, sentinel_outside);
    if (!read)
        index_forget(stored);
    atomic_store(&stored->open, read);
    return read;
}

/* ---- giving records to the driver -------------------------------------------------------------- */

typedef struct Chunk {
    uint8_t *data;
    size_t size;
    uint32_t file;
    uint64_t offset; /* of the data in its file */
    uint64_t salt;
    bool large; /* longer than FETCH_BYTES_MOST */
} Chunk;

static void release_chunk(Stored *stored, Chunk *chunk)
{
    if (!chunk->large)
        chunk->data = atomic_exchange(&stored->buffer, chunk->data);
    free(chunk->data);
}

/* Returns how many bytes the record at the chunk's beginning takes, if its header is whole, and otherwise the header's
 * own size. */
static size_t bytes_of_first(const Chunk *chunk, uint64_t left)
{
    RecordHeader header;
    if (chunk->size < sizeof header)
        return sizeof header;
    memcpy(&header, chunk->data, sizeof header);
    bool whole = record_header_is_whole(&header, chunk->salt) && header.size + sizeof header <= left;
    return whole ? header.size + sizeof header : sizeof header;
}

/* Reads `size` bytes from a record on, or that record, if it is whole and longer. */
static enum ReadResult read_chunk(Device *device, const char *name, Chunk *chunk, size_t size, uint64_t *give_up)
{
    Stored *stored = &device->stored;
    struct stat status;
    int fd = open_in_store(stored->directory, name);
    if (fd < 0)
        return READ_GONE;
    chunk->data = atomic_exchange(&stored->buffer, NULL);
    if (!chunk->data)
        chunk->data = malloc(FETCH_BYTES_MOST);
    bool there =
        chunk->data && fstat(fd, &status) == 0 && (uint64_t)status.st_size >= chunk->offset + sizeof(RecordHeader);
    uint64_t left = there ? (uint64_t)status.st_size - chunk->offset : 0;
    enum ReadResult result =
        there ? patient_read(device, fd, chunk->data, size, chunk->offset, sizeof(RecordHeader), give_up, &chunk->size)
              : READ_FAILED;
    size_t needed = result == READ_DONE ? bytes_of_first(chunk, left) : 0;
    if (needed > FETCH_BYTES_MOST) {
        free(chunk->data);
        chunk->data = malloc(needed);
        chunk->large = true;
    }
    if (chunk->size < needed)
        result = chunk->data
                     ? patient_read(device, fd, chunk->data, needed, chunk->offset, needed, give_up, &chunk->size)
                     : READ_LATE;
    close(fd);
    return result;
}

/* Whole cells of a chunk, as cells_merge_records takes them. */
typedef struct Slice {
    uint32_t count;
    Place places[CELLS_MERGED_AT_ONCE];
    uint64_t offsets[CELLS_MERGED_AT_ONCE], sizes[CELLS_MERGED_AT_ONCE], fingerprints[CELLS_MERGED_AT_ONCE];
    uint64_t compile_ns;
    uint8_t digests[CELLS_MERGED_AT_ONCE * PYLAYER_DIGEST_BYTES];
} Slice;

static bool whole_record_at(const Chunk *chunk, uint64_t at, RecordHeader *header)
{
    if (at + sizeof *header > chunk->size)
        return false;
    memcpy(header, chunk->data + at, sizeof *header);
    return record_header_is_whole(header, chunk->salt) && header->size <= chunk->size - at - sizeof *header &&
           record_data_is_whole(header, chunk->data + at + sizeof *header);
}

static void note_given(Device *device, const Place *places, uint32_t count)
{
    Stored *stored = &device->stored;
    pthread_mutex_lock(&stored->mutex);
    for (uint32_t i = 0; i < count; i++)
        number_map_put(&stored->places, places[i], GIVEN);
    pthread_cond_broadcast(&stored->given);
    pthread_mutex_unlock(&stored->mutex);
}

/* Takes the record at *at and those behind it that nobody else has taken. mine: the caller has taken the first. Returns
 * false if no more follow. */
static bool take_slice(Device *device, const Chunk *chunk, uint64_t *at, bool mine, Slice *slice)
{
    Stored *stored = &device->stored;
    slice->count = 0;
    slice->compile_ns = 0;
    while (slice->count < CELLS_MERGED_AT_ONCE) {
        RecordHeader header;
        if (!whole_record_at(chunk, *at, &header))
            return false;
        Place place = place_of(chunk->file, chunk->offset + *at);
        bool cell = record_is(&header, "CELL");
        if (cell && !mine) {
            pthread_mutex_lock(&stored->mutex);
            bool taken = number_map_find(&stored->places, place) || !number_map_put(&stored->places, place, GIVING);
            pthread_mutex_unlock(&stored->mutex);
            if (taken)
                return false;
        }
        /* A fold that was cut short leaves records in two files. */
        bool twice = cell && cells_given_ns(device, header.digest) != 0;
        if (twice)
            note_given(device, &place, 1);
        mine = false;
        if (cell && !twice) {
            uint32_t i = slice->count++;
            slice->places[i] = place;
            slice->offsets[i] = *at + sizeof header;
            slice->sizes[i] = header.size;
            slice->fingerprints[i] = header.fingerprint;
            slice->compile_ns += header.flags & RECORD_ADOPTED ? 0 : header.create_ns;
            memcpy(slice->digests + i * PYLAYER_DIGEST_BYTES, header.digest, PYLAYER_DIGEST_BYTES);
            if (record_is_recent(&header))
                fingerprints_note(device, header.fingerprint, SEEN_TOLD);
        }
        *at += record_space(header.size);
    }
    return true;
}

static void give_slice(Device *device, const Chunk *chunk, const Slice *slice)
{
    PylayerCounters *totals = &counters_of(device)->totals;
    atomic_store(&device->holds_stored, true);
    uint64_t taken =
        cells_merge_records(device, chunk->data, slice->offsets, slice->sizes, slice->digests, slice->count);
    for (uint32_t i = 0; i < slice->count; i++) {
        fingerprints_note_merged(device, slice->fingerprints[i]);
        count(&totals->fetched_bytes, slice->sizes[i]);
    }
    if (taken < slice->count)
        loading_refused(device, slice->count - taken);
    count(&totals->fetched, taken);
    count(&totals->fetched_compile_ns, slice->compile_ns);
    atomic_store_explicit(&device->stored.record_bytes, sizeof(RecordHeader) + slice->sizes[0], memory_order_relaxed);
    note_given(device, slice->places, slice->count);
}

/* By the last record that was read. */
static size_t fetch_bytes(Stored *stored)
{
    uint64_t slice = CELLS_MERGED_AT_ONCE * atomic_load_explicit(&stored->record_bytes, memory_order_relaxed);
    return slice < FETCH_BYTES ? FETCH_BYTES : slice < FETCH_BYTES_MOST ? (size_t)slice : FETCH_BYTES_MOST;
}

static Chunk chunk_at(Stored *stored, Place place, char name[PYLAYER_STORE_NAME_BYTES])
{
    Chunk chunk = {.file = (uint32_t)(place >> PLACE_OFFSET_BITS) - 1,
                   .offset = place & ((1ull << PLACE_OFFSET_BITS) - 1)};
    pthread_mutex_lock(&stored->mutex);
    chunk.salt = stored->files[chunk.file].salt;
    memcpy(name, stored->files[chunk.file].name, PYLAYER_STORE_NAME_BYTES);
    pthread_mutex_unlock(&stored->mutex);
    return chunk;
}

/* Nobody has the record: a later pipeline may take it. */
static void note_late(Stored *stored, Place place)
{
    pthread_mutex_lock(&stored->mutex);
    number_map_remove(&stored->places, place);
    pthread_cond_broadcast(&stored->given);
    pthread_mutex_unlock(&stored->mutex);
}

/* Gives the record at a place, which the caller has taken, and those behind it. */
static enum ReadResult give_from(Device *device, Place place, uint64_t *give_up)
{
    Stored *stored = &device->stored;
    char name[PYLAYER_STORE_NAME_BYTES];
    uint64_t start = now_ns();
    Chunk chunk = chunk_at(stored, place, name);
    enum ReadResult result = read_chunk(device, name, &chunk, fetch_bytes(stored), give_up);
    if (result == READ_GONE)
        index_forget_file(stored, chunk.file);
    uint64_t at = 0;
    bool first = true, more = result == READ_DONE;
    while (more) {
        Slice slice;
        more = take_slice(device, &chunk, &at, first, &slice);
        if (slice.count > 0)
            give_slice(device, &chunk, &slice);
        first = false;
    }
    if (at == 0 && result <= READ_FAILED)
        index_tell_damage(device, chunk.file);
    if (result == READ_LATE)
        note_late(stored, place);
    else
        note_given(device, &place, 1); /* also if it did not verify, so that nobody waits for it or reads it again */
    release_chunk(stored, &chunk);
    count(&counters_of(device)->totals.fetch_ns, now_ns() - start);
    return result;
}

/* Waits until another thread has given a record. Releases the mutex meanwhile; the caller holds it. */
static void await_given_locked(Device *device, Place place)
{
    Stored *stored = &device->stored;
    uint64_t begin = now_ns();
    struct timespec deadline = deadline_at(begin + (uint64_t)device->plan.load_wait_ns);
    int waited = 0;
    while (waited != ETIMEDOUT && number_map_find(&stored->places, place) == GIVING) {
        if (now_ns() - begin > SPIN_NS) {
            waited = pthread_cond_timedwait(&stored->given, &stored->mutex, &deadline);
        } else {
            pthread_mutex_unlock(&stored->mutex);
            sched_yield();
            pthread_mutex_lock(&stored->mutex);
        }
    }
}

/* Gives a record, unless somebody else does. */
static enum ReadResult give(Device *device, Place place, uint64_t *give_up)
{
    Stored *stored = &device->stored;
    pthread_mutex_lock(&stored->mutex);
    uint64_t state = number_map_find(&stored->places, place);
    if (state == GIVING)
        await_given_locked(device, place);
    bool mine = !state && number_map_put(&stored->places, place, GIVING);
    pthread_mutex_unlock(&stored->mutex);
    return mine ? give_from(device, place, give_up) : READ_DONE;
}

/* Returns the worst of what became of the records. */
static enum ReadResult give_all(Device *device, uint64_t fingerprint, uint64_t *give_up)
{
    Places found = {0};
    enum ReadResult worst = index_look_up(device, fingerprint, &found, give_up);
    for (size_t i = 0; i < found.count && worst != READ_LATE; i++) {
        enum ReadResult result = give(device, found.places[i], give_up);
        worst = result > worst ? result : worst;
    }
    free(found.places);
    return worst;
}

/* Returns false if the layer's cache probably holds no pipeline of which this is known. */
static bool may_be_merged(Device *device, uint64_t fingerprint, unsigned known)
{
    return !fingerprint || known & SEEN_MERGED ||
           atomic_load_explicit(&device->seen.merged_unknown, memory_order_relaxed);
}

bool stored_fetch(Device *device, uint64_t fingerprint)
{
    Stored *stored = &device->stored;
    unsigned known = fingerprint ? fingerprint_known(device, fingerprint) : 0;
    bool fetched = fingerprint ? known & SEEN_FETCHED : atomic_load(&stored->unnamed_fetched);
    if (fetched || !atomic_load_explicit(&stored->open, memory_order_relaxed))
        return may_be_merged(device, fingerprint, known);
    uint64_t give_up = 0;
    enum ReadResult result = give_all(device, fingerprint, &give_up);
    if (result == READ_GONE) {
        StoredFound found = {0};
        pthread_mutex_lock(&stored->mutex);
        index_read_folder(device, &found);
        pthread_mutex_unlock(&stored->mutex);
        result = give_all(device, fingerprint, &give_up);
    }
    if (result == READ_LATE)
        return may_be_merged(device, fingerprint, known);
    if (fingerprint)
        known = fingerprints_note(device, fingerprint, SEEN_FETCHED);
    else
        atomic_store(&stored->unnamed_fetched, true);
    return may_be_merged(device, fingerprint, known);
}

static bool give_one(Device *device, AppCache *app_cache, Place place)
{
    char name[PYLAYER_STORE_NAME_BYTES];
    Chunk chunk = chunk_at(&device->stored, place, name);
    RecordHeader header;
    uint64_t give_up = 0;
    bool given = read_chunk(device, name, &chunk, RECORD_BYTES, &give_up) == READ_DONE &&
                 whole_record_at(&chunk, 0, &header) && record_is(&header, "CELL") &&
                 cells_give(device, app_cache, chunk.data + sizeof header, header.size, header.digest);
    release_chunk(&device->stored, &chunk);
    return given;
}

bool stored_give_to(Device *device, AppCache *app_cache, uint64_t fingerprint)
{
    Stored *stored = &device->stored;
    if (!atomic_load_explicit(&stored->open, memory_order_relaxed) || !fingerprint)
        return false;
    Places found = {0};
    uint64_t give_up = 0;
    index_look_up(device, fingerprint, &found, &give_up);
    bool given = false;
    for (size_t i = 0; i < found.count; i++)
        given |= give_one(device, app_cache, found.places[i]);
    free(found.places);
    return given;
}
