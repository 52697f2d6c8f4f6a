/*
 * watch.c - a library for LD_PRELOAD: what a process had become when it ended, and another boot or another time.
 *
 *   PYLAYER_TEST_WATCH  a file that gets one line at the process's end, also at _exit: whether an interpreter was loaded
 *   PYLAYER_TEST_BOOT   a file that is read in place of the kernel's boot id, as after a reboot
 *   PYLAYER_TEST_CLOCK  seconds that CLOCK_REALTIME is ahead, negative: behind
 *
 * No process with this library prunes the store by chance.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static char watch_file[4096], boot_file[4096];
static long ahead;
static pid_t watched;

__attribute__((constructor)) static void read_environment(void)
{
    const char *watch = getenv("PYLAYER_TEST_WATCH"), *boot = getenv("PYLAYER_TEST_BOOT");
    const char *clock = getenv("PYLAYER_TEST_CLOCK");
    snprintf(watch_file, sizeof watch_file, "%s", watch ? watch : "");
    snprintf(boot_file, sizeof boot_file, "%s", boot ? boot : "");
    ahead = clock ? atol(clock) : 0;
    watched = getpid();
}

/* ---- The end --------------------------------------------------------------------------------------- */

static bool has_interpreter(void)
{
    bool found = false;
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "/_policy.") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Not in children of the program. */
__attribute__((destructor)) static void write_end(void)
{
    if (!watch_file[0] || getpid() != watched)
        return;
    const char *line = has_interpreter() ? "interpreter=1\n" : "interpreter=0\n";
    int file = (int)syscall(SYS_openat, AT_FDCWD, watch_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    syscall(SYS_write, file, line, strlen(line));
    close(file);
    watch_file[0] = '\0';
}

VISIBLE void _exit(int status)
{
    write_end();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

/* ---- Another boot ---------------------------------------------------------------------------------- */

#define OPEN_FUNCTION(name, parameters, directory)                                                                     \
    VISIBLE int name parameters                                                                                        \
    {                                                                                                                  \
        mode_t mode = 0;                                                                                               \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                                         \
            va_list arguments;                                                                                         \
            va_start(arguments, flags);                                                                                \
            mode = va_arg(arguments, mode_t);                                                                          \
            va_end(arguments);                                                                                         \
        }                                                                                                              \
        if (boot_file[0] && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)                                      \
            path = boot_file;                                                                                          \
        return (int)syscall(SYS_openat, directory, path, flags, mode);                                                 \
    }

OPEN_FUNCTION(open, (const char *path, int flags, ...), AT_FDCWD)
OPEN_FUNCTION(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN_FUNCTION(openat, (int directory, const char *path, int flags, ...), directory)
OPEN_FUNCTION(openat64, (int directory, const char *path, int flags, ...), directory)

/* ---- Another time ---------------------------------------------------------------------------------- */

VISIBLE int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead;
    /* By this time's microseconds the layer chooses one process of 64 that prunes. Here none does by chance. */
    if (result == 0 && clock == CLOCK_MONOTONIC && (now->tv_sec * 1000000ll + now->tv_nsec / 1000) % 64 == 0)
        now->tv_nsec += now->tv_nsec < 999999000 ? 1000 : 0;
    return result;
}

VISIBLE time_t time(time_t *out)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

VISIBLE int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now = {0};
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
