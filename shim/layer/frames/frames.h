/*
 * frames.h - sees the frames that a program presents: when, on which thread, and which of them came late.
 *
 * A frame of a swapchain lasts from one vkQueuePresentKHR to the next. It is late if it takes longer than a frame at 60
 * Hz, and 1.5 times what was usual before: the median, or, where most frames are generated ones that follow another at
 * once, what the others take. pylayer/store/timeline.py has the same rule. The hooks exist only for a device with
 * VK_KHR_swapchain, and allocate at its first present. A present costs a clock read and a few stores. Pipelines of all
 * devices of the process count: programs compile on one and present on another.
 */
#ifndef PYLAYER_FRAMES_H
#define PYLAYER_FRAMES_H

#include "run/run.h"

#define FRAME_BUDGET_US 16700u
/* A frame that takes longer is a pause (a hidden window, a loading screen), unless pipelines took half of it. */
#define FRAME_PAUSE_US 2000000u
#define FRAME_HISTORY 60u
/* A present that comes so soon after another one shows a generated frame. */
#define FRAME_AT_ONCE_US 4000u
/* Must be a power of two. 68 seconds at 60 frames a second: policy takes them about once a second. */
#define FRAME_RING 4096u
/* The most swapchains of a device that are seen at a time. */
#define FRAME_STREAMS 16u
/* Creations on another thread held up a frame if at most this many were presented in time while it was busy
 * with them. */
#define FRAME_QUEUE 2u
/* A thread that creates its next pipeline within this time is still busy. pylayer/report/late_frames.py has it, too. */
#define FRAME_GAP_NS 1000000u

/* The frames of a swapchain, and of those that replaced it. Vulkan allows one present at a time. */
typedef struct FrameStream {
    _Alignas(64) _Atomic(uint64_t) swapchain; /* 0: this stream is free */
    _Atomic(uint64_t) frames;                 /* presented so far */
    _Atomic(uint64_t) last_ns;                /* when the last one was presented, and on which thread */
    _Atomic(uint32_t) thread;
    uint32_t id;                                /* from 1; no other stream of the device has it */
    _Atomic(uint64_t) in_time[FRAME_QUEUE + 1]; /* when the last frames that were not late were presented */
    uint64_t in_time_count;
    _Atomic(uint64_t) pipelines_ns; /* that may have held up the next frame */
    uint32_t recent_us[FRAME_HISTORY];
} FrameStream;

/* The frames of a device. The memory stays when the device ends, for a later one: other threads may still read it. */
typedef struct Frames {
    struct Frames *next;
    _Atomic(bool) used;
    FrameStream streams[FRAME_STREAMS];
    pthread_mutex_t mutex; /* for who takes or frees a stream, and for the ring */
    uint32_t last_id;
    _Atomic(uint64_t) first_ns, longest_ns, last_late_s;
    uint64_t written, taken; /* how many frames were put into the ring, and taken by policy */
    PylayerFrame *ring;      /* NULL if the run has no timeline */
} Frames;

/* The program presents. */
void frames_see(Run *run, const VkPresentInfoKHR *info);
/* The frames of a swapchain go on in `next`; 0: they have ended. */
void frames_follow(Run *run, uint64_t swapchain, uint64_t next);
/* Returns the time before a call that creates pipelines; 0 if no program's frames need it. */
uint64_t frames_begin_pipelines(void);
/* The call has just ended. What of the time was noted for a call inside of it is not noted again. */
void frames_end_pipelines(uint64_t began_ns);
/* Copies the frames that were presented since the last call, at most `capacity`. Returns how many, and adds to *lost
 * those that were overwritten. Policy thread only. */
uint64_t frames_take(Run *run, PylayerFrame *out, uint64_t capacity, uint64_t *lost);
void frames_free(Run *run);

#endif
