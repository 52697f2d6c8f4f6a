/* folder.c - see store_format.h */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/trusted.h"
#include "store/store_format.h"

void program_prefix(char prefix[PROGRAM_PREFIX_BYTES], uint64_t program)
{
    snprintf(prefix, PROGRAM_PREFIX_BYTES, "%016llx-", (unsigned long long)program);
}

bool name_ends(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);
    return length >= end && strcmp(name + length - end, suffix) == 0;
}

bool folder_names(const char *directory, void (*look)(void *to, int fd, const char *name), void *to)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (!names) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    const struct dirent *entry;
    while ((entry = readdir(names)))
        look(to, fd, entry->d_name);
    closedir(names);
    return true;
}

bool folder_records(const char *directory, const char *name, const uint8_t identity[PYLAYER_DIGEST_BYTES],
                    const char kind[4], size_t most,
                    void (*take)(void *to, const RecordHeader *record, const uint8_t *data), void *to)
{
    FileHeader header;
    RecordHeader record;
    size_t size = 0, at = sizeof header;
    int fd = open_in_store(directory, name);
    if (fd < 0)
        return errno != ENOENT && !open_may_succeed_later(errno);
    uint8_t *file = (uint8_t *)read_all(fd, most, 0, &size);
    bool whole = file && size >= sizeof header;
    if (whole)
        memcpy(&header, file, sizeof header);
    whole = whole && file_header_is_whole(&header, identity) && memcmp(header.kind, kind, sizeof header.kind) == 0;
    while (whole && size - at >= sizeof record) {
        memcpy(&record, file + at, sizeof record);
        const uint8_t *data = file + at + sizeof record;
        if (!record_header_is_whole(&record, header.salt) || record.size > size - at - sizeof record)
            break;
        if (record_data_is_whole(&record, data))
            take(to, &record, data);
        if (record_space(record.size) > size - at)
            break;
        at += record_space(record.size);
    }
    free(file);
    return true;
}
