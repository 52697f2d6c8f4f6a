/* spread_lock.h - a reader-writer lock whose readers do not contend with each other */
#ifndef PYLAYER_SPREAD_LOCK_H
#define PYLAYER_SPREAD_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- patience.c: mutexes whose holder may hang in the driver ---------------------------------------- */

/* Locks a mutex. Returns false if that takes longer than this. */
bool mutex_lock_within(pthread_mutex_t *mutex, uint64_t duration_ns);

/* The holder is in the driver with stored data and may never return. All zeros are an unlocked one: mutexes are not
 * initialized, because in glibc and musl PTHREAD_MUTEX_INITIALIZER is all zeros, and nothing has to be destroyed. */
typedef struct PatientMutex {
    pthread_mutex_t mutex;
    atomic_bool hangs;   /* a wait timed out; nobody waits again until the mutex was free */
    atomic_ullong turns; /* how often it was unlocked */
} PatientMutex;

/* Returns false if the mutex was not locked because one holder has been in the driver for 2 s. The caller must do
 * without. */
bool patient_lock(PatientMutex *patient);
void patient_unlock(PatientMutex *patient);

/* ---- spread_lock.c ------------------------------------------------------------------------------ */

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
} SpreadLock;

/* for_long: the caller holds the lock for more than microseconds; pass the same value to unlock. Not recursive: a
 * waiting writer takes precedence. Returns false, without the lock, if a writer has been writing for seconds. */
bool spread_lock_read(SpreadLock *lock, bool for_long);
void spread_unlock_read(SpreadLock *lock, bool for_long);
/* Waits for the readers to unlock. Returns false, without the lock, if one holds it for long, or hangs. */
bool spread_try_write(SpreadLock *lock);
void spread_unlock_write(SpreadLock *lock);

#endif
