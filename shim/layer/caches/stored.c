/* stored.c - see caches.h */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "caches/caches.h"
#include "crash/sentinel.h"
#include "crash/crash.h"
#include "process/process.h"
#include "process/trusted.h"
#include "run/run.h"
#include "store/store.h"

/* What is read at once, from the record that is wanted: pipelines that were stored together are created together. A
 * read for few records means a merge for few, and nobody looks into the cache during a merge. Three records a read, of
 * 21 KB, take 1.15 times as long as the program's own blob with 8 threads, FETCH_RECORDS 0.95 (H100, 85 rounds). */
#define FETCH_BYTES_LEAST (64u << 10)
#define FETCH_BYTES_MOST (256u << 10)
/* A run that has read few records reads fewer at once: one more for each of so many that it has read. A run that creates
 * few of many pipelines then reads few, and one that creates all reads twelve at once after 44. */
#define FETCH_GROWS_AFTER 4
/* The least that is read for one record. */
#define RECORD_BYTES_LEAST (8u << 10)
/* How long a creation waits for a record that another thread is giving to the driver. */
#ifndef GIVEN_WAIT_NS /* shorter in the fuzz targets */
#define GIVEN_WAIT_NS 5000000000ull
#endif
/* The thread that gives a record to the driver needs a few of these. Waking a sleeping thread takes 50 us and more. */
#define SPIN_NS 200000
/* How long one creation gives the driver records without a fingerprint. The next one goes on. */
#define UNNAMED_NS 5000000

#define GIVING 1
#define GIVEN 2

/* Does what the verdicts say. Returns false if the layer is off, or memory is short. */
static bool obey(Caches *caches)
{
    StoredFound *found = &caches->store->found;
    Verdicts *verdicts = &found->verdicts;
    size_t count;
    int carrier = atomic_load(&caches->run->carrier);
    verdicts_settle(verdicts, (uint64_t)time(NULL));
    atomic_store(&caches->store->undecided, verdicts->undecided);
    /* Binaries do not need a VkPipelineCache that keeps something. */
    const VerdictEntry *off = verdicts_off(verdicts, carrier != PYLAYER_CARRIER_BINARIES);
    if (off && carrier_keeps(carrier)) {
        found->off = off->type;
        return false;
    }
    const VerdictEntry *entry = verdicts_of(verdicts, VERDICT_ADDED_CALL, &count);
    for (size_t i = 0; i < count; i++)
        call_switch_off(&caches->crash->added_calls, (unsigned)entry[i].subject, entry[i].kind);
    return cache_history_suspect(caches, verdicts) && suspects_take(caches->crash, verdicts);
}

/* Finds the same folder of the system's store. */
static void find_system(Stored *stored, const char *name)
{
    char root[PATH_BYTES], above[PATH_BYTES + 8];
    system_store_path(root);
    snprintf(above, sizeof above, "%s/store", root);
    if (!*root || asprintf(&stored->system, "%s/%s", above, name) < 0) {
        stored->system = NULL;
    } else if (!(is_own_root(root) && is_own_directory(above) && is_own_directory(stored->system))) {
        free(stored->system);
        stored->system = NULL;
    }
}

bool stored_open(Caches *caches, const FileHeader *header)
{
    Stored *stored = &caches->store->stored;
    PylayerKept *kept = &caches->store->kept;
    char root[PATH_BYTES], above[PATH_BYTES + 8], name[DIGEST_HEX_BYTES];
    store_root_path(root);
    snprintf(above, sizeof above, "%s/store", root);
    digest_hex(name, header->identity);
    memcpy(stored->identity, header->identity, sizeof stored->identity);
    stored->program = header->program;
    stored->every_program = kept->reads_all;
    free(stored->directory); /* of the attempt before policy looked into the folder */
    free(stored->system);
    stored->system = NULL;
    if (!*root || asprintf(&stored->directory, "%s/%s", above, name) < 0) {
        stored->directory = NULL;
        return false;
    }
    find_system(stored, name);
    live_outside_name(root, name, stored->outside);
    stored->own = is_own_root(root) && is_own_directory(above) && is_own_directory(stored->directory);
    kept->sentinel_outside |= !stored->own; /* nothing is written there */
    /* Without disk space the layer goes on without a sentinel: what is stored is of more use than the next crash's cause. */
    bool read = index_read_folder(caches->store) && obey(caches) &&
                (sentinel_create(caches->crash, caches->store, stored->directory, *header, kept->sentinel_outside) ||
                 caches->store->found.reviewed);
    if (!read)
        index_forget(stored);
    atomic_store(&stored->open, read);
    return read;
}

