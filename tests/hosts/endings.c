/* endings.c - ways to end, most of them with devices alive. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *exit_from_thread(void *milliseconds)
{
    usleep(1000 * (useconds_t)atoi(milliseconds));
    exit(4);
}

/* After so many milliseconds, while main goes on creating pipelines. */
static void step_exit_in_thread(char **arguments)
{
    start_thread(exit_from_thread, arguments[0]);
    for (;;)
        host_create_pipelines(host_next_pipeline++, 1);
}

static void exit_from_handler(int number)
{
    exit(4);
}

/* At the next moment when main holds a lock of somebody's (preloaded.c). */
static void step_exit_under_lock(char **unused)
{
    struct sigaction action = {.sa_handler = exit_from_handler};
    sigaction(SIGALRM, &action, NULL);
    atomic_int *armed = dlsym(RTLD_DEFAULT, "signal_under_lock_armed");
    if (!armed)
        die("preloaded.c is not preloaded");
    atomic_store(armed, 1);
}

static void step_end(char **arguments)
{
    if (strcmp(arguments[0], "exit") == 0)
        exit(4);
    if (strcmp(arguments[0], "_exit") == 0)
        _exit(4);
    if (strcmp(arguments[0], "quick_exit") == 0)
        quick_exit(4);
    if (strcmp(arguments[0], "abort") == 0)
        abort();
    if (strcmp(arguments[0], "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(arguments[0], "terminate") == 0)
        kill(getpid(), SIGTERM);
    die("no ending '%s'", arguments[0]);
}

/* The rest of the steps, by the same program anew in the same process. */
static void step_exec(char **unused)
{
    char *words[64] = {"host"};
    for (unsigned i = 0; rest_of_steps[i] && i + 2 < sizeof words / sizeof *words; i++)
        words[i + 1] = rest_of_steps[i];
    execv("/proc/self/exe", words);
    die("nothing is executed");
}

static void *work_beside(void *unused)
{
    run_steps(rest_of_steps, "join");
    return NULL;
}

/* What stands before `join` is run by another thread, and main waits for its end. */
static void step_thread(char **unused)
{
    pthread_join(start_thread(work_beside, NULL), NULL);
    skip_past("join");
}

static void *work_on(void *unused)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    run_steps(rest_of_steps, NULL);
    return NULL;
}

/* main ends; the last thread to do so ends the process. */
static void step_main_thread_ends(char **unused)
{
    start_thread(work_on, NULL);
    pthread_exit(NULL);
}

static struct timespec relay_ends;

/* Each thread starts the next one and ends, until it is time. Then the rest of the steps runs in the last one. */
static void *relay(void *unused)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > relay_ends.tv_sec || (now.tv_sec == relay_ends.tv_sec && now.tv_nsec > relay_ends.tv_nsec)) {
        run_steps(rest_of_steps, NULL);
        exit(0);
    }
    pthread_detach(start_thread(relay, NULL));
    return unused;
}

/* For so many seconds. */
static void step_relay(char **arguments)
{
    clock_gettime(CLOCK_MONOTONIC, &relay_ends);
    relay_ends.tv_sec += atoi(arguments[0]);
    relay(NULL);
    pthread_exit(NULL);
}

static char **later;
static bool in_destructor;

static void run_later(void)
{
    run_steps(later, "then");
}

static void run_at_thread_end(void *unused)
{
    run_later();
}

/* Runs after every handler of exit() that was registered since the program started. */
__attribute__((destructor)) static void destructor(void)
{
    if (in_destructor)
        run_later();
}

/* at exit|quick_exit|thread-end|destructor STEP ... then: these steps are run at that moment, in a handler, or in the
 * destructor of a value of this thread's or of the program. */
static void step_at(char **arguments)
{
    static pthread_key_t key;
    later = rest_of_steps;
    skip_past("then");
    if (strcmp(arguments[0], "exit") == 0)
        atexit(run_later);
    else if (strcmp(arguments[0], "quick_exit") == 0)
        at_quick_exit(run_later);
    else if (strcmp(arguments[0], "destructor") == 0)
        in_destructor = true;
    else if (pthread_key_create(&key, run_at_thread_end) || pthread_setspecific(key, &key))
        die("no key");
}

const Step ending_steps[] = {
    {"exit-in-thread", 1, step_exit_in_thread},
    {"exit-under-lock", 0, step_exit_under_lock},
    {"end", 1, step_end},
    {"exec", 0, step_exec},
    {"thread", 0, step_thread},
    {"main-thread-ends", 0, step_main_thread_ends},
    {"relay", 1, step_relay},
    {"at", 1, step_at},
    {0},
};
