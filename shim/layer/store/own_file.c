/* own_file.c - see run_file.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/process.h"
#include "process/trusted.h"
#include "store/run_file.h"

bool unique_name(char name[UNIQUE_NAME_BYTES], uint64_t now_ns)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(name, UNIQUE_NAME_BYTES, "%016llx-%016llx", (unsigned long long)now_ns, (unsigned long long)random);
    return true;
}

/* Writes a file of this name that is not there yet. It gets its name when it is written, so that nobody, not even after
 * a kill, finds one without its header. Maintenance deletes what a killed process leaves, once it is old. Returns how
 * many bytes were written. */
static size_t create(const char *directory, const char *name, const void *data, size_t size)
{
    char temporary[PYLAYER_STORE_NAME_BYTES + 4], path[PATH_BYTES + sizeof temporary], final[sizeof path];
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    int fd = create_in_store(directory, temporary);
    if (fd < 0)
        return 0;
    ssize_t written = write_quietly(fd, data, size);
    close(fd);
    snprintf(path, sizeof path, "%s/%s", directory, temporary);
    snprintf(final, sizeof final, "%s/%s", directory, name);
    if (written > 0 && rename(path, final) == 0)
        return (size_t)written;
    unlink(path);
    return 0;
}

/* Returns a record with its data, malloc'd, behind the file's header if that is given; NULL if memory is short. */
static uint8_t *record_bytes(const FileHeader *file, uint64_t salt, RecordHeader record, const void *data, size_t *size)
{
    size_t head = file ? sizeof *file : 0;
    digest128(data, record.size, record.digest);
    record_header_seal(&record, salt);
    *size = head + record_space(record.size);
    uint8_t *bytes = calloc(1, *size);
    if (!bytes)
        return NULL;
    if (file)
        memcpy(bytes, file, sizeof *file);
    memcpy(bytes + head, &record, sizeof record);
    memcpy(bytes + head + sizeof record, data, record.size);
    return bytes;
}

bool own_file_is_there(const char *directory, const char *name, uint64_t *salt)
{
    FileHeader header;
    int fd = open_in_store(directory, name);
    bool is_there = fd >= 0 && read(fd, &header, sizeof header) == sizeof header;
    if (fd >= 0)
        close(fd);
    if (is_there)
        *salt = header.salt;
    return is_there;
}

bool own_file_add(const char *directory, const char *name, const FileHeader *new_file, uint64_t salt,
                  RecordHeader record, const void *data)
{
    size_t size = 0, written = 0;
    uint8_t *bytes = record_bytes(new_file, salt, record, data, &size);
    int fd = bytes && !new_file ? append_in_store(directory, name) : -1;
    if (fd >= 0) {
        written = write_quietly(fd, bytes, size) == (ssize_t)size ? size : 0;
        close(fd);
    } else if (bytes && new_file) {
        mkdir(directory, 0700);
        written = create(directory, name, bytes, size);
    }
    free(bytes);
    return size > 0 && written == size;
}

uint64_t wall_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

bool own_file_describe(const Run *run, FileHeader *header, const char *suffix, char name[PYLAYER_STORE_NAME_BYTES])
{
    char unique[UNIQUE_NAME_BYTES];
    if (header->created_ns == 0)
        header->created_ns = wall_clock_ns();
    header->program = run->info.instance.program_id;
    if (!unique_name(unique, header->created_ns) ||
        getrandom(&header->salt, sizeof header->salt, 0) != (ssize_t)sizeof header->salt)
        return false;
    header->salt |= 1;
    owner_write(&header->owner);
    file_header_seal(header);
    snprintf(name, PYLAYER_STORE_NAME_BYTES, "%016llx-%s%s", (unsigned long long)header->program, unique, suffix);
    return true;
}