/* ---- giving records to the driver -------------------------------------------------------------- */

typedef struct Chunk {
    uint8_t *data;
    size_t size, wanted;
    uint32_t most;   /* records that are given of it */
    StoredFile file; /* a copy */
    uint32_t number; /* of the file */
    uint64_t offset; /* of the data in it */
    bool large;      /* longer than FETCH_BYTES_MOST */
    bool damaged;    /* a record did not verify */
} Chunk;

/* Returns the bytes that so many records take on average, within limits. */
static size_t bytes_of(const StoredFile *file, uint64_t records, size_t least)
{
    uint64_t bytes = file->entry_count ? file->size / file->entry_count * records : 0;
    return bytes < least ? least : bytes < FETCH_BYTES_MOST ? bytes : FETCH_BYTES_MOST;
}

static size_t fetch_bytes(const StoredFile *file)
{
    return bytes_of(file, FETCH_RECORDS, FETCH_BYTES_LEAST);
}

/* Half as much again as these records take on average: most need no second read. */
static size_t record_bytes(const StoredFile *file, uint32_t records)
{
    return bytes_of(file, (records * 3 + 1) / 2, RECORD_BYTES_LEAST);
}

static Chunk chunk_at(Stored *stored, Place place)
{
    Chunk chunk = {.number = (uint32_t)(place >> PLACE_OFFSET_BITS) - 1,
                   .offset = place & ((1ull << PLACE_OFFSET_BITS) - 1)};
    pthread_mutex_lock(&stored->mutex);
    chunk.file = stored->files[chunk.number];
    size_t most = 1 + stored->places.used / FETCH_GROWS_AFTER;
    pthread_mutex_unlock(&stored->mutex);
    chunk.most = most < FETCH_RECORDS ? (uint32_t)most : UINT32_MAX;
    chunk.wanted = most < FETCH_RECORDS ? record_bytes(&chunk.file, chunk.most) : fetch_bytes(&chunk.file);
    return chunk;
}

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
    bool whole = record_header_is_whole(&header, chunk->file.salt) && header.size + sizeof header <= left;
    return whole ? header.size + sizeof header : sizeof header;
}

/* Reads from a record on as many bytes as are wanted, or that record, if it is whole and longer. */
static enum ReadResult read_chunk(Caches *caches, Chunk *chunk)
{
    Stored *stored = &caches->store->stored;
    StoreRead read = {.directory = chunk->file.system ? stored->system : stored->directory,
                      .name = chunk->file.name,
                      .number = chunk->file.number,
                      .offset = chunk->offset,
                      .size = chunk->wanted,
                      .needed = sizeof(RecordHeader)};
    uint64_t left;
    chunk->data = atomic_exchange(&stored->buffer, NULL);
    if (!chunk->data)
        chunk->data = malloc(FETCH_BYTES_MOST);
    if (!chunk->data)
        return READ_LATE;
    enum ReadResult result = index_read(&read, chunk->data, &chunk->size, &left);
    read.size = read.needed = result == READ_DONE ? bytes_of_first(chunk, left) : 0;
    if (read.needed > FETCH_BYTES_MOST) {
        free(chunk->data);
        chunk->data = malloc(read.needed);
        chunk->large = true;
    }
    if (chunk->size < read.needed)
        result = chunk->data ? index_read(&read, chunk->data, &chunk->size, &left) : READ_LATE;
    if (result == READ_GONE)
        index_forget_file(stored, chunk->number);
    return result;
}

