/* process.c - children, users, environment. */
#define _GNU_SOURCE
#include "host.h"

#include <grp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int wait_for(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* What stands before 'join' is run by the child, which then ends; what stands behind, by the parent afterwards. */
static void run_child(pid_t child, bool by_exit)
{
    if (child < 0)
        die("no child");
    if (child == 0) {
        run_steps(rest_of_steps, "join");
        if (by_exit)
            exit(7);
        _exit(7);
    }
    say("child ended with %d", wait_for(child));
    skip_past("join");
}

static void step_fork(char **unused)
{
    run_child(fork(), false);
}

static void step_fork_exit(char **unused)
{
    run_child(fork(), true);
}

/* Returns whether it is another thread, and does not sleep. */
static bool is_awake(pid_t thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = thread != gettid() ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    const char *state = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    fclose(file);
    return !state || state[2] != 'S';
}

/* The child of a raw system call inherits locks that other threads hold at that moment, of malloc and of the
 * dynamic linker, and there nobody releases them. So the program waits, at most 10 s, until its threads have
 * slept for 100 ms. */
static void await_rest(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int tries = 0, calm = 0; tries < 1000 && calm < 10; tries++) {
        calm = count_threads(is_awake) == 0 ? calm + 1 : 0;
        nanosleep(&pause, NULL);
    }
}

/* Without the C library's handlers: what runtimes and sandboxes with a clone of their own do. */
static void step_raw_fork(char **unused)
{
    await_rest();
    run_child((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), true);
}

static uint64_t milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* Each forks the next, as daemons, zygotes and shells do. */
static void fork_generations(int count)
{
    if (count == 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        fork_generations(count - 1);
        _exit(0);
    }
    if (child < 0 || wait_for(child) != 0)
        _exit(1);
}

/* A fork takes a millisecond; one that waits for a lock in vain, a second. */
#define GENERATION_MS 500

static void step_generations(char **arguments)
{
    int count = atoi(arguments[0]);
    uint64_t begin = milliseconds();
    fork_generations(count);
    say("generations: %s", milliseconds() - begin < (uint64_t)count * GENERATION_MS ? "in time" : "late");
}

static void step_vfork(char **arguments)
{
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", arguments[0], (char *)NULL);
        _exit(1);
    }
    say("vfork: %d", wait_for(child));
}

static void step_spawn(char **arguments)
{
    pid_t child = -1;
    char *words[] = {"sh", "-c", arguments[0], NULL};
    int result = posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ);
    say("spawn: %d %d", result, wait_for(child));
}

/* A handful of children made and reaped, as a build tool does while it computes. */
static void step_children(char **arguments)
{
    int wrong = 0;
    for (int i = atoi(arguments[0]); i > 0; i--) {
        pid_t child = fork();
        if (child == 0)
            _exit(5);
        wrong += host_create_pipelines(host_next_pipeline++, 1) != VK_SUCCESS;
        wrong += wait_for(child) != 5;
    }
    say("children: %d wrong", wrong);
}

static void step_become_nobody(char **unused)
{
    say("setuid: %d", setgroups(0, NULL) || setgid(65534) || setuid(65534));
}

/* ---- environment -------------------------------------------------------------------------------- */

static void step_clearenv(char **unused)
{
    say("clearenv %d", clearenv());
}

static void step_setenv(char **arguments)
{
    say("setenv %d", setenv(arguments[0], arguments[1], 1));
}

static void step_variable(char **arguments)
{
    const char *value = getenv(arguments[0]);
    say("%s is %s", arguments[0], value ? value : "not set");
}

/* On this thread, so that nothing of the program reads the environment meanwhile: each new name moves the array. */
static void step_environment_storm(char **arguments)
{
    uint64_t end = milliseconds() + (uint64_t)atoi(arguments[0]);
    char name[32];
    for (unsigned i = 0; milliseconds() < end; i++) {
        snprintf(name, sizeof name, "STORM_%u", i % 500);
        setenv(name, "some text that has to be somewhere", 1);
        if (i % 500 == 499)
            for (unsigned j = 0; j < 500; j++) {
                snprintf(name, sizeof name, "STORM_%u", j);
                unsetenv(name);
            }
    }
    say("environment changed");
}

static void step_local_time(char **arguments)
{
    setenv("TZ", arguments[0], 1);
    time_t when = 86400;
    struct tm broken_down;
    localtime_r(&when, &broken_down);
    say("local time %02d:%02d", broken_down.tm_hour, broken_down.tm_min);
}

static void step_sleep(char **arguments)
{
    long ms = atol(arguments[0]);
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left))
        ;
}

const Step process_steps[] = {
    {"fork", 0, step_fork},
    {"fork-exit", 0, step_fork_exit},
    {"raw-fork", 0, step_raw_fork},
    {"generations", 1, step_generations},
    {"vfork", 1, step_vfork},
    {"spawn", 1, step_spawn},
    {"children", 1, step_children},
    {"become-nobody", 0, step_become_nobody},
    {"clearenv", 0, step_clearenv},
    {"setenv", 2, step_setenv},
    {"variable", 1, step_variable},
    {"environment-storm", 1, step_environment_storm},
    {"local-time", 1, step_local_time},
    {"sleep", 1, step_sleep},
    {0},
};
