/*
 * watch_environment.c - preloaded: says on standard error which variables a thread other than the program's asks for.
 *
 * Such a thread is known by its name, which begins with "pylayer".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

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
