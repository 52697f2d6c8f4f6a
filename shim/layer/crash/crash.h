/* crash.h - what a device has of crashes: the sentinel that tells the next process, and what earlier ones told this */
#ifndef PYLAYER_CRASH_H
#define PYLAYER_CRASH_H

#include "crash/added_calls.h"
#include "mailbox/mailbox.h"

typedef struct Crash {
    AddedCalls added_calls;              /* which of them are switched off */
    _Atomic(PylayerMark *) marks;        /* the crash sentinel; NULL if there is none */
    char *sentinel_path;                 /* the sentinel's file, if the layer made it */
    int sentinel_fd;                     /* open on overlayfs alone; 0: none */
    ino_t sentinel_inode;                /* of that file */
    atomic_bool holds_stored;            /* stored data was given to the driver */
    _Atomic(struct Suspects *) suspects; /* NULL if nothing is suspected */
    bool lost;                           /* the last run may have ended before what it compiled was stored */
} Crash;

/* Returns how long a compile waits until it is stored, so that the end that lost it, or set it aside, does not lose it again
 * in each run: 0, if that has not happened. */
static inline int64_t stored_wait_ns(const Crash *crash)
{
    return crash->lost || atomic_load_explicit(&crash->suspects, memory_order_acquire) ? FLUSH_WAIT_NS : 0;
}

#endif
