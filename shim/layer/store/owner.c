/* owner.c - see store_format.h */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "process/digest.h"
#include "store/store_format.h"

#define MACHINE_ID_DIGITS 32

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Owner own;

/* Returns the length; 0 on failure, with errno set. */
static size_t read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, room - 1) : 0;
    int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Fields 3, 20 and 22 of /proc/<pid>/stat. The state is that of the first thread, which may end before the others.
 * Returns OWNER_DEAD if there is no such process, or only its parent has not noticed yet that it is dead. */
static OwnerState look_up(uint32_t pid, uint64_t *ticks)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (read_text(path, text, sizeof text) == 0)
        return errno == ENOENT || errno == ESRCH ? OWNER_DEAD : OWNER_ELSEWHERE;
    /* The name before the last parenthesis may hold anything. */
    char *field = strrchr(text, ')'), state = '?';
    if (field && field[1])
        state = field[2];
    uint64_t threads = 0;
    for (int i = 3; field && i <= 22; i++) {
        field = strchr(field + 1, ' ');
        if (field && i == 20)
            threads = strtoull(field, NULL, 10);
    }
    if (!field)
        return OWNER_ELSEWHERE;
    *ticks = strtoull(field, NULL, 10);
    return (state == 'Z' || state == 'X') && threads <= 1 ? OWNER_DEAD : OWNER_ALIVE;
}

/* Containers and diskless machines may share a machine id, so the host name must be the same, too. */
static uint64_t machine_of_this(void)
{
    char text[MACHINE_ID_DIGITS + 1 + sizeof((struct utsname *)NULL)->nodename] = {0};
    struct utsname name;
    bool known = read_text("/etc/machine-id", text, MACHINE_ID_DIGITS + 1) == MACHINE_ID_DIGITS &&
                 strspn(text, "0123456789abcdef") == MACHINE_ID_DIGITS && uname(&name) == 0;
    if (!known)
        return 0;
    size_t length = strlen(name.nodename);
    memcpy(text + MACHINE_ID_DIGITS + 1, name.nodename, length);
    return digest64(text, MACHINE_ID_DIGITS + 1 + length, 0);
}

/* /proc may be that of another pid namespace, where our numbers are those of other processes. */
static uint32_t pid_namespace_of_this(void)
{
    char number[16], target[16] = {0};
    struct stat found;
    snprintf(number, sizeof number, "%d", getpid());
    bool ours = readlink("/proc/self", target, sizeof target - 1) > 0 && strcmp(number, target) == 0;
    return ours && stat("/proc/self/ns/pid", &found) == 0 ? (uint32_t)found.st_ino : 0;
}

static void find_own(void)
{
    char text[64];
    size_t length = read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
    while (length > 0 && text[length - 1] == '\n')
        length--;
    own = (Owner){.machine = machine_of_this(),
                  .boot = length ? digest64(text, length, 0) : 0,
                  .pid = (uint32_t)getpid(),
                  .pid_namespace = pid_namespace_of_this()};
    if (look_up(own.pid, &own.start_ticks) != OWNER_ALIVE)
        own.start_ticks = 0;
}

void owner_write(Owner *owner)
{
    pthread_once(&once, find_own);
    *owner = own;
}

OwnerState owner_state(const Owner *owner)
{
    pthread_once(&once, find_own);
    uint64_t ticks = 0;
    if (!own.boot || !owner->boot)
        return OWNER_ELSEWHERE;
    if (owner->boot != own.boot)
        return own.machine && owner->machine == own.machine ? OWNER_DEAD : OWNER_ELSEWHERE;
    if (!own.pid_namespace || owner->pid_namespace != own.pid_namespace)
        return OWNER_ELSEWHERE;
    OwnerState state = look_up(owner->pid, &ticks);
    return state == OWNER_ALIVE && ticks != owner->start_ticks ? OWNER_DEAD : state;
}
