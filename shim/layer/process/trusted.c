/* trusted.c - see trusted.h. Every check uses the descriptor of the opened file, never its path, which may change
 * in between. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/process.h"
#include "process/trusted.h"

/* As pylayer/common/paths.py does: our own variable, else XDG's base directory, else one below HOME. */
static void own_path(char *out, const char *own, const char *xdg, const char *below_home, const char *tail)
{
    const char *value = environment_get(own), *home = environment_get("HOME");
    int length = 0;
    *out = '\0';
    if (value && *value) {
        if (*value == '/') /* relative only if the working directory was unknown */
            length = snprintf(out, PATH_BYTES, "%s", value);
    } else if ((value = environment_get(xdg)) && *value == '/') {
        length = snprintf(out, PATH_BYTES, "%s/%s", value, tail);
    } else if (home && *home == '/') {
        length = snprintf(out, PATH_BYTES, "%s/%s/%s", home, below_home, tail);
    }
    if (length < 0 || length >= PATH_BYTES)
        *out = '\0';
}

static void system_path(char *out, const char *own, const char *otherwise)
{
    const char *value = environment_get(own);
    if (!value || !*value)
        value = otherwise;
    snprintf(out, PATH_BYTES, "%s", *value == '/' && strlen(value) < PATH_BYTES ? value : "");
}

void config_file_path(int which, char out[PATH_BYTES])
{
    if (which == SYSTEM_POLICY)
        system_path(out, "PYLAYER_SYSTEM_CONFIG", "/etc/pylayer/policy.yaml");
    else
        own_path(out, "PYLAYER_CONFIG", "XDG_CONFIG_HOME", ".config", "pylayer/policy.yaml");
}

void system_store_path(char out[PATH_BYTES])
{
    system_path(out, "PYLAYER_SYSTEM_STORE", "/usr/share/pylayer");
}

void store_path(char out[PATH_BYTES], const char *below)
{
    own_path(out, "PYLAYER_STORE", "XDG_CACHE_HOME", ".cache", "pylayer");
    if (*out && strlen(out) + strlen(below) < PATH_BYTES)
        strcat(out, below);
    else
        *out = '\0';
}

/* As pylayer/common/paths.py does: the user's private group, which has the user's own number, is nobody else. */
static bool writable_by_others(const struct stat *found)
{
    if (!(found->st_mode & S_IWGRP) || found->st_mode & S_IWOTH)
        return found->st_mode & S_IWOTH;
    uid_t user = geteuid();
    return !(user != 0 && user == found->st_uid && user == found->st_gid && user == getegid());
}

static bool is_own(int fd, struct stat *found, bool sticky_is_fine)
{
    return fstat(fd, found) == 0 && (found->st_uid == geteuid() || found->st_uid == 0) &&
           (!writable_by_others(found) || (sticky_is_fine && found->st_mode & S_ISVTX));
}

/* `flags`: of open. With O_NOFOLLOW, for files in the store, the directory may not be a link either. */
static int open_below(const char *directory, const char *name, int flags)
{
    struct stat found;
    int parent = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC | (flags & O_NOFOLLOW));
    if (parent < 0)
        return -1;
    bool own = is_own(parent, &found, !(flags & O_NOFOLLOW));
    int fd = own ? openat(parent, name, O_CLOEXEC | O_NONBLOCK | flags, 0600) : -1;
    int reason = own ? errno : EPERM;
    close(parent);
    if (fd >= 0 && !(is_own(fd, &found, false) && S_ISREG(found.st_mode))) {
        close(fd);
        fd = -1;
        reason = EPERM;
    }
    errno = reason;
    return fd;
}

int open_in_store(const char *directory, const char *name)
{
    return open_below(directory, name, O_RDONLY | O_NOFOLLOW);
}

int reopen_in_store(const char *directory, const char *name, FileNumber number, uint64_t *size)
{
    struct stat found;
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    errno = ENAMETOOLONG;
    int fd = (size_t)length < sizeof path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0 && !(is_own(fd, &found, false) && found.st_dev == number.device && found.st_ino == number.inode)) {
        close(fd);
        errno = ENOENT;
        return -1;
    }
    *size = fd >= 0 ? (uint64_t)found.st_size : 0;
    return fd;
}

bool open_may_succeed_later(int reason)
{
    return reason == EMFILE || reason == ENFILE || reason == ENOMEM || reason == EINTR || reason == EAGAIN ||
           reason == ESTALE;
}

int append_in_store(const char *directory, const char *name)
{
    return open_below(directory, name, O_RDWR | O_APPEND | O_NOFOLLOW);
}

static bool opens_as_own(const char *path, int flags)
{
    struct stat found;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
    bool own = fd >= 0 && is_own(fd, &found, false);
    if (fd >= 0)
        close(fd);
    return own;
}

bool is_own_root(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && (found.st_uid == geteuid() || found.st_uid == 0) && opens_as_own(path, 0);
}

bool is_own_directory(const char *path)
{
    return opens_as_own(path, O_NOFOLLOW);
}

int create_in_store(const char *directory, const char *name)
{
    int fd = open_below(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd >= 0)
        fchmod(fd, 0600); /* a umask such as 0777 would keep the user's later processes out */
    return fd;
}

int open_own_file(const char *path)
{
    char directory[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", (int)(slash - path), path);
    return open_below(*directory ? directory : "/", slash + 1, O_RDONLY);
}

char *read_all(int fd, size_t limit, size_t extra, size_t *size)
{
    struct stat found;
    char *data = NULL;
    if (fd < 0)
        return NULL;
    /* If the file grows meanwhile, only its first size is read. Files of /proc have size 0. */
    if (fstat(fd, &found) == 0 && (uintmax_t)found.st_size <= limit) {
        size_t room = found.st_size ? (size_t)found.st_size : limit;
        data = malloc(room + extra + 1);
        ssize_t more = 0;
        *size = 0;
        while (data && *size < room && (more = read(fd, data + *size, room - *size)) > 0)
            *size += (size_t)more;
        if (data && more < 0) {
            free(data);
            data = NULL;
        }
    }
    close(fd);
    return data;
}
