/*
 * preloaded.c - a library around the program's: for LD_PRELOAD, for LD_AUDIT, and for dlopen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* ---- dlopen -------------------------------------------------------------------------------------------------- */

/* Whether the process says of itself that it has more rights than its caller. */
static bool is_elevated;

unsigned long getauxval(unsigned long type)
{
    unsigned long (*real)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return is_elevated && type == AT_SECURE ? 1 : real(type);
}

/* Steps of the host, which so run inside of dlopen and dlclose (loaders.c). */
__attribute__((weak)) void steps_inside(void);

__attribute__((constructor)) static void begin(void)
{
    is_elevated = getenv("TEST_ELEVATED") != NULL;
    if (steps_inside)
        steps_inside();
}

__attribute__((destructor)) static void end(void)
{
    if (steps_inside)
        steps_inside();
}

/* ---- LD_PRELOAD ---------------------------------------------------------------------------------------------- */

/* Once armed, the main thread gets a signal in its next pthread_cond_signal or pthread_cond_broadcast, which callers
 * mostly call with a mutex held. */
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

/* Says on standard error which variables a thread asks for that is the layer's, by its name. */
static void watch(const char *variable)
{
    char name[17] = "", line[200];
    prctl(PR_GET_NAME, name);
    if (strncmp(name, "pylayer", 7) != 0)
        return;
    int length = snprintf(line, sizeof line, "%s asks for %s\n", name, variable);
    (void)!write(2, line, (size_t)length);
}

char *getenv(const char *variable)
{
    char *(*real)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "getenv");
    watch(variable);
    return real(variable);
}

char *secure_getenv(const char *variable)
{
    char *(*real)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "secure_getenv");
    watch(variable);
    return real(variable);
}

/* ---- LD_AUDIT ------------------------------------------------------------------------------------------------ */

unsigned int la_version(unsigned int version)
{
    return version;
}

/* Takes 3 ms to find each library below _private, which a slow disk does as well. */
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
    if (flag == LA_SER_ORIG && strstr(name, "/_private/"))
        nanosleep(&(struct timespec){0, 3000000}, NULL);
    return (char *)name;
}
