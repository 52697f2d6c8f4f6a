/*
 * loading.c - merges stored records into the layer's cache.
 *
 * Policy publishes records that it verified, and verifies the next ones meanwhile. The published records become caches,
 * which are merged in slices. Application threads that wait for the store before they create a pipeline merge slices
 * too: nobody else is in a hurry, and a thread made for it would cost 60 us and an allocator arena of its own
 * (measured: a fresh arena makes vkCreatePipelineCache 1.6 times slower than the main thread's).
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>

#include "pipelines/creations.h"
#include "caches/cells.h"

/* During a load, the next records come within tens of microseconds. Waking a sleeping thread takes longer (measured in
 * a virtual machine: 50 us and more, for each of 18 publications). */
#define SPIN_NS 200000

static void changed_locked(Loading *loading)
{
    atomic_fetch_add_explicit(&loading->changes, 1, memory_order_relaxed);
    pthread_cond_broadcast(&loading->changed);
}

/* Releases the load mutex while it waits; the caller holds it. Returns true if something changed meanwhile. */
static bool spin_locked(Loading *loading)
{
    unsigned seen = atomic_load_explicit(&loading->changes, memory_order_relaxed);
    uint64_t give_up = now_ns() + SPIN_NS;
    pthread_mutex_unlock(&loading->mutex);
    while (atomic_load_explicit(&loading->changes, memory_order_relaxed) == seen && now_ns() < give_up)
        sched_yield();
    pthread_mutex_lock(&loading->mutex);
    /* Read with the mutex held, so that a caller that waits next misses no change. */
    return atomic_load_explicit(&loading->changes, memory_order_relaxed) != seen;
}

/* Releases the load mutex while it merges; the caller holds it. Returns false if no slice was left. */
static bool work_on_slice_locked(Device *device)
{
    Loading *loading = &device->loading;
    uint64_t first = loading->next;
    if (first >= loading->count)
        return false;
    if (atomic_load(&loading->abandoned)) {
        loading->finished += loading->count - first;
        loading->next = loading->count;
        return true;
    }
    uint64_t left = loading->count - first;
    uint32_t slice = left < CELLS_MERGED_AT_ONCE ? (uint32_t)left : CELLS_MERGED_AT_ONCE;
    loading->next += slice;
    const uint8_t *base = loading->base;
    const uint64_t *offsets = loading->offsets + first, *sizes = loading->sizes + first;
    const uint8_t *digests = loading->digests + first * PYLAYER_DIGEST_BYTES;
    pthread_mutex_unlock(&loading->mutex);
    uint64_t taken = cells_merge_records(device, base, offsets, sizes, digests, slice);
    pthread_mutex_lock(&loading->mutex);
    loading->taken += taken;
    loading->finished += slice;
    if (loading->finished == loading->count)
        changed_locked(loading);
    return true;
}

static void finish_published_locked(Device *device)
{
    Loading *loading = &device->loading;
    while (loading->finished < loading->count)
        if (!work_on_slice_locked(device) && !spin_locked(loading))
            pthread_cond_wait(&loading->changed, &loading->mutex);
}

int64_t loading_publish(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                        const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count)
{
    if (device->merged == VK_NULL_HANDLE)
        return -1;
    Loading *loading = &device->loading;
    for (uint64_t i = 0; i < record_count; i++)
        fingerprints_note_merged(device, fingerprint_array[i]);
    pthread_mutex_lock(&loading->mutex);
    finish_published_locked(device);
    loading->base = base;
    loading->offsets = offsets;
    loading->sizes = sizes;
    loading->digests = digests;
    loading->next = loading->finished = 0;
    loading->count = record_count;
    loading->published += record_count;
    atomic_store(&loading->under_way, 1);
    if (record_count > 0)
        atomic_store(&device->holds_stored, true);
    changed_locked(loading);
    pthread_mutex_unlock(&loading->mutex);
    return 0;
}

