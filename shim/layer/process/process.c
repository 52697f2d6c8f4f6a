/*
 * process.c - what the layer remembers of the program's process, and whether this is still that process.
 *
 * Nothing protects getenv from a setenv on another thread (POSIX, 'setenv'; glibc before 2.41 reads memory that was
 * freed), and the policy thread runs at times that the program does not expect. So the policy thread reads a copy of
 * the environment.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/clock.h"
#include "process/log.h"
#include "process/spread_lock.h"
#include "process/process.h"
#include "process/trusted.h"

static char *nothing[] = {NULL};
static char **variables = nothing;

/* Variables whose relative paths start at the program's working directory at its first vkCreateInstance. */
static const char *const paths[] = {
    "PYLAYER_STORE=", "PYLAYER_CONFIG=", "PYLAYER_SYSTEM_CONFIG=", "PYLAYER_SYSTEM_STORE="};

static char *copy_of(const char *variable)
{
    char *copy = NULL, here[PATH_MAX];
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        size_t length = strlen(paths[i]);
        if (strncmp(variable, paths[i], length) == 0 && variable[length] && variable[length] != '/' &&
            getcwd(here, sizeof here) && asprintf(&copy, "%s%s/%s", paths[i], here, variable + length) >= 0)
            return copy;
    }
    return strdup(variable);
}

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;

static void copy_environment(void)
{
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    if (!copy)
        return;
    for (size_t i = 0, used = 0; i < count; i++)
        if ((copy[used] = copy_of(environ[i])))
            used++;
    variables = copy;
}

void environment_remember(void)
{
    pthread_once(&environment_once, copy_environment);
}

const char *environment_get(const char *name)
{
    size_t length = strlen(name);
    for (char **variable = variables; *variable; variable++)
        if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
            return *variable + length + 1;
    return NULL;
}

char **environment_all(void)
{
    return variables;
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* RADV with all that it needs maps 190 MiB, the interpreter 20, and the C library reserves 64 MiB for a thread. */
#define ROOM_BYTES (512ull << 20)

bool process_has_room(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    char text[64];
    unsigned long long pages = read_text("/proc/self/statm", text, sizeof text) ? strtoull(text, NULL, 10) : 0;
    return limit.rlim_cur >= pages * (unsigned long long)sysconf(_SC_PAGESIZE) + ROOM_BYTES;
}

/* ---- exit --------------------------------------------------------------------------------------- */

/* The layer holds these mutexes for microseconds. */
#define EXIT_LOCK_NS 300000000ull

bool mutex_can_be_had(pthread_mutex_t *mutex)
{
    if (!mutex_lock_within(mutex, EXIT_LOCK_NS))
        return false;
    pthread_mutex_unlock(mutex);
    return true;
}

/* ---- threads ------------------------------------------------------------------------------------ */

bool process_is_over(void)
{
    ProcessStat own;
    return process_stat("/proc/self/stat", &own) && own.main_has_ended && own.threads == 2;
}

/* ---- fork -------------------------------------------------------------------------------------- */

static atomic_bool forked_child;
/* A flag in a page that the kernel zeroes in every child (MADV_WIPEONFORK, Linux 4.14), even in a child made
 * without the C library's fork handlers, by _Fork() or a system call. NULL if there is no such page. */
static atomic_bool *_Atomic original;

/*
 * If a process forks during a dlopen, the child can open nothing: the dynamic linker finds its lists half changed and
 * ends the process (glibc, dl-open.c, 'r_state == RT_CONSISTENT'; seen with Lavapipe, whose driver a child then
 * opens). So fork() waits until the policy thread's dlopen returns, which takes milliseconds. It does not wait for
 * ever: the thread that forks may itself be in a dlopen that the policy thread waits for.
 */
static pthread_mutex_t linking = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool holds_linking;
#define LINK_WAIT_NS 1000000000ull

/*
 * glibc holds a lock while dlopen runs a library's constructors. If a constructor creates the device, it waits for
 * policy, and policy waits for that lock before it can open its own libraries. So the policy thread first takes that
 * lock and nothing else: how long that takes does not depend on disks, and the time of a dlopen does.
 */
#define LINKER_WAIT_NS 100000000ull
#define LINKER_LOOK_NS 20000000ull
static atomic_ullong linker_awaited_ns; /* the policy thread waits since then; 0: it does not */

static void await_linker(void)
{
    Dl_info unused;
    atomic_store(&linker_awaited_ns, now_ns());
    dladdr(&linker_awaited_ns, &unused); /* takes the lock and releases it */
    atomic_store(&linker_awaited_ns, 0);
}

bool process_links_late(uint64_t since)
{
    uint64_t awaited = atomic_load(&linker_awaited_ns);
    return awaited && now_ns() > (awaited > since ? awaited : since) + LINKER_WAIT_NS;
}

bool process_await_policy(pthread_cond_t *signal, pthread_mutex_t *mutex, uint64_t give_up, uint64_t since)
{
    uint64_t now = now_ns();
    if (now >= give_up || process_links_late(since))
        return false;
    struct timespec wake = deadline_at(now + LINKER_LOOK_NS < give_up ? now + LINKER_LOOK_NS : give_up);
    pthread_cond_timedwait(signal, mutex, &wake);
    return true;
}

void process_links(bool begins)
{
    if (begins) {
        await_linker(); /* without the mutex: a fork() in a constructor would wait for it in vain */
        pthread_mutex_lock(&linking);
    } else {
        pthread_mutex_unlock(&linking);
    }
}

static void before_fork(void)
{
    /* In a child the mutex stays locked for ever, by its parent's handler or by a policy thread that does not exist
     * there. A child needs no lock, because it opens nothing of policy's. */
    holds_linking = false;
    if (process_is_forked_child())
        return;
    holds_linking = mutex_lock_within(&linking, LINK_WAIT_NS);
}

static void parent_after_fork(void)
{
    if (holds_linking)
        pthread_mutex_unlock(&linking);
}

static void child_after_fork(void)
{
    /* Set a flag and do nothing else: a thread that does not exist here may hold any mutex. */
    atomic_store(&forked_child, true);
}

static void watch_fork(void)
{
    pthread_atfork(before_fork, parent_after_fork, child_after_fork);
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    atomic_bool *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return;
    }
    atomic_store(page, true);
    atomic_store(&original, page);
}

bool process_is_forked_child(void)
{
    atomic_bool *page = atomic_load_explicit(&original, memory_order_relaxed);
    return atomic_load_explicit(&forked_child, memory_order_relaxed) ||
           (page && !atomic_load_explicit(page, memory_order_relaxed));
}

uint32_t thread_id(void)
{
    static _Thread_local uint32_t id;
    if (id == 0)
        id = (uint32_t)gettid();
    return id;
}

void process_remember(void)
{
    watch_fork();
    environment_remember();
    log_enabled(PYLAYER_LOG_ERROR); /* reads the log's variables */
}

/* The program's threads receive the program's signals, so this thread blocks them. It does not block signals that a
 * thread raises by its own actions: blocked, they would end the process. Also, a sandbox may answer system calls in its
 * SIGSYS handler. What is large is not on the stack, of which the layer promises to need little. */
int thread_start(void *(*main)(void *), size_t stack_bytes)
{
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    static sigset_t all, previous;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    sigfillset(&all);
    for (size_t i = 0; i < sizeof raised / sizeof raised[0]; i++)
        sigdelset(&all, raised[i]);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    pthread_t thread;
    int result = pthread_create(&thread, &attributes, main, NULL);
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}
