/* patience.h - mutexes whose holder may hang in the driver */
#ifndef PYLAYER_PATIENCE_H
#define PYLAYER_PATIENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Locks a mutex. Returns false if that takes longer than this. */
bool mutex_lock_within(pthread_mutex_t *mutex, uint64_t duration_ns);

/* The holder is in the driver with stored data and may never return. */
typedef struct PatientMutex {
    pthread_mutex_t mutex;
    atomic_bool hangs;   /* a wait timed out; nobody waits again until the mutex was free */
    atomic_ullong turns; /* how often it was unlocked */
} PatientMutex;

void patient_init(PatientMutex *patient);
void patient_destroy(PatientMutex *patient);
/* Returns false if the mutex was not locked because one holder has been in the driver for 2 s. The caller must do
 * without. */
bool patient_lock(PatientMutex *patient);
void patient_unlock(PatientMutex *patient);

#endif