void loading_begin(Device *device)
{
    Loading *loading = &device->loading;
    pthread_mutex_lock(&loading->mutex);
    if (loading->expected++ == 0) {
        atomic_store(&loading->begun_ns, now_ns());
        atomic_store(&loading->done, 0);
    }
    pthread_mutex_unlock(&loading->mutex);
}

static void end_locked(Loading *loading, unsigned loads)
{
    loading->expected -= loads < loading->expected ? loads : loading->expected;
    if (loading->expected == 0)
        atomic_store(&loading->done, 1);
    changed_locked(loading);
}

void loading_cancel(Device *device)
{
    pthread_mutex_lock(&device->loading.mutex);
    end_locked(&device->loading, 1);
    pthread_mutex_unlock(&device->loading.mutex);
}

void loading_end(Device *device)
{
    pthread_mutex_lock(&device->loading.mutex);
    end_locked(&device->loading, UINT_MAX);
    pthread_mutex_unlock(&device->loading.mutex);
}

int64_t loading_done(Device *device)
{
    Loading *loading = &device->loading;
    pthread_mutex_lock(&loading->mutex);
    finish_published_locked(device);
    loading->count = loading->next = loading->finished = 0;
    int64_t taken = atomic_load(&loading->abandoned) ? -1 : (int64_t)loading->taken;
    /* Before the load ends: threads read `refused` once they see that it is done. */
    if (taken >= 0 && loading->taken < loading->published)
        loading_refused(device, loading->published - loading->taken);
    loading->published = loading->taken = 0;
    atomic_store(&loading->under_way, 0);
    end_locked(loading, 1);
    pthread_mutex_unlock(&loading->mutex);
    return taken;
}

void loading_refused(Device *device, uint64_t records)
{
    count(&counters_of(device)->totals.load_failed, records);
    atomic_store(&device->loading.refused, true);
}

bool loading_is_under_way(const Device *device)
{
    return !atomic_load_explicit(&device->loading.done, memory_order_relaxed) ||
           atomic_load_explicit(&device->loading.under_way, memory_order_relaxed);
}

void loading_abandon(Device *device)
{
    Loading *loading = &device->loading;
    pthread_mutex_lock(&loading->mutex);
    atomic_store(&loading->abandoned, 1);
    changed_locked(loading);
    pthread_mutex_unlock(&loading->mutex);
}

/* Returns false if the driver refused a record: its pipeline is compiled again, and that miss says nothing about
 * probes. */
static bool wholly_merged(Device *device)
{
    const Loading *loading = &device->loading;
    return atomic_load_explicit(&loading->done, memory_order_acquire) &&
           !atomic_load_explicit(&loading->abandoned, memory_order_relaxed) &&
           !atomic_load_explicit(&loading->refused, memory_order_relaxed);
}

bool loading_wait(Device *device)
{
    Loading *loading = &device->loading;
    if (atomic_load_explicit(&loading->done, memory_order_acquire))
        return wholly_merged(device);
    uint64_t give_up = atomic_load(&loading->begun_ns) + (uint64_t)device->plan.load_wait_ns;
    uint64_t start = now_ns();
    if (start >= give_up)
        return false;
    struct timespec deadline = deadline_at(give_up);
    int waited = 0;
    pthread_mutex_lock(&loading->mutex);
    while (!atomic_load(&loading->done) && !atomic_load(&loading->abandoned) && waited != ETIMEDOUT) {
        bool under_way = loading->published > 0;
        if (work_on_slice_locked(device) || (under_way && spin_locked(loading)))
            waited = now_ns() < give_up ? 0 : ETIMEDOUT;
        else
            waited = pthread_cond_timedwait(&loading->changed, &loading->mutex, &deadline);
    }
    pthread_mutex_unlock(&loading->mutex);
    uint64_t duration = now_ns() - start;
    count(&counters_of(device)->totals.load_wait_ns, duration);
    creation_tell_wait(device, duration);
    return wholly_merged(device);
}
