/* threads.c - which threads there are and what only one thread may do, as sandboxes look at it; what becomes of a
 * thread; memory that stays; how much stack a call takes. */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static bool is_there(pid_t thread)
{
    return thread > 0;
}

static bool has_filter(pid_t thread)
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        found |= strncmp(line, "Seccomp:\t2", 10) == 0;
    if (file)
        fclose(file);
    return found;
}

static void step_threads(char **unused)
{
    say("threads: %d", count_threads(is_there));
}

/* Returns whether a thread has real-time priority, a nice value below 0, or fewer processors than main. */
static bool is_privileged(pid_t thread)
{
    cpu_set_t its, of_main;
    return sched_getscheduler(thread) == SCHED_FIFO || getpriority(PRIO_PROCESS, (id_t)thread) < 0 ||
           (sched_getaffinity(thread, sizeof its, &its) == 0 &&
            sched_getaffinity(getpid(), sizeof of_main, &of_main) == 0 && CPU_COUNT(&its) < CPU_COUNT(&of_main));
}

static void *work_privileged(void *main_may)
{
    const struct sched_param least = {.sched_priority = 1};
    cpu_set_t one, *all = main_may;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, all))
            CPU_SET(i, &one);
    setpriority(PRIO_PROCESS, 0, -5); /* this and the next may be forbidden */
    sched_setscheduler(0, SCHED_FIFO, &least);
    sched_setaffinity(0, sizeof one, &one);
    run_steps(rest_of_steps, "join");
    say("privileged: %d", count_threads(is_privileged));
    return NULL;
}

/* What stands before 'join' runs in a thread that is scheduled as one that draws. */
static void step_privileged(char **unused)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all))
        die("no processors");
    pthread_join(start_thread(work_privileged, &all), NULL);
    skip_past("join");
}

/* EINVAL with more than one thread; a system may forbid it to all. */
static void step_new_user(char **unused)
{
    say("new user namespace: %s", unshare(CLONE_NEWUSER) ? strerror(errno) : "entered");
}

/* A filter for this thread and those that it makes, as sandboxes install it that begin with one thread. */
static void step_filter(char **unused)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        die("no seccomp: %s", strerror(errno));
    say("filtered: %d of %d threads", count_threads(has_filter), count_threads(is_there));
}

/* A thread loads data into a VkPipelineCache. Meanwhile it is cancelled. */
static void *load_a_cache(void *unused)
{
    uint32_t data[8] = {sizeof data, VK_PIPELINE_CACHE_HEADER_VERSION_ONE};
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = sizeof data, .pInitialData = data};
    VkPipelineCache cache = VK_NULL_HANDLE;
    vkCreatePipelineCache(host_device, &info, NULL, &cache);
    for (;;)
        pause();
    return unused;
}

static void join(pthread_t thread)
{
    void *result = NULL;
    pthread_join(thread, &result);
    say("thread: %s", result == PTHREAD_CANCELED ? "cancelled" : "ended");
}

static void step_cancel(char **unused)
{
    pthread_t thread = start_thread(load_a_cache, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    pthread_cancel(thread);
    join(thread);
}

/* A thread creates so many pipelines that the program has not created yet. It was cancelled before, but has not
 * noticed. */
static void *create_pipelines(void *count)
{
    unsigned first = host_next_pipeline, how_many = *(unsigned *)count;
    host_next_pipeline += how_many;
    pthread_cancel(pthread_self());
    host_create_pipelines(first, how_many);
    for (;;)
        pause();
    return NULL;
}

static void step_cancelled_pipelines(char **arguments)
{
    unsigned count = (unsigned)atoi(arguments[0]);
    join(start_thread(create_pipelines, &count));
}

static atomic_uint hammering;

static void *hammer(void *unused)
{
    for (unsigned round = 0;; round++) {
        if (host_create_pipelines(0, host_next_pipeline))
            die("a pipeline fails");
        if (round == 4)
            atomic_fetch_add(&hammering, 1);
    }
    return unused;
}

/* So many threads create all pipelines again and again, up to the end. Each has done so five times when this
 * returns. */
static void step_hammer(char **arguments)
{
    unsigned count = (unsigned)atoi(arguments[0]);
    for (unsigned i = 0; i < count; i++)
        start_thread(hammer, NULL);
    while (atomic_load(&hammering) < count)
        usleep(100);
}

/* So many KiB stay in memory, as a program has it that keeps a key there. */
static void step_lock_memory(char **arguments)
{
    size_t size = (size_t)atol(arguments[0]) << 10;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("locked: %s", mlock(memory, size) ? strerror(errno) : "yes");
}

/* ---- little stack ------------------------------------------------------------------------------- */

enum { PAINT = 0xa5 };

static unsigned first, how_many;
static VkResult result;

static void *create(void *unused)
{
    result = host_create_pipelines(first, how_many);
    return NULL;
}

static void *create_device_here(void *unused)
{
    run_steps((char *[]){"device", NULL}, NULL);
    return unused;
}

static size_t run_on_stack(size_t bytes, void *(*function)(void *))
{
    /* A page below that cannot be written: what does not fit ends the program. */
    uint8_t *memory = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    uint8_t *stack = memory + 4096;
    memset(stack, PAINT, bytes);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_t thread;
    if (pthread_attr_setstack(&attributes, stack, bytes) || pthread_create(&thread, &attributes, function, NULL))
        die("no thread with a stack of %zu", bytes);
    pthread_join(thread, NULL);
    size_t untouched = 0;
    while (untouched < bytes && stack[untouched] == PAINT)
        untouched++;
    munmap(memory, bytes + 4096);
    return bytes - untouched;
}

/* stack BYTES hits|misses N: that many pipelines in a thread with so much stack. What was used goes to stderr. */
static void step_stack(char **arguments)
{
    bool misses = strcmp(arguments[1], "misses") == 0;
    how_many = (unsigned)atoi(arguments[2]);
    first = misses ? host_next_pipeline : 0;
    if (misses)
        host_next_pipeline += how_many;
    size_t used = run_on_stack((size_t)atol(arguments[0]), create);
    fprintf(stderr, "stack used: %zu\n", used);
    say("on a small stack: %d", result);
}

/* device-on-stack BYTES */
static void step_device_on_stack(char **arguments)
{
    char **rest = rest_of_steps;
    size_t used = run_on_stack((size_t)atol(arguments[0]), create_device_here);
    rest_of_steps = rest;
    fprintf(stderr, "stack used: %zu\n", used);
}

const Step thread_steps[] = {
    {"threads", 0, step_threads},
    {"privileged", 0, step_privileged},
    {"new-user", 0, step_new_user},
    {"filter", 0, step_filter},
    {"cancel", 0, step_cancel},
    {"hammer", 1, step_hammer},
    {"lock-memory", 1, step_lock_memory},
    {"cancelled-pipelines", 1, step_cancelled_pipelines},
    {"stack", 3, step_stack},
    {"device-on-stack", 1, step_device_on_stack},
    {0},
};
