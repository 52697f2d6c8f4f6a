/* live_file.c - see store.h */
#define _GNU_SOURCE
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/process.h"
#include "store/run_file.h"

void live_outside(const char *root, const char *folder, char path[PATH_BYTES])
{
    char real[PATH_BYTES], *whole = NULL;
    const char *base = environment_get("XDG_RUNTIME_DIR");
    int length = PATH_BYTES;
    if (realpath(root, real) && asprintf(&whole, "%s/store/%s", real, folder) >= 0) {
        unsigned long long number = digest64(whole, strlen(whole), 0);
        length = base && *base == '/'
                     ? snprintf(path, PATH_BYTES, "%s/pylayer-live-%016llx", base, number)
                     : snprintf(path, PATH_BYTES, "/dev/shm/pylayer-live-%u-%016llx", geteuid(), number);
    }
    if (length >= PATH_BYTES)
        *path = '\0';
    free(whole);
}

LiveFile *live_new(void)
{
    LiveFile *live = aligned_alloc(_Alignof(LiveFile), sizeof *live);
    if (live)
        memset(live, 0, sizeof *live);
    return live;
}

/* Returns true if the process was in a call to the driver that is marked with `least` or a higher number. */
static bool has_marks(const LiveFile *live, unsigned least)
{
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++)
        if (live->marks[i].call >= least)
            return true;
    return false;
}

/* Asks the kernel for a lease, which it grants only while nobody has the file open for writing. The mapping of a living
 * process keeps the file open, whatever descriptors the program closes, and in any container: these files are on file
 * systems of one kernel (marker_create). The lease ends with the descriptor. */
static OwnerState state_of_mapping(int fd)
{
    fcntl(fd, F_SETSIG, SIGURG); /* programs ignore it. Without this, whoever breaks the lease would send SIGIO */
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
        return OWNER_DEAD;
    return errno == EAGAIN ? OWNER_ALIVE : OWNER_ELSEWHERE;
}

/* Returns as live_may_be_dead. live: zeros. */
static bool judge(int directory, const char *name, bool own, int fd, LiveFile *live, LiveEnded *ended)
{
    bool readable = read(fd, live, sizeof *live) >= 0;
    if (file_header_is_newer(&live->header))
        return false;
    OwnerState state = owner_state(&live->header.owner);
    if (state == OWNER_ELSEWHERE)
        state = state_of_mapping(fd);
    if (state == OWNER_ALIVE)
        return false;
    /* A program that ends by _exit or by a kill leaves such a file each time. */
    bool harmless = readable && !has_marks(live, PYLAYER_MARK_RECORDS);
    char run_name[PYLAYER_RUN_NAME_BYTES]; /* all of the file's name but its place and its suffix */
    size_t length = strlen(name), used = strlen(LIVE_SUFFIX) + sizeof run_name - 1;
    snprintf(run_name, sizeof run_name, "%s", length >= used ? name + length - used : "");
    if (harmless && state == OWNER_DEAD && run_file_of_dead(live, run_name)) {
        unlinkat(directory, name, 0);
        ended->written = true;
        if (own && strcmp(run_name, ended->last) > 0 && run_compiled(live) > 0) {
            memcpy(ended->last, run_name, sizeof run_name);
            ended->compiled = run_compiled(live);
        }
    }
    return !harmless && (own || has_marks(live, PYLAYER_MARK_ADDED));
}

bool live_may_be_dead(int directory, const char *name, bool own, LiveEnded *ended)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno != ENOENT;
    LiveFile *live = live_new();
    bool dead = !live || judge(directory, name, own, fd, live, ended);
    free(live);
    close(fd);
    return dead;
}
