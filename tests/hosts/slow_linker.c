/*
 * slow_linker.c - for LD_AUDIT: the dynamic linker takes 3 ms to find each library below _private, which a slow disk
 * does as well.
 */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include <time.h>

unsigned int la_version(unsigned int version)
{
    return version;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag)
{
    if (flag == LA_SER_ORIG && strstr(name, "/_private/"))
        nanosleep(&(struct timespec){0, 3000000}, NULL);
    return (char *)name;
}
