/* frames.c - see frames.h */
#include <stdlib.h>
#include <string.h>

#include "frames/frames.h"
#include "process/process.h"

/* Those of all devices, so far. */
static _Atomic(Frames *) every_device;
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- streams --------------------------------------------------------------------------------------- */

static FrameStream *find_stream(Frames *frames, uint64_t swapchain)
{
    for (unsigned i = 0; i < FRAME_STREAMS; i++)
        if (atomic_load_explicit(&frames->streams[i].swapchain, memory_order_relaxed) == swapchain)
            return &frames->streams[i];
    return NULL;
}

/* Returns frames that no device uses. Returns NULL if memory is short. */
static Frames *unused_frames(void)
{
    Frames *found = atomic_load(&every_device);
    while (found && atomic_load(&found->used))
        found = found->next;
    if (found || !(found = aligned_alloc(_Alignof(Frames), sizeof *found)))
        return found;
    memset(found, 0, sizeof *found);
    found->next = atomic_load(&every_device);
    atomic_store(&every_device, found);
    return found;
}

/* Returns NULL if memory is short. */
static NOT_INLINED Frames *open_frames(Run *run)
{
    pthread_mutex_lock(&open_mutex);
    Frames *made = atomic_load(&run->frames);
    if (!made && (made = unused_frames())) {
        made->last_id = 0;
        made->taken = made->written = 0;
        atomic_store(&made->first_ns, 0);
        atomic_store(&made->longest_ns, 0);
        atomic_store(&made->last_late_s, 0);
        made->ring = run->plan.tell_creations ? calloc(FRAME_RING, sizeof *made->ring) : NULL;
        atomic_store(&made->used, true);
        atomic_store(&run->frames, made);
    }
    pthread_mutex_unlock(&open_mutex);
    return made;
}

/* Other threads may still read what the stream's last swapchain left. */
static void clear(FrameStream *stream)
{
    atomic_store(&stream->frames, 0);
    atomic_store(&stream->last_ns, 0);
    atomic_store(&stream->thread, 0);
    atomic_store(&stream->pipelines_ns, 0);
    for (unsigned i = 0; i <= FRAME_QUEUE; i++)
        atomic_store(&stream->in_time[i], 0);
    stream->in_time_count = 0;
}

/* Returns NULL if there are more swapchains than are seen. */
static NOT_INLINED FrameStream *begin_stream(Frames *frames, uint64_t swapchain)
{
    pthread_mutex_lock(&frames->mutex);
    FrameStream *stream = find_stream(frames, 0);
    if (stream) {
        clear(stream);
        stream->id = ++frames->last_id;
        atomic_store(&stream->swapchain, swapchain);
    }
    pthread_mutex_unlock(&frames->mutex);
    return stream;
}

void frames_follow(Run *run, uint64_t swapchain, uint64_t next)
{
    Frames *frames = atomic_load_explicit(&run->frames, memory_order_acquire);
    if (!frames || !swapchain || process_is_forked_child())
        return;
    pthread_mutex_lock(&frames->mutex);
    FrameStream *stream = find_stream(frames, swapchain);
    if (stream)
        atomic_store(&stream->swapchain, next);
    pthread_mutex_unlock(&frames->mutex);
}

/* ---- what came late -------------------------------------------------------------------------------- */

/* Returns how long a frame usually takes. If half of the frames are generated ones, which follow another at once, one
 * in eight or more is not. */
