/* files.h - whole files, for programs that have a die(). */
#ifndef TEST_FILES_H
#define TEST_FILES_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns everything in the file, to be freed; NULL and no bytes if there is no such file. */
static inline void *read_file(const char *path, size_t *bytes)
{
    *bytes = 0;
    FILE *file = fopen(path, "rb");
    if (!file && errno != ENOENT)
        die("%s: %s", path, strerror(errno));
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *data = malloc(size > 0 ? (size_t)size : 1);
    if (size < 0 || !data || fread(data, 1, (size_t)size, file) != (size_t)size)
        die("%s cannot be read", path);
    fclose(file);
    *bytes = (size_t)size;
    return data;
}

static inline void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        die("%s: %s", path, strerror(errno));
    size_t written = fwrite(data, 1, size, file);
    if (fclose(file) != 0 || written != size)
        die("%s cannot be written", path);
}

#endif
