/*
 * patience.c - mutexes whose holder may hang in the driver.
 *
 * Merges run one at a time. If a driver never returns from a merge of stored data, it would block all of the program's
 * threads for ever, although without the layer they would merge nothing. So each thread waits once, and then goes on
 * without stored data.
 */
#define _GNU_SOURCE
#include "process/spread_lock.h"

#include "process/clock.h"
#include "process/log.h"

/* Any merge that ends takes less: NVIDIA's driver merges 2,000 pipelines in 18 ms (measured). */
#define PATIENCE_S 2ull
#define WAITS 4

bool mutex_lock_within(pthread_mutex_t *mutex, uint64_t duration_ns)
{
#ifdef __SANITIZE_THREAD__ /* GCC's does not know pthread_mutex_clocklock and reports the unlock */
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(duration_ns / 1000000000 + 1);
    return pthread_mutex_timedlock(mutex, &deadline) == 0;
#else
    struct timespec deadline = deadline_at(now_ns() + duration_ns);
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &deadline) == 0;
#endif
}

/* Returns false if nobody unlocked the mutex for so long. Many threads that take turns wait longer: a thread may be the
 * last of thousands. While somebody stops the process, only one of the waits ends. */
static bool lock_in_time(PatientMutex *patient)
{
    const uint64_t wait_ns = PATIENCE_S * 1000000000 / WAITS;
    for (unsigned waits = 0; waits < WAITS;) {
        uint64_t turns = atomic_load(&patient->turns);
        if (mutex_lock_within(&patient->mutex, wait_ns))
            return true;
        waits = atomic_load(&patient->turns) == turns ? waits + 1 : 0;
    }
    return false;
}

bool patient_lock(PatientMutex *patient)
{
    static atomic_bool said;
    if (pthread_mutex_trylock(&patient->mutex) != 0) {
        if (atomic_load(&patient->hangs))
            return false;
        if (!lock_in_time(patient)) {
            atomic_store(&patient->hangs, true);
            if (!atomic_exchange(&said, true))
                log_line(PYLAYER_LOG_WARN,
                         "the driver has been merging pipeline caches for %llu s; "
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
    atomic_fetch_add_explicit(&patient->turns, 1, memory_order_relaxed);
    pthread_mutex_unlock(&patient->mutex);
}
