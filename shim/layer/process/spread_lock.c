/*
 * spread_lock.c - a reader-writer lock for data that many threads read at once and few ever write.
 *
 * A reader counts itself in a cache line that it shares with few other threads, so readers do not slow each other down
 * as those of a pthread_rwlock_t do. A writer raises a flag and then reads all the counts. Either the reader sees the
 * flag or the writer sees the reader, because both write first and then read, sequentially consistent.
 */
#define _GNU_SOURCE /* sem_clockwait */
#include "process/spread_lock.h"

#include <errno.h>

#include "process/clock.h"
#include "process/process.h"

/* A reader that holds the lock for long counts this much. A slot always has fewer threads than this. */
#define LONG_READER 0x10000u

unsigned thread_number(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned number;
    if (number == 0)
        number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
    return number;
}

unsigned thread_slot(void)
{
    return thread_number() % THREAD_SLOTS;
}

void spread_lock_init(SpreadLock *lock)
{
    patient_init(&lock->writer);
    sem_init(&lock->left, 0, 0);
}

void spread_lock_destroy(SpreadLock *lock)
{
    patient_destroy(&lock->writer);
    sem_destroy(&lock->left);
}

static void leave(SpreadLock *lock, unsigned amount)
{
    atomic_fetch_sub(&lock->slots[thread_slot()].readers, amount);
    if (atomic_load(&lock->writing))
        sem_post(&lock->left);
}

bool spread_lock_read(SpreadLock *lock, bool for_long)
{
    unsigned amount = for_long ? LONG_READER : 1;
    atomic_uint *readers = &lock->slots[thread_slot()].readers;
    atomic_fetch_add(readers, amount);
    while (atomic_load(&lock->writing)) {
        leave(lock, amount);
        if (!patient_lock(&lock->writer))
            return false;
        patient_unlock(&lock->writer);
        atomic_fetch_add(readers, amount);
    }
    return true;
}

void spread_unlock_read(SpreadLock *lock, bool for_long)
{
    leave(lock, for_long ? LONG_READER : 1);
}

static unsigned most_readers(SpreadLock *lock)
{
    unsigned most = 0;
    for (unsigned i = 0; i < THREAD_SLOTS; i++) {
        unsigned readers = atomic_load(&lock->slots[i].readers);
        most = readers > most ? readers : most;
    }
    return most;
}

/* Half of the time that readers wait for a writer (patience.c), so that the writer is the first who goes on. */
#define PATIENCE_NS 1000000000ull

/* A reader of a VkPipelineCache is in the driver and may hang there. After the first writer no other waits for it. */
static bool wait_for_reader(SpreadLock *lock)
{
    struct timespec deadline = deadline_at(now_ns() + PATIENCE_NS);
    if (atomic_load(&lock->hangs))
        return false;
    int result, cancellation = cancellation_off();
    do
        result = sem_clockwait(&lock->left, CLOCK_MONOTONIC, &deadline);
    while (result != 0 && errno == EINTR);
    cancellation_restore(cancellation);
    if (result != 0)
        atomic_store(&lock->hangs, true);
    return result == 0;
}

bool spread_try_write(SpreadLock *lock)
{
    /* Without patience, because no other writer hangs: a merge is written under merge_mutex, one at a time, and writers of
     * tables call no driver. */
    pthread_mutex_lock(&lock->writer.mutex);
    while (sem_trywait(&lock->left) == 0)
        continue; /* discards posts meant for an earlier writer */
    atomic_store(&lock->writing, true);
    for (unsigned readers; (readers = most_readers(lock)) != 0;) {
        if (readers >= LONG_READER || !wait_for_reader(lock)) {
            spread_unlock_write(lock);
            return false;
        }
    }
    if (atomic_load_explicit(&lock->hangs, memory_order_relaxed))
        atomic_store(&lock->hangs, false);
    return true;
}

void spread_unlock_write(SpreadLock *lock)
{
    atomic_store(&lock->writing, false);
    patient_unlock(&lock->writer);
}
