/* spread_lock.h - a reader-writer lock whose readers do not contend with each other */
#ifndef PYLAYER_SPREAD_LOCK_H
#define PYLAYER_SPREAD_LOCK_H

#include <semaphore.h>

#include "process/patience.h"

#define CACHE_LINE_BYTES 64

/* Data that all threads keep writing exists once for each of this many groups of threads, in cache lines of its
 * own. */
#define THREAD_SLOTS 16
/* Returns this thread's number: from 1, in the order in which threads first call it. */
unsigned thread_number(void);
unsigned thread_slot(void);

typedef struct SpreadLock {
    struct {
        _Alignas(CACHE_LINE_BYTES) atomic_uint readers;
    } slots[THREAD_SLOTS];
    _Alignas(CACHE_LINE_BYTES) atomic_bool writing;
    atomic_bool hangs;   /* a writer waited in vain for a reader */
    PatientMutex writer; /* held by the writer */
    sem_t left;          /* posted by readers that unlock while a writer waits */
} SpreadLock;

void spread_lock_init(SpreadLock *lock);
void spread_lock_destroy(SpreadLock *lock);
/* for_long: the caller holds the lock for more than microseconds; pass the same value to unlock. Not recursive: a
 * waiting writer takes precedence. Returns false, without the lock, if a writer has been writing for seconds. */
bool spread_lock_read(SpreadLock *lock, bool for_long);
void spread_unlock_read(SpreadLock *lock, bool for_long);
/* Waits for the readers to unlock. Returns false, without the lock, if one holds it for long, or hangs. */
bool spread_try_write(SpreadLock *lock);
void spread_unlock_write(SpreadLock *lock);

#endif
