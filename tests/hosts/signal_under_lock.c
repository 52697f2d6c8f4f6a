/*
 * signal_under_lock.c - preloaded: once armed, the main thread gets a signal in its next pthread_cond_signal or
 * pthread_cond_broadcast, which callers mostly call with a mutex held.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

atomic_int signal_under_lock_armed;

static void strike(void)
{
    if (gettid() == getpid() && atomic_exchange(&signal_under_lock_armed, 0))
        raise(SIGALRM);
}

int pthread_cond_signal(pthread_cond_t *condition)
{
    int (*real)(pthread_cond_t *) = (int (*)(pthread_cond_t *))dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
    strike();
    return real(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    int (*real)(pthread_cond_t *) =
        (int (*)(pthread_cond_t *))dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
    strike();
    return real(condition);
}