static uint32_t usual(const uint32_t *values, unsigned value_count)
{
    uint32_t sorted[FRAME_HISTORY];
    for (unsigned i = 0; i < value_count; i++) {
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    if (!value_count)
        return 0;
    uint32_t median = sorted[value_count / 2];
    return median < FRAME_AT_ONCE_US ? sorted[value_count * 7 / 8] : median;
}

/* Raises a value of the device's to at least this. The counters of all threads add up to it. */
static void raise_to(_Atomic(uint64_t) *known, uint64_t value, uint64_t *counter)
{
    uint64_t before = atomic_load(known);
    while (before < value && !atomic_compare_exchange_weak(known, &before, value))
        ;
    if (before < value)
        count(counter, value - before);
}

/* Returns true if the frame took longer than it may. earlier: how many frames before this one have a duration. */
static NOT_INLINED bool judge(Run *run, Frames *frames, const FrameStream *stream, uint64_t earlier, uint64_t took_ns,
                              uint64_t pipelines_ns)
{
    PylayerCounters *totals = &counters_of(run)->totals;
    uint64_t usual_ns = 1000ull * usual(stream->recent_us, earlier < FRAME_HISTORY ? (unsigned)earlier : FRAME_HISTORY);
    bool late = 2 * took_ns > 3 * usual_ns;
    if (took_ns > 1000ull * FRAME_PAUSE_US && 2 * pipelines_ns < took_ns)
        return late;
    raise_to(&frames->longest_ns, took_ns, &totals->longest_frame_ns);
    if (!late)
        return false;
    raise_to(&frames->last_late_s, wall_clock_ns() / 1000000000, &totals->last_late_s);
    count(&totals->late_frames, 1);
    if (2 * pipelines_ns >= took_ns - usual_ns)
        count(&totals->late_by_pipelines, 1);
    return true;
}

/* Returns true if frames were presented in time after this moment, more than a queue holds. */
static bool went_on(FrameStream *stream, uint64_t since)
{
    for (unsigned i = 0; i <= FRAME_QUEUE; i++)
        if (atomic_load_explicit(&stream->in_time[i], memory_order_relaxed) <= since)
            return false;
    return true;
}

static void hold_up(Frames *frames, uint64_t busy_since, uint64_t start, uint64_t end)
{
    for (unsigned i = 0; i < FRAME_STREAMS; i++) {
        FrameStream *stream = &frames->streams[i];
        uint64_t last = atomic_load_explicit(&stream->last_ns, memory_order_relaxed);
        bool presents = atomic_load_explicit(&stream->thread, memory_order_relaxed) == thread_id();
        if (!atomic_load_explicit(&stream->swapchain, memory_order_relaxed) || !last || last >= end ||
            (!presents && went_on(stream, busy_since)))
            continue;
        atomic_fetch_add_explicit(&stream->pipelines_ns, end - (start > last ? start : last), memory_order_relaxed);
    }
}

uint64_t frames_begin_pipelines(void)
{
    return atomic_load_explicit(&every_device, memory_order_relaxed) && !process_is_forked_child() ? now_ns() : 0;
}

void frames_end_pipelines(uint64_t began_ns)
{
    static _Thread_local uint64_t busy_since, busy_until;
    if (!began_ns)
        return;
    uint64_t end = now_ns(), start = began_ns > busy_until ? began_ns : busy_until;
    if (start > busy_until + FRAME_GAP_NS)
        busy_since = start;
    busy_until = end;
    for (Frames *frames = atomic_load_explicit(&every_device, memory_order_acquire); frames; frames = frames->next)
        if (atomic_load_explicit(&frames->used, memory_order_relaxed))
            hold_up(frames, busy_since, start, end);
}

/* ---- a present ------------------------------------------------------------------------------------- */

/* Notes a frame that was not late, with the generated ones that follow it at once. */
static void note_in_time(FrameStream *stream, uint64_t time)
{
    const unsigned all = FRAME_QUEUE + 1;
    uint64_t last = stream->in_time[(stream->in_time_count + FRAME_QUEUE) % all];
    if (time - last >= 1000ull * FRAME_AT_ONCE_US)
        atomic_store_explicit(&stream->in_time[stream->in_time_count++ % all], time, memory_order_relaxed);
}

static void note_frame(Run *run, Frames *frames, FrameStream *stream, uint64_t time)
{
    uint64_t before = atomic_load_explicit(&stream->frames, memory_order_relaxed);
    uint64_t last = atomic_load_explicit(&stream->last_ns, memory_order_relaxed);
    uint64_t pipelines_ns = atomic_load_explicit(&stream->pipelines_ns, memory_order_relaxed);
    if (pipelines_ns)
        pipelines_ns = atomic_exchange_explicit(&stream->pipelines_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->last_ns, time, memory_order_relaxed);
    atomic_store_explicit(&stream->thread, thread_id(), memory_order_relaxed);
    atomic_store_explicit(&stream->frames, before + 1, memory_order_relaxed);
    if (frames->ring) {
        pthread_mutex_lock(&frames->mutex);
        frames->ring[frames->written++ % FRAME_RING] =
            (PylayerFrame){time, (uint32_t)before + 1, thread_id(), stream->id};
        pthread_mutex_unlock(&frames->mutex);
    }
    count(&counters_of(run)->totals.frames, 1);
    if (!before && atomic_compare_exchange_strong(&frames->first_ns, &(uint64_t){0}, time))
        count(&counters_of(run)->totals.first_frame_ns, time);
    uint64_t took_ns = before ? time - last : 0, took_us = took_ns / 1000;
    if (took_us <= FRAME_BUDGET_US ||
        !judge(run, frames, stream, before - 1, took_ns, pipelines_ns < took_ns ? pipelines_ns : took_ns))
        note_in_time(stream, time);
    if (before)
        stream->recent_us[(before - 1) % FRAME_HISTORY] = took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX;
}

void frames_see(Run *run, const VkPresentInfoKHR *info)
{
    Frames *frames = atomic_load_explicit(&run->frames, memory_order_acquire);
    if (!run->sees_frames || process_is_forked_child() || (!frames && !(frames = open_frames(run))))
        return;
    uint64_t time = now_ns();
    for (uint32_t i = 0; i < info->swapchainCount; i++) {
        uint64_t swapchain = (uint64_t)info->pSwapchains[i];
        FrameStream *stream = find_stream(frames, swapchain);
        if (!stream)
            stream = begin_stream(frames, swapchain);
        if (stream)
            note_frame(run, frames, stream, time);
    }
}

/* ---- for policy ------------------------------------------------------------------------------------ */

uint64_t frames_take(Run *run, PylayerFrame *out, uint64_t capacity, uint64_t *lost)
{
    Frames *frames = atomic_load_explicit(&run->frames, memory_order_acquire);
    uint64_t found = 0;
    if (!frames || !frames->ring)
        return 0;
    pthread_mutex_lock(&frames->mutex);
    if (frames->written - frames->taken > FRAME_RING) {
        *lost += frames->written - frames->taken - FRAME_RING;
        frames->taken = frames->written - FRAME_RING;
    }
    while (found < capacity && frames->taken < frames->written)
        out[found++] = frames->ring[frames->taken++ % FRAME_RING];
    pthread_mutex_unlock(&frames->mutex);
    return found;
}

void frames_free(Run *run)
{
    Frames *frames = atomic_load(&run->frames);
    if (!frames)
        return;
    for (unsigned i = 0; i < FRAME_STREAMS; i++)
        atomic_store(&frames->streams[i].swapchain, 0);
    free(frames->ring);
    atomic_store(&frames->used, false);
}
