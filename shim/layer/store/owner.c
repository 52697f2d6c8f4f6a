/* owner.c - see store_format.h */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/digest.h"
#include "process/process.h"
#include "process/trusted.h"
#include "store/store_format.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static Owner own;

/* Returns OWNER_DEAD if there is no such process, or only its parent has not noticed yet that it is dead. */
static OwnerState look_up(uint32_t pid, uint64_t *ticks)
{
    char path[32];
    ProcessStat found;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (!process_stat(path, &found))
        return errno == ENOENT || errno == ESRCH ? OWNER_DEAD : OWNER_ELSEWHERE;
    *ticks = found.start_ticks;
    return found.main_has_ended && found.threads <= 1 ? OWNER_DEAD : OWNER_ALIVE;
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
    size_t length = read_text("/proc/sys/kernel/random/boot_id", text, sizeof text) ? strcspn(text, "\n") : 0;
    own = (Owner){.boot = length ? digest64(text, length, 0) : 0,
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
    if (!own.boot || owner->boot != own.boot || !own.pid_namespace || owner->pid_namespace != own.pid_namespace)
        return OWNER_ELSEWHERE;
    OwnerState state = look_up(owner->pid, &ticks);
    return state == OWNER_ALIVE && ticks != owner->start_ticks ? OWNER_DEAD : state;
}
