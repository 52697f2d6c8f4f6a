/* marker_file.c - see crash_marker.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../build/driver_variables.h"
#include "crash/crash_marker.h"
#include "process/process.h"
#include "store/run_file.h"

static bool begins_with(const char *variable, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name_begins(variable, beginnings[i]))
            return true;
    return false;
}

/* As block_list.driver_is_changed in pylayer/store answers. */
static bool driver_is_changed(void)
{
    for (char **variable = environment_all(); *variable; variable++)
        if (begins_with(*variable, changing_variables, sizeof changing_variables / sizeof *changing_variables) &&
            !begins_with(*variable, harmless_variables, sizeof harmless_variables / sizeof *harmless_variables))
            return true;
    return false;
}

static bool write_file(const Store *store, int fd, const FileHeader *header)
{
    uint8_t *bytes = live_bytes();
    if (!bytes)
        return false;
    memcpy(bytes, header, sizeof *header);
    run_begin(store, bytes);
    bool written = write_quietly(fd, bytes, PYLAYER_LIVE_BYTES) == PYLAYER_LIVE_BYTES;
    free(bytes);
    return written;
}

/* Returns as marker_open. */
static int create_in(Crash *crash, Store *store, const char *directory, const char *name, const FileHeader *header)
{
    int fd = create_in_store(directory, name), mapped = -1;
    if (fd < 0 || asprintf(&crash->marker_path, "%s/%s", directory, name) < 0) {
        crash->marker_path = NULL;
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (write_file(store, fd, header))
        mapped = marker_open(crash, fd);
    close(fd);
    if (mapped != 0) {
        marker_remove(crash);
        return mapped;
    }
    run_count_in(store->run, (uint8_t *)atomic_load(&crash->marks) - PYLAYER_MARKS_OFFSET);
    live_run_name(store->run->name, name);
    return 0;
}

bool marker_create(Crash *crash, Store *store, const char *folder, FileHeader header, bool outside)
{
    char name[PYLAYER_STORE_NAME_BYTES], directory[PATH_BYTES];
    header.flags = driver_is_changed() ? STORE_CHANGED_DRIVER : 0;
    if (!own_file_describe(store->run, &header, LIVE_SUFFIX, name))
        return false;
    int made = outside ? -2 : create_in(crash, store, folder, name, &header);
    if (made != -2 || !*store->stored.outside || !live_outside_directory(directory))
        return made == 0;
    mkdir(directory, 0700);
    if (!is_own_directory(directory))
        return false;
    char *longer = NULL;
    if (asprintf(&longer, "%s%s", store->stored.outside, name) < 0)
        return false;
    made = create_in(crash, store, directory, longer, &header);
    free(longer);
    return made == 0;
}

void marker_remove(Crash *crash)
{
    if (crash->marker_path && !process_is_forked_child()) /* the parent's */
        unlink(crash->marker_path);
    free(crash->marker_path);
    crash->marker_path = NULL;
}
