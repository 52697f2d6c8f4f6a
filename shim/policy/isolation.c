/*
 * isolation.c - replaces functions that change or read state of the whole process, for the private libpython.
 *
 * shim/policy/private_python.py says which function is called for which in the copy of libpython: pylayer_sigaction for
 * sigaction and so on. So it does not matter what a policy class imports or calls. Without this, `import signal`
 * replaces a default SIGINT handler, `import time` makes the C library read TZ before the program has set it,
 * os.environ is read while the program changes it, and os._exit or a fatal error of Python ends the program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "interpreter.h"

#define REPLACEMENT __attribute__((visibility("default")))

REPLACEMENT char **pylayer_environ;

static pid_t process;
static IsolatedFrom program;

void isolation_begin(const IsolatedFrom *from)
{
    program = *from;
    pylayer_environ = program.environment;
    process = getpid();
}

REPLACEMENT char *pylayer_getenv(const char *name)
{
    return program.variable ? (char *)(uintptr_t)program.variable(name) : NULL;
}

/*
 * setenv, unsetenv, clearenv: os.environ keeps what a policy class sets, and the program's environment stays unchanged.
 * tzset: the first time zone function called, gmtime_r and timegm among them, makes the C library read TZ and keep it,
 * and programs set TZ before their own first use. So policy has only UTC, computed here.
 */
REPLACEMENT int pylayer_nothing(void)
{
    return 0;
}

/* Extension modules are opened at their first import, possibly long after the start. By then the program may have
 * loaded its own Python, and they would bind to its symbols (see policy_thread.c). */
REPLACEMENT void *pylayer_dlopen(const char *path, int flags)
{
    /* A child that policy forked has this thread only. A thread that does not exist there may hold the mutex. */
    bool links = getpid() == process;
    if (links)
        program.links(true);
    bool another = process && program.holds_python();
    void *library = dlopen(path, another ? flags | RTLD_DEEPBIND : flags);
    if (links)
        program.links(false);
    return library;
}

/* Refuses to change a handler in the program's process: signal handling is the program's. */
REPLACEMENT int pylayer_sigaction(int number, const struct sigaction *action, struct sigaction *previous)
{
    if (action && getpid() == process) {
        if (previous)
            sigaction(number, NULL, previous);
        errno = EPERM;
        return -1;
    }
    return sigaction(number, action, previous);
}

#define DAY_SECONDS 86400

/* Returns the days from 1970 to the first of March of a year. Years begin there, so that leap days come last. */
static int64_t days_before_march(int64_t year)
{
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 - 719468;
}

REPLACEMENT struct tm *pylayer_utc(const time_t *when, struct tm *out)
{
    int64_t days = *when / DAY_SECONDS, seconds = *when % DAY_SECONDS;
    if (seconds < 0) {
        seconds += DAY_SECONDS;
        days--;
    }
    int64_t year = 1970 + days * 400 / 146097 - 2;
    if (year < INT32_MIN / 2 || year > INT32_MAX / 2) {
        errno = EOVERFLOW;
        return NULL;
    }
    while (days_before_march(year + 1) <= days)
        year++;
    int64_t of_year = days - days_before_march(year);     /* 0: the first of March */
    int64_t month = (5 * of_year + 2) / 153;              /* 0: March */
    int64_t first_of_month = (153 * month + 2) / 5;       /* in of_year */
    int64_t calendar_year = year + (month >= 10 ? 1 : 0); /* January and February end the year before */
    *out = (struct tm){
        .tm_sec = (int)(seconds % 60),
        .tm_min = (int)(seconds / 60 % 60),
        .tm_hour = (int)(seconds / 3600),
        .tm_mday = (int)(of_year - first_of_month + 1),
        .tm_mon = (int)((month + 2) % 12),
        .tm_year = (int)(calendar_year - 1900),
        .tm_wday = (int)(((days + 4) % 7 + 7) % 7),
        .tm_zone = "UTC",
    };
    int64_t january = days_before_march(calendar_year - 1) + 306;
    out->tm_yday = (int)(days - january);
    return out;
}

REPLACEMENT time_t pylayer_mktime(struct tm *when)
{
    int64_t months = (int64_t)when->tm_year * 12 + when->tm_mon - 2; /* from March of 1900 */
    int64_t year = months >= 0 ? months / 12 : (months - 11) / 12, month = months - year * 12;
    int64_t days = days_before_march(1900 + year) + (153 * month + 2) / 5 + when->tm_mday - 1;
    time_t seconds = days * DAY_SECONDS + when->tm_hour * 3600LL + when->tm_min * 60LL + when->tm_sec;
    return pylayer_utc(&seconds, when) ? seconds : -1;
}

/* Ends policy but not the program. This thread holds the GIL for ever, so no other Python thread runs on. It does
 * not unwind its stack, which could do harm at an unknown point. A child that policy forked ends as it wants. */
static _Noreturn void end_policy(int status)
{
    if (getpid() != process)
        _exit(status);
    pylayer_shim()->log(PYLAYER_LOG_INFO, "policy ended the interpreter, so the layer does nothing from now on");
    program.policy_ended();
    for (;;)
        pause();
}

REPLACEMENT _Noreturn void pylayer_exit(int status)
{
    end_policy(status);
}

REPLACEMENT _Noreturn void pylayer_abort(void)
{
    end_policy(134);
}
