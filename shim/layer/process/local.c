/* local.c - see local.h */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/local.h"
#include "process/trusted.h"

#define MOUNTS_BYTES (1u << 20)
/* As many links as the kernel follows. */
#define MOST_LINKS 40

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool local_store = true, local_system_store = true, local_config = true;

/* File systems that the kernel alone answers for, on disks and in memory of this machine. Any other may be one over a
 * network: their names are many. */
static bool type_is_local(const char *type, size_t length)
{
    static const char *const types[] = {
        "ext2",   "ext3",  "ext4",  "xfs",     "btrfs",    "f2fs",  "zfs",   "bcachefs", "jfs",      "reiserfs",
        "nilfs2", "ubifs", "jffs2", "overlay", "aufs",     "tmpfs", "ramfs", "rootfs",   "devtmpfs", "ecryptfs",
        "vfat",   "exfat", "ntfs3", "hfsplus", "squashfs", "erofs", "udf",   "iso9660",
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i]) == length && memcmp(types[i], type, length) == 0)
            return true;
    return false;
}

/* Returns how much of `path` the mount point is, which ends at a space and has \040 for one; 0 if it is not above. */
static size_t length_of_mount(const char *point, const char *path)
{
    size_t at = 0;
    while (*point && *point != ' ') {
        char letter = *point++;
        if (letter == '\\' && strspn(point, "01234567") >= 3) {
            letter = (char)((point[0] - '0') * 64 + (point[1] - '0') * 8 + point[2] - '0');
            point += 3;
        }
        if (path[at] != letter)
            return letter == '/' && at == 0 ? 1 : 0;
        at++;
    }
    return at == 1 || path[at] == '/' || path[at] == '\0' ? at : 0;
}

/* The innermost mount counts, of several at one place the last. `mounts`: lines of device, place, type. */
static bool mount_is_local(const char *mounts, const char *path)
{
    size_t longest = 0;
    bool local = true;
    for (const char *line = mounts; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *point = strchr(line, ' '), *type = point ? strchr(point + 1, ' ') : NULL;
        if (!type)
            break;
        size_t length = length_of_mount(point + 1, path);
        if (length == 0 || length < longest)
            continue;
        longest = length;
        local = type_is_local(type + 1, strcspn(type + 1, " "));
    }
    return local;
}

/* Replaces a link at the end of `done` by its target, in front of `left`. Returns false if it is no link. */
static bool follow(char done[PATH_BYTES], char left[PATH_BYTES])
{
    char target[PATH_BYTES], joined[2 * PATH_BYTES];
    ssize_t length = readlink(done, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    if (snprintf(joined, sizeof joined, "%s/%s", target, left) >= PATH_BYTES)
        return false;
    memcpy(left, joined, strlen(joined) + 1);
    *(*target == '/' ? done : strrchr(done, '/')) = '\0';
    return true;
}

/* Follows links as the kernel does, but only those that are on local file systems themselves. */
static bool path_is_local(const char *mounts, const char *path)
{
    char done[PATH_BYTES] = "", left[PATH_BYTES];
    snprintf(left, sizeof left, "%s", path);
    for (int links = 0; *left;) {
        size_t slashes = strspn(left, "/"), length = strcspn(left + slashes, "/"), end = strlen(done);
        if (length == 2 && memcmp(left + slashes, "..", 2) == 0) {
            *(end ? strrchr(done, '/') : done) = '\0';
        } else if (length > 0 && !(length == 1 && left[slashes] == '.')) {
            if (end + length + 2 > sizeof done)
                return true; /* and too long to be opened */
            snprintf(done + end, sizeof done - end, "/%.*s", (int)length, left + slashes);
        }
        memmove(left, left + slashes + length, strlen(left + slashes + length) + 1);
        if (*done && mount_is_local(mounts, done) && follow(done, left) && ++links > MOST_LINKS)
            return true; /* and cannot be opened */
    }
    return mount_is_local(mounts, *done ? done : "/");
}

static void look(void)
{
    char path[PATH_BYTES];
    size_t size = 0;
    char *mounts = read_all(open("/proc/self/mounts", O_RDONLY | O_CLOEXEC), MOUNTS_BYTES, 1, &size);
    if (!mounts)
        return;
    mounts[size] = '\0';
    store_root_path(path);
    local_store = path_is_local(mounts, path);
    system_store_path(path);
    local_system_store = path_is_local(mounts, path);
    for (int which = 0; which < POLICY_FILES; which++) {
        config_file_path(which, path);
        local_config &= path_is_local(mounts, path);
    }
    free(mounts);
}

bool store_is_local(void)
{
    pthread_once(&once, look);
    return local_store;
}

bool system_store_is_local(void)
{
    pthread_once(&once, look);
    return local_system_store;
}

bool config_is_local(void)
{
    pthread_once(&once, look);
    return local_config;
}