/* Whole cells of a chunk, as cells_merge_records takes them. */
typedef struct Slice {
    uint32_t count;
    Place places[CELLS_MERGED_AT_ONCE];
    uint64_t offsets[CELLS_MERGED_AT_ONCE], sizes[CELLS_MERGED_AT_ONCE], fingerprints[CELLS_MERGED_AT_ONCE];
    uint64_t compile_ns;
    unsigned known[CELLS_MERGED_AT_ONCE]; /* SEEN_ bits */
    uint8_t digests[CELLS_MERGED_AT_ONCE * PYLAYER_DIGEST_BYTES];
} Slice;

/* Returns true if the chunk has all of a record there, and its header is whole. */
static bool record_at(const Chunk *chunk, uint64_t at, RecordHeader *header)
{
    if (at + sizeof *header > chunk->size)
        return false;
    memcpy(header, chunk->data + at, sizeof *header);
    return record_header_is_whole(header, chunk->file.salt) && header->size <= chunk->size - at - sizeof *header;
}

static bool data_is_whole(const Chunk *chunk, uint64_t at, const RecordHeader *header)
{
    return record_data_is_whole(header, chunk->data + at + sizeof *header);
}

static void note_given(Caches *caches, const Place *places, uint32_t count)
{
    Stored *stored = &caches->store->stored;
    pthread_mutex_lock(&stored->mutex);
    for (uint32_t i = 0; i < count; i++)
        number_map_put(&stored->places, places[i], GIVEN);
    pthread_cond_broadcast(&stored->given);
    pthread_mutex_unlock(&stored->mutex);
}

/* Returns false if somebody else has given the record, or is giving it. */
static bool take(Stored *stored, Place place)
{
    pthread_mutex_lock(&stored->mutex);
    uint64_t *state = number_map_at(&stored->places, place);
    bool taken = state && !*state;
    if (taken)
        *state = GIVING;
    pthread_mutex_unlock(&stored->mutex);
    return taken;
}

/* Returns what is known of a fingerprint whose record the layer's cache has. */
static unsigned known_of(const RecordHeader *header)
{
    return SEEN_MERGED | (record_is_recent(header) ? SEEN_TOLD : 0);
}

/* The driver has the record's data from another one: under another fingerprint, or of a fold that was cut short. */
static void note_twice(Caches *caches, Place place, const RecordHeader *header)
{
    fingerprints_note_merged(&caches->run->seen, header->fingerprint, known_of(header));
    note_given(caches, &place, 1); /* so that nobody waits for it */
}

static void add_to_slice(Slice *slice, Place place, uint64_t at, const RecordHeader *header)
{
    uint32_t i = slice->count++;
    slice->places[i] = place;
    slice->offsets[i] = at + sizeof *header;
    slice->sizes[i] = header->size;
    slice->fingerprints[i] = header->fingerprint;
    slice->known[i] = known_of(header);
    slice->compile_ns += header->create_ns;
    memcpy(slice->digests + (size_t)i * PYLAYER_DIGEST_BYTES, header->digest, PYLAYER_DIGEST_BYTES);
}

static bool is_suspect(const Caches *caches, const RecordHeader *header)
{
    return suspects_find_record(caches->crash, header->digest) ||
           (header->fingerprint && suspects_find(caches->crash, header->fingerprint, PYLAYER_KIND_COMPUTE));
}

/* Takes records from *at on, until one that somebody else has taken. The caller has taken the chunk's first. Returns
 * false if no more follow. */
static bool take_slice(Caches *caches, Chunk *chunk, uint64_t *at, Slice *slice)
{
    RecordHeader header;
    slice->count = 0;
    slice->compile_ns = 0;
    for (; slice->count < CELLS_MERGED_AT_ONCE; *at += record_space(header.size)) {
        if (chunk->most == 0 || !record_at(chunk, *at, &header))
            return false;
        Place place = place_of(chunk->number, chunk->offset + *at);
        if (!record_is(&header, "CELL") || is_suspect(caches, &header))
            continue;
        if (*at > 0 && !take(&caches->store->stored, place))
            return false;
        chunk->damaged = !data_is_whole(chunk, *at, &header);
        if (chunk->damaged)
            note_given(caches, &place, 1); /* so that nobody waits for it */
        else if (cells_given(caches, header.digest))
            note_twice(caches, place, &header);
        else
            add_to_slice(slice, place, *at, &header);
        chunk->most--;
        if (chunk->damaged)
            return false;
    }
    return true;
}

