/*
 * loading.c - merges stored records that policy hands over into the layer's cache.
 *
 * Only where the layer cannot read the store itself (caches/stored.h): in the first run after an update, with a policy
 * class, for snapshots, and for data that the program's own caches get back.
 */
#include <errno.h>
#include <limits.h>

#include "device/device.h"
#include "pipelines/creations.h"
#include "process/process.h"
#include "caches/cells.h"

int64_t loading_take(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                     const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count)
{
    Loading *loading = &device->caches.loading;
    if (device->caches.merged == VK_NULL_HANDLE)
        return -1;
    atomic_store(&loading->under_way, 1);
    if (record_count > 0)
        atomic_store(&device->crash.holds_stored, true);
    for (uint64_t i = 0; i < record_count; i++)
        fingerprints_note_merged(&device->run.seen, fingerprint_array[i], 0);
    loading->given += record_count;
    for (uint64_t i = 0; i < record_count && !atomic_load(&loading->abandoned); i += CELLS_MERGED_AT_ONCE) {
        uint64_t left = record_count - i;
        loading->taken += cells_merge_records(device, base, offsets + i, sizes + i, digests + i * PYLAYER_DIGEST_BYTES,
                                              left < CELLS_MERGED_AT_ONCE ? (uint32_t)left : CELLS_MERGED_AT_ONCE);
    }
    return 0;
}

void loading_begin(Device *device)
{
    Loading *loading = &device->caches.loading;
    pthread_mutex_lock(&loading->mutex);
    if (loading->expected++ == 0) {
        atomic_store(&device->run.begun_ns, now_ns());
        atomic_store(&loading->done, 0);
    }
    pthread_mutex_unlock(&loading->mutex);
}

static void end_locked(Loading *loading, unsigned loads)
{
    loading->expected -= loads < loading->expected ? loads : loading->expected;
    if (loading->expected == 0)
        atomic_store(&loading->done, 1);
    pthread_cond_broadcast(&loading->changed);
}

void loading_cancel(Device *device)
{
    pthread_mutex_lock(&device->caches.loading.mutex);
    end_locked(&device->caches.loading, 1);
    pthread_mutex_unlock(&device->caches.loading.mutex);
}

void loading_end(Device *device)
{
    pthread_mutex_lock(&device->caches.loading.mutex);
    end_locked(&device->caches.loading, UINT_MAX);
    pthread_mutex_unlock(&device->caches.loading.mutex);
}

int64_t loading_done(Device *device)
{
    Loading *loading = &device->caches.loading;
    pthread_mutex_lock(&loading->mutex);
    int64_t taken = atomic_load(&loading->abandoned) ? -1 : (int64_t)loading->taken;
    /* Before the load ends: threads read `refused` once they see that it is done. */
    if (taken >= 0 && loading->taken < loading->given)
        loading_refused(device, loading->given - loading->taken);
    loading->given = loading->taken = 0;
    atomic_store(&loading->under_way, 0);
    end_locked(loading, 1);
    pthread_mutex_unlock(&loading->mutex);
    return taken;
}

void loading_refused(Device *device, uint64_t records)
{
    count(&counters_of(&device->run)->totals.load_failed, records);
    atomic_store(&device->caches.loading.refused, true);
}

bool loading_is_under_way(const Device *device)
{
    return !atomic_load_explicit(&device->caches.loading.done, memory_order_relaxed) ||
           atomic_load_explicit(&device->caches.loading.under_way, memory_order_relaxed);
}

void loading_abandon(Device *device)
{
    Loading *loading = &device->caches.loading;
    pthread_mutex_lock(&loading->mutex);
    atomic_store(&loading->abandoned, 1);
    pthread_cond_broadcast(&loading->changed);
    pthread_mutex_unlock(&loading->mutex);
}

/* Returns false if the driver refused a record: its pipeline is compiled again, and that miss says nothing about
 * probes. */
static bool wholly_merged(Device *device)
{
    const Loading *loading = &device->caches.loading;
    return atomic_load_explicit(&loading->done, memory_order_acquire) &&
           !atomic_load_explicit(&loading->abandoned, memory_order_relaxed) &&
           !atomic_load_explicit(&loading->refused, memory_order_relaxed);
}

bool loading_wait(Device *device)
{
    Loading *loading = &device->caches.loading;
    if (atomic_load_explicit(&loading->done, memory_order_acquire))
        return wholly_merged(device);
    uint64_t give_up = atomic_load(&device->run.begun_ns) + (uint64_t)device->run.plan.load_wait_ns;
    uint64_t start = now_ns();
    if (start >= give_up)
        return false;
    struct timespec deadline = deadline_at(give_up);
    int waited = 0;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&loading->mutex);
    while (!atomic_load(&loading->done) && !atomic_load(&loading->abandoned) && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&loading->changed, &loading->mutex, &deadline);
    pthread_mutex_unlock(&loading->mutex);
    cancellation_restore(cancellation);
    uint64_t duration = now_ns() - start;
    count(&counters_of(&device->run)->totals.load_wait_ns, duration);
    creation_tell_wait(device, duration);
    return wholly_merged(device);
}
