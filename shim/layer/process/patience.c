/*
 * patience.c - mutexes whose holder may hang in the driver.
 *
 * Merges run one at a time. If a driver never returns from a merge of stored data, it would block all of the program's
 * threads for ever, although without the layer they would merge nothing. So each thread waits once, and then goes on
 * without stored data.
 */
#include <errno.h>
#include <time.h>

#include "device/device.h"

/* Any merge that ends takes less: NVIDIA's driver merges 2,000 pipelines in 18 ms (measured). */
#define PATIENCE_S 2

void patient_init(PatientMutex *patient)
{
    pthread_mutex_init(&patient->mutex, NULL);
    atomic_init(&patient->hangs, false);
}

void patient_destroy(PatientMutex *patient)
{
    pthread_mutex_destroy(&patient->mutex);
}

bool patient_lock(PatientMutex *patient)
{
    static atomic_bool said;
    if (pthread_mutex_trylock(&patient->mutex) != 0) {
        if (atomic_load(&patient->hangs))
            return false;
        /* POSIX requires the wall clock here. If the clock is set meanwhile, the wait is only shorter or longer. */
        struct timespec deadline;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += PATIENCE_S;
        if (pthread_mutex_timedlock(&patient->mutex, &deadline) != 0) {
            atomic_store(&patient->hangs, true);
            if (!atomic_exchange(&said, true))
                log_line(PYLAYER_LOG_WARN,
                         "the driver has been merging pipeline caches for %d s; "
                         "the program goes on without stored pipelines",
                         PATIENCE_S);
            return false;
        }
    }
    if (atomic_load_explicit(&patient->hangs, memory_order_relaxed))
        atomic_store(&patient->hangs, false);
    return true;
}

void patient_unlock(PatientMutex *patient)
{
    pthread_mutex_unlock(&patient->mutex);
}
