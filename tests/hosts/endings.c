/* endings.c - ways to end, most of them with devices alive. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __aarch64__
#define INSTRUCTION_POINTER pc
#else
#define INSTRUCTION_POINTER gregs[REG_RIP]
#endif

static void *exit_from_thread(void *milliseconds)
{
    usleep(1000 * (useconds_t)atoi(milliseconds));
    exit(4);
}

/* After so many milliseconds, while main goes on creating pipelines. */
static void step_exit_in_thread(char **arguments)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, exit_from_thread, arguments[0]))
        die("no thread");
    for (;;)
        host_create_pipelines(host_next_pipeline++, 1);
}

static void exit_from_handler(int number)
{
    (void)number;
    exit(4);
}

/* Executable segments of the program, of the loader and of the layer. */
#define MAY_BE_INTERRUPTED 16

static struct {
    uintptr_t begin, end;
} may_be_interrupted[MAY_BE_INTERRUPTED];
static unsigned interruptible_segments;

static int note_segments(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *name = info->dlpi_name;
    if (*name && !strstr(name, "/libvulkan.so") && !strstr(name, "/libVkLayer_pylayer"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum && interruptible_segments < MAY_BE_INTERRUPTED; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        may_be_interrupted[interruptible_segments].begin = begin;
        may_be_interrupted[interruptible_segments++].end = begin + segment->p_memsz;
    }
    return 0;
}

/* exit() in a handler that interrupted malloc() or the driver hangs or crashes without the layer, too. */
static void exit_if_interruptible(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    uintptr_t interrupted = (uintptr_t)((ucontext_t *)context)->uc_mcontext.INSTRUCTION_POINTER;
    for (unsigned i = 0; i < interruptible_segments; i++)
        if (interrupted >= may_be_interrupted[i].begin && interrupted < may_be_interrupted[i].end)
            exit(4);
    ualarm(20, 0);
}

/* After so many microseconds, wherever main is just then in its own code, the loader's or the layer's. */
static void step_exit_in_handler(char **arguments)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO, .sa_sigaction = exit_if_interruptible};
    dl_iterate_phdr(note_segments, NULL);
    sigaction(SIGALRM, &action, NULL);
    ualarm((useconds_t)atoi(arguments[0]), 0);
    for (;;)
        host_create_pipelines(0, host_next_pipeline);
}

/* At the next moment when main holds a lock of somebody's (signal_under_lock.c, preloaded). */
static void step_exit_under_lock(char **unused)
{
    (void)unused;
    struct sigaction action = {.sa_handler = exit_from_handler};
    sigaction(SIGALRM, &action, NULL);
    atomic_int *armed = dlsym(RTLD_DEFAULT, "signal_under_lock_armed");
    if (!armed)
        die("signal_under_lock is not preloaded");
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
    die("no ending '%s'", arguments[0]);
}

static void *work_on(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    run_steps(rest_of_steps, NULL);
    return NULL;
}

/* main ends; the last thread to do so ends the process. */
static void step_main_thread_ends(char **unused)
{
    (void)unused;
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_on, NULL))
        die("no thread");
    pthread_exit(NULL);
}

static void use_at_exit(void)
{
    say("at exit: pipelines %d", host_create_pipelines(host_next_pipeline, 3));
    vkDestroyDevice(host_device, NULL);
    say("at exit: device destroyed");
}

static void step_use_at_exit(char **unused)
{
    (void)unused;
    atexit(use_at_exit);
}

/* Runs after every handler of exit() that was registered since the program started. */
static bool use_in_destructor;

__attribute__((destructor)) static void destructor(void)
{
    if (use_in_destructor)
        use_at_exit();
}

static void step_use_in_destructor(char **unused)
{
    (void)unused;
    use_in_destructor = true;
}

const Step ending_steps[] = {
    {"exit-in-thread", 1, step_exit_in_thread},       {"exit-in-handler", 1, step_exit_in_handler},
    {"exit-under-lock", 0, step_exit_under_lock},     {"end", 1, step_end},
    {"main-thread-ends", 0, step_main_thread_ends},   {"use-at-exit", 0, step_use_at_exit},
    {"use-in-destructor", 0, step_use_in_destructor}, {0},
};
