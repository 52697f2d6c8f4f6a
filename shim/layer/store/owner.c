/* owner.c - see owner.h */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/digest.h"
#include "store/owner.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint8_t machine[PYLAYER_DIGEST_BYTES];
static uint64_t own_ticks;
static bool machine_known;

static size_t read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, room - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length > 0 ? (size_t)length : 0;
}

/* Fields 3 and 22 of /proc/<pid>/stat. Returns false if there is no such process, or only its parent has not noticed
 * yet that it is dead. */
static bool start_ticks_of(uint32_t pid, uint64_t *ticks)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (read_text(path, text, sizeof text) == 0)
        return false;
    /* The name before the last parenthesis may hold anything. */
    char *field = strrchr(text, ')'), state = field && field[1] ? field[2] : 'X';
    for (int i = 3; field && i <= 22; i++)
        field = strchr(field + 1, ' ');
    if (!field || state == 'Z' || state == 'X')
        return false;
    *ticks = strtoull(field, NULL, 10);
    return true;
}

/* The machine is the digest of boot id, a zero and pid namespace. */
static void find_own(void)
{
    char text[256];
    size_t length = read_text("/proc/sys/kernel/random/boot_id", text, 64);
    while (length > 0 && text[length - 1] == '\n')
        length--;
    text[length++] = '\0';
    ssize_t more = readlink("/proc/self/ns/pid", text + length, sizeof text - length);
    if (length == 1 || more <= 0)
        return;
    digest128(text, length + (size_t)more, machine);
    machine_known = start_ticks_of((uint32_t)getpid(), &own_ticks);
}

bool owner_write(FileHeader *header)
{
    pthread_once(&once, find_own);
    memcpy(header->machine, machine, sizeof header->machine);
    header->pid = (uint32_t)getpid();
    header->start_ticks = own_ticks;
    return machine_known;
}

bool owner_was_here(const FileHeader *header)
{
    pthread_once(&once, find_own);
    return machine_known && memcmp(header->machine, machine, sizeof machine) == 0;
}

bool owner_is_alive(const FileHeader *header)
{
    uint64_t ticks;
    return owner_was_here(header) && start_ticks_of(header->pid, &ticks) && ticks == header->start_ticks;
}
