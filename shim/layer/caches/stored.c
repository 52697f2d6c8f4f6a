/* stored.c - see caches.h */
#include <sched.h>
#include <stdlib.h>

#include "caches/caches.h"
#include "crash/crash.h"
#include "process/process.h"

/* 'Giving' a record means that the driver merges it into the layer's cache or into one of the application's, or makes
 * binaries of it (mode_binaries.c).
 *
 * How long a creation waits for a record that another thread is giving. */
#ifndef GIVEN_WAIT_NS /* shorter in the fuzz targets */
#define GIVEN_WAIT_NS 5000000000ull
#endif
/* A waiting thread calls sched_yield for this long, then it sleeps. Waking it takes 50 us and more. */
#define SPIN_NS 200000
/* How long one creation gives records without a fingerprint. The next one of such a kind goes on with the rest. */
#define UNNAMED_NS 5000000

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
    /* The driver may have got the same data under another fingerprint, from a file that a compaction has not deleted
     * yet, or in two chunks. */
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

static enum ReadResult read_and_give(Caches *caches, Place place)
{
    Store *store = caches->store;
    uint64_t start = now_ns();
    StoredRecord record;
    enum ReadResult result = stored_record_read(store, place, &record);
    if (result == READ_DONE && record.cell_count > 0 && !is_blocked(caches, &record))
        give_record(caches, &record);
    index_tell_damage(store, record.file, result);
    free(record.data);
    count(&counters_of(caches->run)->totals.fetch_ns, now_ns() - start);
    return result;
}

pthread_mutex_t *stored_take_turn(Stored *stored, uint64_t number)
{
    pthread_mutex_t *turn = &stored->turns[number % STORED_TURNS];
    uint64_t begin = 0;
    while (pthread_mutex_trylock(turn) != 0) {
        begin = begin ? begin : now_ns();
        if (now_ns() - begin > SPIN_NS)
            return mutex_lock_within(turn, GIVEN_WAIT_NS) ? turn : NULL;
        sched_yield();
    }
    return turn;
}

/* Gives a record once. *mine stays false if it was given already, or if waiting for the thread that gives it fails. */
static enum ReadResult give(Caches *caches, Place place, bool *mine)
{
    Stored *stored = &caches->store->stored;
    pthread_mutex_t *turn = stored_take_turn(stored, place / STORE_ALIGNMENT);
    enum ReadResult result = READ_DONE;
    if (!turn)
        return result;
    *mine = !shared_map_find(&stored->given, place);
    if (*mine)
        result = read_and_give(caches, place);
    /* A record that cannot be used counts as given, too. After READ_LATE a later creation tries again. */
    if (*mine && result != READ_LATE)
        shared_map_put(&stored->given, place, 1, SIZE_MAX);
    pthread_mutex_unlock(turn);
    return result;
}

/* Gives the records that are stored under a fingerprint. Returns the worst of their results. Of several records only
 * one is given, because the driver may find the pipeline in it, and *more is set. Of records without a fingerprint
 * (fingerprint 0) there may be many, mostly of other pipelines, so after a deadline READ_LATE says that the next
 * creation goes on. */
static enum ReadResult give_some(Caches *caches, uint64_t fingerprint, bool *more)
{
    enum ReadResult worst = READ_DONE;
    uint64_t deadline = fingerprint ? UINT64_MAX : now_ns() + UNNAMED_NS;
    Place place = index_next(caches->store, fingerprint, 0);
    while (place && worst != READ_LATE && !*more) {
        bool mine = false;
        enum ReadResult result = now_ns() < deadline ? give(caches, place, &mine) : READ_LATE;
        worst = result > worst ? result : worst;
        place = index_next(caches->store, fingerprint, place);
        *more = fingerprint && mine && result == READ_DONE && place;
    }
    return worst;
}

bool stored_fetch(Caches *caches, uint64_t fingerprint, unsigned *known)
{
    Stored *stored = &caches->store->stored;
    bool done = fingerprint ? *known & SEEN_FETCHED : atomic_load(&stored->unnamed_fetched), more = false;
    if (done || !atomic_load_explicit(&stored->open, memory_order_relaxed))
        return false;
    int cancellation = cancellation_off();
    enum ReadResult result = give_some(caches, fingerprint, &more);
    if (!more && result != READ_LATE && atomic_load(&stored->behind))
        result = index_read_again(caches->store) ? give_some(caches, fingerprint, &more) : READ_LATE;
    if (!more && result != READ_LATE && fingerprint)
        fingerprints_note(&caches->run->seen, fingerprint, SEEN_FETCHED);
    else if (!more && result != READ_LATE)
        atomic_store(&stored->unnamed_fetched, true);
    cancellation_restore(cancellation);
    if (fingerprint)
        *known = fingerprint_known(&caches->run->seen, fingerprint);
    return more;
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

/* Merges the records with these fingerprints into an application's cache, so that it has at least what it would hold
 * without the layer: chunks are merged as a whole. Returns false if one of the pipelines is missing. */
static bool give_to(Caches *caches, AppCache *app_cache, const uint64_t *fingerprints, size_t count)
{
    Stored *stored = &caches->store->stored;
    if (!atomic_load_explicit(&stored->open, memory_order_relaxed))
        return false;
    NumberMap given = {0};
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        Place place = index_next(caches->store, fingerprints[i], 0);
        all &= place != 0;
        for (; place; place = index_next(caches->store, fingerprints[i], place))
            if (!number_map_find(&given, place)) {
                all &= give_place_to(caches, app_cache, place);
                number_map_put(&given, place, 1);
            }
    }
    number_map_free(&given);
    return all;
}

void stored_settle(Caches *caches, AppCache *app_cache)
{
    size_t count;
    int cancellation = cancellation_off();
    if (patient_lock(&app_cache->settling)) {
        uint64_t *owed = app_cache_take_owed(app_cache, &count);
        if (count > 0 && !give_to(caches, app_cache, owed, count))
            atomic_store(&app_cache->owes_all, true);
        free(owed);
        if (atomic_exchange(&app_cache->owes_all, false) && !cells_merge_all(caches, app_cache))
            atomic_store(&app_cache->owes_all, true);
        patient_unlock(&app_cache->settling);
    }
    cancellation_restore(cancellation);
}
