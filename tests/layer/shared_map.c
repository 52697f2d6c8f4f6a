/* shim/layer/process/shared_map.c by itself: what is found after a change that waited in vain for a thread
 * that reads, and after one during which the whole process was stopped. Then it says the same of patience.c: whether a
 * mutex could be locked. */
#define _GNU_SOURCE
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
}

static SharedMap map;
static PatientMutex patient;
static atomic_bool holds;

/* Holds both locks while the process is stopped, and until it has run for a while after that. */
static void *hold(void *unused)
{
    struct timespec used;
    spread_lock_read(&map.lock, false);
    patient_lock(&patient);
    atomic_store(&holds, true);
    usleep(200000);
    kill(getpid(), SIGSTOP);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_nsec < 50000000);
    spread_unlock_read(&map.lock, false);
    patient_unlock(&patient);
    return unused;
}

static void *lock_patiently(void *unused)
{
    return patient_lock(&patient) ? &patient : unused;
}

static void wait_while_stopped(void)
{
    pthread_t holder, waiter;
    void *locked;
    pthread_create(&holder, NULL, hold, NULL);
    while (!atomic_load(&holds))
        ;
    pthread_create(&waiter, NULL, lock_patiently, NULL);
    shared_map_put(&map, 1, 20, 2);
    pthread_join(waiter, &locked);
    pthread_join(holder, NULL);
    printf("%u %d\n", (unsigned)shared_map_find(&map, 1), locked != NULL);
}

int main(int count, char **arguments)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER, zeros;
    if (memcmp(&unlocked, &zeros, sizeof zeros) != 0) /* the layer initializes none */
        return 1;
    shared_map_put(&map, 1, 10, 2);
    if (arguments[1][0] == 's') {
        wait_while_stopped();
        return 0;
    }
    spread_lock_read(&map.lock, false);
    if (arguments[1][0] == 'r')
        shared_map_remove(&map, 1);
    else
        shared_map_put(&map, 1, 20, 2);
    spread_unlock_read(&map.lock, false);
    shared_map_put(&map, 2, 30, 2);
    printf("%u %u\n", (unsigned)shared_map_find(&map, 1), (unsigned)shared_map_find(&map, 2));
    return 0;
}
