/* limits.c - what setrlimit takes away. */
#define _GNU_SOURCE
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    const char *name;
    int resource;
} resources[] = {
    {"as", RLIMIT_AS},       {"nproc", RLIMIT_NPROC},     {"nofile", RLIMIT_NOFILE},         {"fsize", RLIMIT_FSIZE},
    {"stack", RLIMIT_STACK}, {"memlock", RLIMIT_MEMLOCK}, {"sigpending", RLIMIT_SIGPENDING},
};

static void limit(int resource, rlim_t value)
{
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = value;
    if (setrlimit(resource, &now))
        die("setrlimit failed");
}

/* The soft limit of a resource. */
static void step_limit(char **arguments)
{
    for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++)
        if (strcmp(resources[i].name, arguments[0]) == 0) {
            limit(resources[i].resource, (rlim_t)atoll(arguments[1]));
            say("limit of %s", arguments[0]);
            return;
        }
    die("no resource '%s'", arguments[0]);
}

static long address_space_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (!file || fscanf(file, "%ld", &pages) != 1)
        die("no /proc/self/statm");
    fclose(file);
    return pages * 4;
}

/* So many KiB more than the process has now. */
static void step_spare_memory(char **arguments)
{
    limit(RLIMIT_AS, (rlim_t)(address_space_kib() + atol(arguments[0])) << 10);
    say("little memory");
}

const Step limit_steps[] = {
    {"limit", 2, step_limit},
    {"spare-memory", 1, step_spare_memory},
    {0},
};
