/* stored.c - see caches.h */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "caches/caches.h"
#include "crash/crash.h"
#include "process/process.h"

/* 'Giving' a record means that the driver merges it into the layer's cache, or into one of the application's.
 *
 * How long a creation waits for a record that another thread is giving. */
#ifndef GIVEN_WAIT_NS /* shorter in the fuzz targets */
#define GIVEN_WAIT_NS 5000000000ull
#endif
/* A waiting thread only yields the processor for this long before it sleeps. Waking it then takes 50 us and more. */
#define SPIN_NS 200000
/* How long one creation gives records without a fingerprint. The next creation goes on with the rest. */
#define UNNAMED_NS 5000000

/* The states of a record in Stored::places. Absent or 0: nobody gives it. */
#define GIVING 1
#define GIVEN 2

static void note_place(Stored *stored, Place place, uint64_t state)
{
    pthread_mutex_lock(&stored->mutex);
    if (state)
        number_map_put(&stored->places, place, state);
    else
        number_map_remove(&stored->places, place);
    pthread_cond_broadcast(&stored->given);
    pthread_mutex_unlock(&stored->mutex);
}

/* Claims a record for this thread. Returns false if another thread is giving it, or somebody has given it. */
static bool claim(Stored *stored, Place place)
{
    pthread_mutex_lock(&stored->mutex);
    uint64_t *state = number_map_at(&stored->places, place);
    bool claimed = state && !*state;
    if (claimed)
        *state = GIVING;
    pthread_mutex_unlock(&stored->mutex);
    return claimed;
}

static bool is_blocked(const Caches *caches, const StoredRecord *record)
{
    return blocks_record(caches->crash, &record->header, record->cells, record->cell_count);
}

static void give_record(Caches *caches, const StoredRecord *record)
{
    PylayerCounters *totals = &counters_of(caches->run)->totals;
    const RecordHeader *header = &record->header;
    unsigned known = record_is_recent(header) ? SEEN_TOLD : 0;
    atomic_store(&caches->crash->holds_stored, true);
    /* The driver may have got the same data under another fingerprint, or from a file that a compaction has not
     * deleted yet. */
    bool twice = cells_given(caches, header->digest);
    bool taken = twice || cells_merge_record(caches, NULL, record);
    for (size_t i = 0; i < record->cell_count; i++)
        fingerprints_note_merged(&caches->run->seen, record->cells[i].fingerprint, known);
    if (twice)
        return;
    count(&totals->fetched_bytes, header->size);
    count(taken ? &totals->fetched : &totals->load_failed, record->cell_count);
    count(&totals->fetched_compile_ns, header->create_ns);
}

/* Gives the record at a place, which the caller has claimed. */
static enum ReadResult give_claimed(Caches *caches, Place place)
{
    Store *store = caches->store;
    uint64_t start = now_ns();
    StoredRecord record;
    enum ReadResult result = stored_record_read(store, place, &record);
    if (result == READ_DONE && record.cell_count > 0 && !is_blocked(caches, &record))
        give_record(caches, &record);
    index_tell_damage(store, record.file, result);
    /* A record that did not verify counts as given, so that nobody waits for it or reads it again. If the read was
     * abandoned, the record is unclaimed, so that a later creation can try again. */
    note_place(&store->stored, place, result == READ_LATE ? 0 : GIVEN);
    free(record.data);
    count(&counters_of(caches->run)->totals.fetch_ns, now_ns() - start);
    return result;
}

/* Waits until another thread has given a record. The caller holds the mutex, which is released meanwhile. */
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

/* Gives a record. If another thread does that already, waits for it and sets *mine to false. */
static enum ReadResult give(Caches *caches, Place place, bool *mine)
{
    Stored *stored = &caches->store->stored;
    *mine = claim(stored, place);
    if (*mine)
        return give_claimed(caches, place);
    pthread_mutex_lock(&stored->mutex);
    if (number_map_find(&stored->places, place) == GIVING)
        await_given_locked(caches, place);
    pthread_mutex_unlock(&stored->mutex);
    return READ_DONE;
}

/* Gives the records that are stored under a fingerprint. Returns the worst of their results. Of several records only
 * one is given, because the driver may find the pipeline in it, and *more is set. Of records without a fingerprint
 * (fingerprint 0) there may be many, mostly of other pipelines, so the next creation goes on after a deadline. */
static enum ReadResult give_some(Caches *caches, uint64_t fingerprint, bool *more)
{
    Places found = {0};
    enum ReadResult worst = READ_DONE;
    uint64_t deadline = fingerprint ? UINT64_MAX : now_ns() + UNNAMED_NS;
    index_look_up(caches->store, fingerprint, &found);
    for (size_t i = 0; i < found.count && worst != READ_LATE && !*more; i++) {
        bool mine = false;
        enum ReadResult result = now_ns() < deadline ? give(caches, found.places[i], &mine) : READ_LATE;
        worst = result > worst ? result : worst;
        *more = fingerprint && mine && result == READ_DONE && i + 1 < found.count;
    }
    free(found.places);
    return worst;
}

static bool fetch(Caches *caches, uint64_t fingerprint)
{
    Stored *stored = &caches->store->stored;
    bool more = false;
    enum ReadResult result = give_some(caches, fingerprint, &more);
    if (!more && result != READ_LATE && atomic_load(&stored->behind))
        result = index_read_again(caches->store) ? give_some(caches, fingerprint, &more) : READ_LATE;
    if (more || result == READ_LATE)
        return more;
    if (fingerprint)
        fingerprints_note(&caches->run->seen, fingerprint, SEEN_FETCHED);
    else
        atomic_store(&stored->unnamed_fetched, true);
    return false;
}

bool stored_fetch(Caches *caches, uint64_t fingerprint, unsigned *known)
{
    const Stored *stored = &caches->store->stored;
    bool done = fingerprint ? *known & SEEN_FETCHED : atomic_load(&stored->unnamed_fetched);
    if (done || !atomic_load_explicit(&stored->open, memory_order_relaxed))
        return false;
    int cancellation = cancellation_off();
    bool more = fetch(caches, fingerprint);
    cancellation_restore(cancellation);
    if (fingerprint)
        *known = fingerprint_known(&caches->run->seen, fingerprint);
    return more;
}

static int by_place(const void *left, const void *right)
{
    Place a = *(const Place *)left, b = *(const Place *)right;
    return (a > b) - (a < b);
}

/* Merges the record at a place into an application's cache. Returns false if that could not be done. */
static bool give_place_to(Caches *caches, AppCache *app_cache, Place place)
{
    StoredRecord record;
    bool given = stored_record_read(caches->store, place, &record) == READ_DONE;
    /* A record without cells is the same pipeline stored as binaries: not for a cache. */
    if (given && record.cell_count > 0)
        given = !is_blocked(caches, &record) && cells_merge_record(caches, app_cache, &record);
    free(record.data);
    return given;
}

/* Merges the records with these fingerprints into an application's cache, so that it has what it would hold without the
 * layer. Chunks are merged as a whole. Returns false if one of the pipelines is missing. */
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
    for (size_t i = 0; i < found.count; i++)
        if (i == 0 || found.places[i] != found.places[i - 1])
            all &= give_place_to(caches, app_cache, found.places[i]);
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
