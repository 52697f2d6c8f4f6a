/*
 * loading.c - merges stored records that policy hands over into the layer's cache.
 *
 * Only where the layer cannot read the store itself (stored.c): in the first run after an update, with a policy
 * class.
 */
#include "caches/caches.h"
#include "process/process.h"

int64_t loading_take(Caches *caches, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                     const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count)
{
    Loading *loading = &caches->loading;
    if (caches->merged == VK_NULL_HANDLE)
        return -1;
    if (record_count > 0)
        atomic_store(&caches->crash->holds_stored, true);
    for (uint64_t i = 0; i < record_count; i++)
        fingerprints_note_merged(&caches->run->seen, fingerprint_array[i], 0);
    loading->given += record_count;
    for (uint64_t i = 0; i < record_count && !atomic_load(&loading->abandoned); i += CELLS_MERGED_AT_ONCE) {
        uint64_t left = record_count - i;
        loading->taken +=
            cells_merge_records(caches, NULL, base, offsets + i, sizes + i, digests + i * PYLAYER_DIGEST_BYTES,
                                left < CELLS_MERGED_AT_ONCE ? (uint32_t)left : CELLS_MERGED_AT_ONCE);
    }
    return 0;
}

static void end_locked(Loading *loading)
{
    atomic_store(&loading->done, 1);
    pthread_cond_broadcast(&loading->changed);
}

void loading_end(Caches *caches)
{
    pthread_mutex_lock(&caches->loading.mutex);
    end_locked(&caches->loading);
    pthread_mutex_unlock(&caches->loading.mutex);
}

int64_t loading_done(Caches *caches)
{
    Loading *loading = &caches->loading;
    pthread_mutex_lock(&loading->mutex);
    int64_t taken = atomic_load(&loading->abandoned) ? -1 : (int64_t)loading->taken;
    if (taken >= 0)
        count(&counters_of(caches->run)->totals.load_failed, loading->given - loading->taken);
    end_locked(loading);
    pthread_mutex_unlock(&loading->mutex);
    return taken;
}

void loading_abandon(Caches *caches)
{
    Loading *loading = &caches->loading;
    pthread_mutex_lock(&loading->mutex);
    atomic_store(&loading->abandoned, 1);
    pthread_cond_broadcast(&loading->changed);
    pthread_mutex_unlock(&loading->mutex);
}

static bool wholly_merged(const Loading *loading)
{
    return atomic_load_explicit(&loading->done, memory_order_acquire) &&
           !atomic_load_explicit(&loading->abandoned, memory_order_relaxed);
}

bool loading_wait(Caches *caches)
{
    Loading *loading = &caches->loading;
    if (atomic_load_explicit(&loading->done, memory_order_acquire))
        return wholly_merged(loading);
    uint64_t give_up = atomic_load(&loading->begun_ns) + LOAD_WAIT_NS;
    uint64_t start = now_ns();
    if (start >= give_up)
        return false;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&loading->mutex);
    while (!atomic_load(&loading->done) && !atomic_load(&loading->abandoned) &&
           process_await_policy(&loading->changed, &loading->mutex, give_up, 0))
        ;
    pthread_mutex_unlock(&loading->mutex);
    cancellation_restore(cancellation);
    count(&counters_of(caches->run)->totals.load_wait_ns, now_ns() - start);
    return wholly_merged(loading);
}