static void give_slice(Caches *caches, const Chunk *chunk, const Slice *slice)
{
    PylayerCounters *totals = &counters_of(caches->run)->totals;
    atomic_store(&caches->crash->holds_stored, true);
    uint64_t taken =
        cells_merge_records(caches, NULL, chunk->data, slice->offsets, slice->sizes, slice->digests, slice->count);
    for (uint32_t i = 0; i < slice->count; i++) {
        fingerprints_note_merged(&caches->run->seen, slice->fingerprints[i], slice->known[i]);
        count(&totals->fetched_bytes, slice->sizes[i]);
    }
    count(&totals->load_failed, slice->count - taken);
    count(&totals->fetched, taken);
    count(&totals->fetched_compile_ns, slice->compile_ns);
    note_given(caches, slice->places, slice->count);
}

/* The read was abandoned. Unclaims the record so that a later creation can try again. */
static void note_late(Stored *stored, Place place)
{
    pthread_mutex_lock(&stored->mutex);
    number_map_remove(&stored->places, place);
    pthread_cond_broadcast(&stored->given);
    pthread_mutex_unlock(&stored->mutex);
}

/* Gives the records of a chunk, of which the caller has taken the first. */
static void give_chunk(Caches *caches, Chunk *chunk)
{
    uint64_t at = 0;
    for (bool more = true; more;) {
        Slice slice;
        more = take_slice(caches, chunk, &at, &slice);
        if (slice.count > 0)
            give_slice(caches, chunk, &slice);
    }
    chunk->damaged |= at == 0;
}

/* Gives the record at a place, which the caller has taken, and those behind it. */
static enum ReadResult give_from(Caches *caches, Place place)
{
    Stored *stored = &caches->store->stored;
    uint64_t start = now_ns();
    Chunk chunk = chunk_at(stored, place);
    enum ReadResult result = read_chunk(caches, &chunk);
    if (result == READ_DONE)
        give_chunk(caches, &chunk);
    index_tell_damage(caches->store, chunk.number, chunk.damaged ? READ_FAILED : result);
    if (result == READ_LATE)
        note_late(stored, place);
    else
        note_given(caches, &place, 1); /* also if it did not verify, so that nobody waits for it or reads it again */
    release_chunk(stored, &chunk);
    count(&counters_of(caches->run)->totals.fetch_ns, now_ns() - start);
    return result;
}

