/* signals.c - what a program does with signals while it creates pipelines. */
#define _GNU_SOURCE
#include "host.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_uint handled;

static void count(int number)
{
    atomic_fetch_add(&handled, 1);
}

static void step_block_signals(char **unused)
{
    sigset_t all;
    sigfillset(&all);
    say("blocked: %d", sigprocmask(SIG_SETMASK, &all, NULL));
}

static int number_of(const char *name)
{
    for (int number = 1; number < 32; number++)
        if (strcasecmp(sigabbrev_np(number), name) == 0)
            return number;
    die("no signal '%s'", name);
}

static void step_handle(char **arguments)
{
    struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
    say("handler: %d", sigaction(number_of(arguments[0]), &action, NULL));
}

/* Whether handling is what the program left it at: default, or its own. */
static void step_check_handler(char **arguments)
{
    struct sigaction action;
    sigaction(number_of(arguments[0]), NULL, &action);
    say("%s is %s", arguments[0],
        action.sa_handler == SIG_DFL ? "default"
        : action.sa_handler == count ? "the program's"
                                     : "somebody else's");
}

/* Sent to the process: handled by whatever thread does not block it. */
static void step_send(char **arguments)
{
    unsigned before = atomic_load(&handled);
    kill(getpid(), number_of(arguments[0]));
    say("handled %u", atomic_load(&handled) - before);
}

static void step_timer(char **arguments)
{
    struct itimerval every = {.it_interval.tv_usec = atoi(arguments[0]), .it_value.tv_usec = atoi(arguments[0])};
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGALRM, &action, NULL);
    say("timer: %d", setitimer(ITIMER_REAL, &every, NULL));
}

static void step_stop_timer(char **unused)
{
    struct itimerval never = {0};
    setitimer(ITIMER_REAL, &never, NULL);
    say("timer went off: %s", atomic_load(&handled) ? "yes" : "no");
}

/* Every signal that may be handled has the handling that the program found. */
static void step_check_all_default(char **unused)
{
    int changed = 0;
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0)
            changed += action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    }
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    int more = 0;
    for (int number = 1; number < 32; number++)
        more += sigismember(&blocked, number);
    say("handlers: %d, blocked: %d", changed, more);
}

const Step signal_steps[] = {
    {"block-signals", 0, step_block_signals},
    {"handle", 1, step_handle},
    {"check-handler", 1, step_check_handler},
    {"send", 1, step_send},
    {"timer", 1, step_timer},
    {"stop-timer", 0, step_stop_timer},
    {"check-all-default", 0, step_check_all_default},
    {0},
};
