/*
 * trusted.h - where pylayer keeps files, and how to open files that nobody else could have written:
 * pylayer/common/paths.py in C, for what the layer reads before the interpreter starts or without one.
 */
#ifndef PYLAYER_TRUSTED_H
#define PYLAYER_TRUSTED_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* Reads the beginning of a file of the system's, with a zero behind it. Returns the length; 0 on failure, with errno
 * set. */
static inline size_t read_text(const char *path, char *text, size_t room)
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

static inline bool name_begins(const char *name, const char *beginning)
{
    return strncmp(name, beginning, strlen(beginning)) == 0;
}

/* The policy files, the weaker first: the keys of the user's override those of the system's. */
enum { SYSTEM_POLICY, USER_POLICY, POLICY_FILES };

/* These use the environment as it was at the first vkCreateInstance (process.c). Empty: there is no such path. */
void config_file_path(int which, char out[PATH_BYTES]);
/* below: what follows the root, empty or with a slash in front. */
void store_path(char out[PATH_BYTES], const char *below);
/* A store that root fills and nobody else writes to. Its pipelines are used beside those of the user's store. */
void system_store_path(char out[PATH_BYTES]);

/* Opens a plain file in the store for reading. Returns -1 unless only this user or root can write the file and its
 * directory, and neither is a link. */
int open_in_store(const char *directory, const char *name);
/* Which file a descriptor is of: another one may get its name. */
typedef struct FileNumber {
    uint64_t device, inode;
} FileNumber;
/* Opens a file again that open_in_store opened: 4 of 7 system calls less. Returns -1 on failure, with errno ENOENT if
 * the file is gone or another one has its name. */
int reopen_in_store(const char *directory, const char *name, FileNumber number, uint64_t *size);
/* Returns true if a file that could not be opened for this reason, an errno, may be opened a moment later. */
bool open_may_succeed_later(int reason);
/* Returns true if only this user or root can write to the store's root, which may be a link of theirs. */
bool is_own_root(const char *path);
/* Returns true if only this user or root can write to the directory, and it is no link. */
bool is_own_directory(const char *path);
/* Makes a file in the store that is not there yet, for reading and writing. Returns -1 unless only this user or root
 * can write to its directory. */
int create_in_store(const char *directory, const char *name);
/* Opens a file that create_in_store made, to append to it. */
int append_in_store(const char *directory, const char *name);
/* Opens a plain file elsewhere for reading, by its absolute path of at most PATH_BYTES. It may be a link, and it may be in a directory like /tmp, where others
 * can add files. Returns -1 on failure, with errno EPERM if somebody else could have written it. */
int open_own_file(const char *path);

/* Reads all that a descriptor gives, and closes it. Returns malloc'd data with `extra` unused bytes after it.
 * Returns NULL if the descriptor is -1, if there is more than `limit`, or if reading or memory fails. */
char *read_all(int fd, size_t limit, size_t extra, size_t *size);

#endif
