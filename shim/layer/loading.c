/*
 * loading.c - stored records on their way into the layer's cache.
 *
 * Policy hands over records that it verified; they become caches and are merged in slices. Threads that wait
 * for the store, because the application creates a pipeline, take slices too: nobody else is in a hurry, and
 * a thread made for it would cost 60 us and an allocator arena of its own (measured: a fresh arena makes
 * vkCreatePipelineCache 1.6 times slower than the main thread's).
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "layer.h"

/* The load mutex is held and, on return, too. True when a slice was worked on. */
static bool work_on_slice_locked(Device *device)
{
    Loading *loading = &device->loading;
    uint64_t first = loading->next;
    if (first >= loading->count)
        return false;
    uint64_t left = loading->count - first;
    uint32_t slice = left < CELLS_MERGED_AT_ONCE ? (uint32_t)left : CELLS_MERGED_AT_ONCE;
    loading->next += slice;
    const uint8_t *base = loading->base;
    const uint64_t *offsets = loading->offsets + first, *sizes = loading->sizes + first;
    pthread_mutex_unlock(&loading->mutex);
    uint64_t taken = cells_merge_records(device, base, offsets, sizes, slice);
    pthread_mutex_lock(&loading->mutex);
    loading->taken += taken;
    loading->finished += slice;
    if (loading->finished == loading->count)
        pthread_cond_broadcast(&loading->changed);
    return true;
}

int64_t loading_merge(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                      uint64_t record_count)
{
    if (device->merged == VK_NULL_HANDLE)
        return -1;
    Loading *loading = &device->loading;
    pthread_mutex_lock(&loading->mutex);
    loading->base = base;
    loading->offsets = offsets;
    loading->sizes = sizes;
    loading->next = loading->finished = loading->taken = 0;
    loading->count = record_count;
    pthread_cond_broadcast(&loading->changed);
    while (loading->finished < loading->count)
        if (!work_on_slice_locked(device))
            pthread_cond_wait(&loading->changed, &loading->mutex);
    loading->count = loading->next = 0;
    int64_t taken = (int64_t)loading->taken;
    pthread_mutex_unlock(&loading->mutex);
    count(&device->counters.load_failed, record_count - (uint64_t)taken);
    return taken;
}

void loading_done(Device *device)
{
    Loading *loading = &device->loading;
    pthread_mutex_lock(&loading->mutex);
    atomic_store(&loading->done, 1);
    pthread_cond_broadcast(&loading->changed);
    pthread_mutex_unlock(&loading->mutex);
}

bool loading_wait(Device *device)
{
    Loading *loading = &device->loading;
    if (atomic_load_explicit(&loading->done, memory_order_acquire))
        return true;
    uint64_t give_up = device->created_ns + (uint64_t)device->plan.load_wait_ns;
    uint64_t start = now_ns();
    if (start >= give_up)
        return false;
    struct timespec deadline = {.tv_sec = (time_t)(give_up / 1000000000ull),
                                .tv_nsec = (long)(give_up % 1000000000ull)};
    int waited = 0;
    pthread_mutex_lock(&loading->mutex);
    while (!atomic_load(&loading->done) && waited != ETIMEDOUT)
        if (!work_on_slice_locked(device))
            waited = pthread_cond_timedwait(&loading->changed, &loading->mutex, &deadline);
        else if (now_ns() >= give_up)
            waited = ETIMEDOUT;
    pthread_mutex_unlock(&loading->mutex);
    count(&device->counters.load_wait_ns, now_ns() - start);
    return atomic_load(&loading->done);
}
