/* sentinel_file.c - see sentinel_file.h */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash/sentinel.h"
#include "crash/sentinel_file.h"
#include "instance/program_name.h"
#include "process/process.h"
#include "process/trusted.h"
#include "store/own_file.h"
#include "store/owner.h"
#include "store/run_file.h"
#include "../../../build/driver_variables.h"

#define SUFFIX ".live"

void sentinel_outside_name(const char *folder, char beginning[SENTINEL_OUTSIDE_BYTES])
{
    char real[PATH_BYTES];
    *beginning = '\0';
    if (realpath(folder, real))
        snprintf(beginning, SENTINEL_OUTSIDE_BYTES, "%016llx-", (unsigned long long)digest64(real, strlen(real), 0));
}

/* Writes the runtime directory, whose files are in memory. Returns false if its path is too long. */
static bool find_outside(char directory[PATH_BYTES])
{
    const char *base = environment_get("XDG_RUNTIME_DIR");
    int length = base && *base == '/' ? snprintf(directory, PATH_BYTES, "%s/pylayer-live", base)
                                      : snprintf(directory, PATH_BYTES, "/dev/shm/pylayer-live-%u", geteuid());
    return length < PATH_BYTES;
}

/* Returns zeros with room for a sentinel; NULL if memory is short. */
static uint8_t *new_bytes(void)
{
    uint8_t *bytes = aligned_alloc(_Alignof(Counters), PYLAYER_LIVE_BYTES);
    if (bytes)
        memset(bytes, 0, PYLAYER_LIVE_BYTES);
    return bytes;
}

/* Returns true if the process was in a call to the driver that is marked with `least` or a higher number. */
static bool has_marks(const uint8_t *file, unsigned least)
{
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++) {
        PylayerMark mark;
        memcpy(&mark, file + PYLAYER_MARKS_OFFSET + i * sizeof mark, sizeof mark);
        if (mark.call >= least)
            return true;
    }
    return false;
}

/* Asks the kernel for a lease, which it grants only while nobody has the file open for writing. The mapping of a living
 * process keeps the file open, whatever descriptors the program closes, and in any container: these files are on file
 * systems of one kernel (sentinel_open). The lease ends with the descriptor. */
static OwnerState state_of_mapping(int fd)
{
    fcntl(fd, F_SETSIG, SIGURG); /* programs ignore it. Without this, whoever breaks the lease would send SIGIO */
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0)
        return OWNER_DEAD;
    return errno == EAGAIN ? OWNER_ALIVE : OWNER_ELSEWHERE;
}

/* Returns the part of a sentinel's name that is the run's. */
static const char *run_of(char run_name[PYLAYER_RUN_NAME_BYTES], const char *name)
{
    size_t length = strlen(name), used = strlen(SUFFIX) + PYLAYER_RUN_NAME_BYTES - 1;
    snprintf(run_name, PYLAYER_RUN_NAME_BYTES, "%s", length > used ? name + length - used : "");
    return run_name;
}

/* Returns as sentinel_may_be_dead. file: zeros. */
static bool judge(int directory, const char *name, bool own, int fd, uint8_t *file, bool *ended)
{
    FileHeader header;
    char run_name[PYLAYER_RUN_NAME_BYTES];
    bool readable = read(fd, file, PYLAYER_LIVE_BYTES) >= 0;
    memcpy(&header, file, sizeof header);
    if (file_header_is_newer(&header))
        return false;
    OwnerState state = owner_state(&header.owner);
    if (state == OWNER_ELSEWHERE)
        state = state_of_mapping(fd);
    if (state == OWNER_ALIVE)
        return false;
    /* A program that ends by _exit or by a kill leaves such a file each time. */
    bool harmless = readable && !has_marks(file, PYLAYER_MARK_RECORDS);
    if (harmless && state == OWNER_DEAD && run_file_of_dead(file, run_of(run_name, name))) {
        unlinkat(directory, name, 0);
        *ended = true;
    }
    return !harmless && (own || has_marks(file, PYLAYER_MARK_ADDED));
}

bool sentinel_may_be_dead(int directory, const char *name, bool own, bool *ended)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno != ENOENT;
    uint8_t *file = new_bytes();
    bool dead = !file || judge(directory, name, own, fd, file, ended);
    free(file);
    close(fd);
    return dead;
}

bool sentinels_outside_may_be_dead(const char *beginning, uint64_t program)
{
    char path[PATH_BYTES], own[18];
    snprintf(own, sizeof own, "%016llx-", (unsigned long long)program);
    if (!*beginning || !find_outside(path) || !is_own_directory(path))
        return false;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    bool dead = false, ended = false;
    while (directory && !dead && (entry = readdir(directory)))
        dead = strncmp(entry->d_name, beginning, strlen(beginning)) == 0 &&
               sentinel_may_be_dead(fd, entry->d_name,
                                    strncmp(entry->d_name + strlen(beginning), own, strlen(own)) == 0, &ended);
    if (directory)
        closedir(directory);
    else if (fd >= 0)
        close(fd);
    return dead;
}

static bool begins_with(const char *variable, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* As verdicts.changing_variable in pylayer/store answers. */
static bool driver_is_changed(void)
{
    for (char **variable = environment_all(); *variable; variable++)
        if (begins_with(*variable, changing_variables, sizeof changing_variables / sizeof *changing_variables) &&
            !begins_with(*variable, harmless_variables, sizeof harmless_variables / sizeof *harmless_variables))
            return true;
    return false;
}

static bool write_file(const Device *device, int fd, const FileHeader *header)
{
    uint8_t *bytes = new_bytes();
    if (!bytes)
        return false;
    memcpy(bytes, header, sizeof *header);
    run_begin(device, bytes);
    bool written = write_quietly(fd, bytes, PYLAYER_LIVE_BYTES) == PYLAYER_LIVE_BYTES;
    free(bytes);
    return written;
}

/* Returns as sentinel_open. */
static int create_in(Device *device, const char *directory, const char *name, const FileHeader *header)
{
    int fd = create_in_store(directory, name), mapped = -1;
    if (fd < 0 || asprintf(&device->sentinel_path, "%s/%s", directory, name) < 0) {
        device->sentinel_path = NULL;
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (write_file(device, fd, header))
        mapped = sentinel_open(device, fd);
    close(fd);
    if (mapped != 0) {
        sentinel_remove(device);
        return mapped;
    }
    run_count_in(device, (uint8_t *)atomic_load(&device->marks) - PYLAYER_MARKS_OFFSET);
    run_of(device->run_name, name);
    return 0;
}

bool sentinel_create(Device *device, const char *folder, FileHeader header, bool outside)
{
    char name[PYLAYER_STORE_NAME_BYTES], directory[PATH_BYTES];
    header.flags = driver_is_changed() ? FILE_CHANGED_DRIVER : 0;
    if (!own_file_describe(device, &header, SUFFIX, name))
        return false;
    int made = outside ? -2 : create_in(device, folder, name, &header);
    if (made != -2 || !*device->stored.outside || !find_outside(directory))
        return made == 0;
    char *longer = NULL;
    if (asprintf(&longer, "%s%s", device->stored.outside, name) < 0)
        return false;
    made = create_in(device, directory, longer, &header);
    free(longer);
    return made == 0;
}

void sentinel_remove(Device *device)
{
    if (device->sentinel_path && !process_is_forked_child()) /* the parent's */
        unlink(device->sentinel_path);
    free(device->sentinel_path);
    device->sentinel_path = NULL;
}