/* Waits until another thread has given a record. Releases the mutex meanwhile; the caller holds it. */
static void await_given_locked(Caches *caches, Place place)
{
    Stored *stored = &caches->store->stored;
    uint64_t begin = now_ns();
    struct timespec deadline = deadline_at(begin + GIVEN_WAIT_NS);
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
static enum ReadResult give(Caches *caches, Place place)
{
    Stored *stored = &caches->store->stored;
    if (take(stored, place))
        return give_from(caches, place);
    pthread_mutex_lock(&stored->mutex);
    if (number_map_find(&stored->places, place) == GIVING)
        await_given_locked(caches, place);
    pthread_mutex_unlock(&stored->mutex);
    return READ_DONE;
}

/* Returns the worst of what became of the records. Records without a fingerprint may be many, and are those of other
 * pipelines: at the deadline the rest is left to the next creation. */
static enum ReadResult give_all(Caches *caches, uint64_t fingerprint)
{
    Places found = {0};
    enum ReadResult worst = READ_DONE;
    uint64_t deadline = fingerprint ? UINT64_MAX : now_ns() + UNNAMED_NS;
    index_look_up(caches->store, fingerprint, &found);
    for (size_t i = 0; i < found.count && worst != READ_LATE; i++) {
        enum ReadResult result = now_ns() < deadline ? give(caches, found.places[i]) : READ_LATE;
        worst = result > worst ? result : worst;
    }
    free(found.places);
    return worst;
}

static unsigned fetch(Caches *caches, uint64_t fingerprint, unsigned known)
{
    Stored *stored = &caches->store->stored;
    enum ReadResult result = give_all(caches, fingerprint);
    if (result != READ_LATE && atomic_load(&stored->behind))
        result = index_read_again(caches->store) ? give_all(caches, fingerprint) : READ_LATE;
    if (result == READ_LATE)
        return known;
    if (fingerprint)
        return fingerprints_note(&caches->run->seen, fingerprint, SEEN_FETCHED);
    atomic_store(&stored->unnamed_fetched, true);
    return known;
}

unsigned stored_fetch(Caches *caches, uint64_t fingerprint)
{
    const Stored *stored = &caches->store->stored;
    unsigned known = fingerprint ? fingerprint_known(&caches->run->seen, fingerprint) : 0;
    bool done = fingerprint ? known & SEEN_FETCHED : atomic_load(&stored->unnamed_fetched);
    if (done || !atomic_load_explicit(&stored->open, memory_order_relaxed))
        return known;
    int cancellation = cancellation_off();
    known = fetch(caches, fingerprint, known);
    cancellation_restore(cancellation);
    return known;
}

static int by_place(const void *left, const void *right)
{
    Place a = *(const Place *)left, b = *(const Place *)right;
    return (a > b) - (a < b);
}

/* Gives the application's cache the records at the first of these places, and at those that follow in what is read at
 * once. Returns how many places that is. *all becomes false if a record could not be given. */
static size_t give_some(Caches *caches, AppCache *app_cache, const Place *places, size_t count, bool *all)
{
    Chunk chunk = chunk_at(&caches->store->stored, places[0]);
    Slice slice = {0};
    RecordHeader header;
    size_t done = 0;
    chunk.wanted = count > 1 ? fetch_bytes(&chunk.file) : record_bytes(&chunk.file, 1);
    bool more = read_chunk(caches, &chunk) == READ_DONE;
    while (more && done < count && slice.count < CELLS_MERGED_AT_ONCE) {
        uint64_t at = places[done] - places[0]; /* beyond any chunk if it is in another file */
        more = at < chunk.size && record_at(&chunk, at, &header);
        if (!more)
            break;
        bool is_cell = record_is(&header, "CELL"); /* the same pipeline may be stored as binaries, too */
        if (is_cell && !is_suspect(caches, &header) && data_is_whole(&chunk, at, &header))
            add_to_slice(&slice, places[done], at, &header);
        else
            *all &= !is_cell;
        done++;
    }
    *all &=
        done > 0 && (slice.count == 0 || cells_merge_records(caches, app_cache, chunk.data, slice.offsets, slice.sizes,
                                                             slice.digests, slice.count) == slice.count);
    release_chunk(&caches->store->stored, &chunk);
    return done > 0 ? done : 1;
}

/* Gives an application's cache all stored cells with these fingerprints, and no others: the cache then holds what it would
 * hold without the layer. Returns false if it lacks one of them. */
static bool give_to(Caches *caches, AppCache *app_cache, const uint64_t *fingerprints, size_t count)
{
    Stored *stored = &caches->store->stored;
    if (!atomic_load_explicit(&stored->open, memory_order_relaxed))
        return false;
    int cancellation = cancellation_off();
    Places found = {0};
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        size_t before = found.count;
        if (fingerprints[i])
            index_look_up(caches->store, fingerprints[i], &found);
        all &= found.count > before;
    }
    if (found.count > 1)
        qsort(found.places, found.count, sizeof *found.places, by_place);
    for (size_t i = 0; i < found.count;)
        i += give_some(caches, app_cache, found.places + i, found.count - i, &all);
    free(found.places);
    cancellation_restore(cancellation);
    return all;
}

void stored_settle(Caches *caches, AppCache *app_cache)
{
    size_t count;
    uint64_t *owed = app_cache_take_owed(app_cache, &count);
    if (count > 0 && !give_to(caches, app_cache, owed, count))
        atomic_store(&app_cache->owes_all, true);
    free(owed);
    if (atomic_exchange(&app_cache->owes_all, false) && !cells_merge_all(caches, app_cache))
        atomic_store(&app_cache->owes_all, true);
}
