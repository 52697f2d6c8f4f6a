/*
 * trusted.h - where pylayer keeps things, and files that nobody else could have written: pylayer/paths.py in C, for
 * what the layer reads before, or instead of, an interpreter.
 */
#ifndef PYLAYER_TRUSTED_H
#define PYLAYER_TRUSTED_H

#include <stddef.h>

#define PATH_BYTES 4096

/* Of the environment as it was at the first vkCreateInstance (process.c). Empty: there is none. */
void config_file_path(char out[PATH_BYTES]);
void store_root_path(char out[PATH_BYTES]);

/* A descriptor for reading a plain file below the store, ours alone to write as its directory is, and neither a link;
 * -1 otherwise. */
int open_in_store(const char *directory, const char *name);
/* Of a plain file elsewhere: it may be a link, and in a directory like /tmp, where others add files. -1, with errno EPERM
 * where somebody else could have written it. */
int open_own_file(const char *path);

/* What a descriptor gives, which is closed: malloc'd, with `extra` unused bytes behind it. NULL where it is -1, where
 * there is more than `limit`, or no memory. */
char *read_all(int fd, size_t limit, size_t extra, size_t *size);

#endif
