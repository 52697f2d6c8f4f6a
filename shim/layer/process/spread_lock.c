/*
 * spread_lock.c - a reader-writer lock for data that many threads read at once and few ever write.
 *
 * A reader counts itself in a cache line that it shares with few other threads, so readers do not slow each other down
 * as those of a pthread_rwlock_t do. A writer raises a flag and then reads all the counts. Either the reader sees the
 * flag or the writer sees the reader, because both write first and then read, sequentially consistent.
 */
#include "process/spread_lock.h"

#include <sched.h>

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

bool spread_lock_read(SpreadLock *lock, bool for_long)
{
    atomic_uint *readers = &lock->slots[thread_slot()].readers;
    atomic_fetch_add(readers, for_long ? LONG_READER : 1);
    while (atomic_load(&lock->writing)) {
        spread_unlock_read(lock, for_long);
        if (!patient_lock(&lock->writer))
            return false;
        patient_unlock(&lock->writer);
        atomic_fetch_add(readers, for_long ? LONG_READER : 1);
    }
    return true;
}

void spread_unlock_read(SpreadLock *lock, bool for_long)
{
    atomic_fetch_sub(&lock->slots[thread_slot()].readers, for_long ? LONG_READER : 1);
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
/* Readers that are waited for hold the lock for less than this, unless their thread does not run. A sleep takes longer,
 * and all who come to read wait for its end. */
#define READER_NS 100000
/* A longer turn counts as this long: somebody stopped the process meanwhile. */
#define TURN_NS 10000000

/* Returns false if a reader holds the lock for long, or hangs, as one of a VkPipelineCache may in the driver. Only the
 * first writer waits for a reader that hangs. */
static bool wait_for_readers(SpreadLock *lock)
{
    uint64_t last = now_ns(), give_up = atomic_load(&lock->hangs) ? 0 : PATIENCE_NS, waited = 0;
    int cancellation = cancellation_off();
    unsigned readers;
    while ((readers = most_readers(lock)) != 0 && readers < LONG_READER && waited < give_up) {
        if (waited < READER_NS)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, READER_NS}, NULL);
        uint64_t now = now_ns();
        waited += now - last < TURN_NS ? now - last : TURN_NS;
        last = now;
    }
    cancellation_restore(cancellation);
    if (readers < LONG_READER)
        atomic_store(&lock->hangs, readers != 0);
    return readers == 0;
}

bool spread_try_write(SpreadLock *lock)
{
    /* Without patience, because no other writer hangs: a merge is written under merge_mutex, one at a time, and writers
     * of tables call no driver. */
    pthread_mutex_lock(&lock->writer.mutex);
    atomic_store(&lock->writing, true);
    bool writes = wait_for_readers(lock);
    if (!writes)
        spread_unlock_write(lock);
    return writes;
}

void spread_unlock_write(SpreadLock *lock)
{
    atomic_store(&lock->writing, false);
    patient_unlock(&lock->writer);
}
