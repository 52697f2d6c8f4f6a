/* patience.h - mutexes behind which the driver may hang */
#ifndef PYLAYER_PATIENCE_H
#define PYLAYER_PATIENCE_H

#include "base.h"

/* Whoever holds it is in the driver with what is stored, which may never come back from there. */
typedef struct PatientMutex {
    pthread_mutex_t mutex;
    atomic_bool hangs; /* somebody waited in vain; nobody waits until it was free again */
} PatientMutex;

void patient_init(PatientMutex *patient);
void patient_destroy(PatientMutex *patient);
/* False: it is not held. Its holder has been in the driver for 2 s, and the caller does without. */
bool patient_lock(PatientMutex *patient);
void patient_unlock(PatientMutex *patient);

#endif
