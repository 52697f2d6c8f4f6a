/* spread_lock.h - a lock that readers take without meeting each other */
#ifndef PYLAYER_SPREAD_LOCK_H
#define PYLAYER_SPREAD_LOCK_H

#include "process/patience.h"

#define CACHE_LINE_BYTES 64

/* What all threads write again and again stands once for each of so many groups of threads, in lines of its own. */
#define THREAD_SLOTS 16
/* From 1, in the order of the first call. */
unsigned thread_number(void);
unsigned thread_slot(void);

typedef struct SpreadLock {
    struct {
        _Alignas(CACHE_LINE_BYTES) atomic_uint readers;
    } slots[THREAD_SLOTS];
    _Alignas(CACHE_LINE_BYTES) atomic_bool writing;
    PatientMutex writer; /* held while writing */
    sem_t left;          /* posted by readers who leave meanwhile */
} SpreadLock;

void spread_lock_init(SpreadLock *lock);
void spread_lock_destroy(SpreadLock *lock);
/* for_long: more than microseconds. Same value for unlocking. Not recursive: a waiting writer goes first. False: it is not
 * held, for a writer has been writing for seconds. */
bool spread_lock_read(SpreadLock *lock, bool for_long);
void spread_unlock_read(SpreadLock *lock, bool for_long);
/* Waits for readers, but for none that has the lock for long. */
bool spread_try_write(SpreadLock *lock);
void spread_unlock_write(SpreadLock *lock);

#endif
