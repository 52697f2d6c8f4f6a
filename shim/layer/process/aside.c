/* aside.c - see aside.h */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "process/clock.h"
#include "process/aside.h"
#include "process/process.h"

/* The work has a few paths on its stack. What the program's thread-local variables take is in there, too. */
#define STACK_BYTES (256u << 10)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and done and abandoned */
static pthread_cond_t changed;
static unsigned hanging;
static _Thread_local bool here; /* this is such a thread */

static void init(void)
{
    cond_init_monotonic(&changed);
}

static void *run(void *argument)
{
    Aside *aside = argument;
    pthread_setname_np(pthread_self(), OUR_THREADS "files");
    here = true;
    aside->work(aside);
    pthread_mutex_lock(&mutex);
    aside->done = true;
    bool abandoned = aside->abandoned;
    hanging -= abandoned;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (abandoned)
        aside->discard(aside);
    return NULL;
}

static bool wait_for(Aside *aside, uint64_t wait_ns)
{
    struct timespec deadline = deadline_at(now_ns() + wait_ns);
    int waited = 0, cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    while (!aside->done && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&changed, &mutex, &deadline);
    bool done = aside->done;
    aside->abandoned = !done;
    hanging += !done;
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    return done;
}

bool aside_do(Aside *aside, bool local, uint64_t wait_ns)
{
    if (local || here) {
        aside->work(aside);
        return true;
    }
    pthread_once(&once, init);
    if (!aside_hangs() && thread_start(run, aside, STACK_BYTES) == 0)
        return wait_for(aside, wait_ns);
    aside->discard(aside);
    return false;
}

void aside_settle(uint64_t wait_ns)
{
    if (here)
        return;
    pthread_once(&once, init);
    struct timespec deadline = deadline_at(now_ns() + wait_ns);
    int waited = 0, cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    while (hanging > 0 && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&changed, &mutex, &deadline);
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
}

bool aside_hangs(void)
{
    pthread_mutex_lock(&mutex);
    bool hangs = hanging > 0;
    pthread_mutex_unlock(&mutex);
    return hangs;
}
