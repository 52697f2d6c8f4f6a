/* own_file.c - see run_file.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/trusted.h"
#include "store/run_file.h"

/* Writes a file of this name that is not there yet. It gets its name when it is written, so that nobody, not even after
 * a kill, finds one without its header. Maintenance deletes what a killed process leaves, once it is old. */
static bool create(const char *directory, const char *name, const void *data, size_t size)
{
    char temporary[PYLAYER_STORE_NAME_BYTES + 4], path[PATH_BYTES + sizeof temporary], final[sizeof path];
    snprintf(temporary, sizeof temporary, "%s.tmp", name);
    snprintf(path, sizeof path, "%s/%s", directory, temporary);
    snprintf(final, sizeof final, "%s/%s", directory, name);
    mkdir(directory, 0700);
    int fd = create_in_store(directory, temporary);
    bool written = fd >= 0 && write_quietly(fd, data, size) == (ssize_t)size && rename(path, final) == 0;
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !written)
        unlink(path);
    return written;
}

bool own_file_add(const char *directory, const OwnFile *file, RecordHeader record, const void *data)
{
    FileHeader header = file->header;
    size_t size = record_space(record.size);
    uint8_t *bytes = calloc(1, sizeof header + size);
    int fd = append_in_store(directory, file->name);
    bool written = bytes && (fd >= 0 ? read(fd, &header, sizeof header) == sizeof header : errno == ENOENT);
    if (written) {
        digest128(data, record.size, record.digest);
        record_header_seal(&record, header.salt);
        memcpy(bytes, &header, sizeof header);
        memcpy(bytes + sizeof header, &record, sizeof record);
        memcpy(bytes + sizeof header + sizeof record, data, record.size);
        written = fd >= 0 ? write_quietly(fd, bytes + sizeof header, size) == (ssize_t)size
                          : create(directory, file->name, bytes, sizeof header + size);
    }
    if (fd >= 0)
        close(fd);
    free(bytes);
    return written;
}

bool own_file_describe(const Store *store, const char kind[4], const char *suffix, uint64_t created_ns, OwnFile *out)
{
    uint64_t random[2];
    FileHeader *header = &out->header;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    memcpy(header, store->kept.header, sizeof *header);
    memcpy(header->kind, kind, sizeof header->kind);
    header->created_ns = created_ns ? created_ns : wall_clock_ns();
    header->program = store->run->info.instance.program_id;
    header->salt = random[0] | 1;
    owner_write(&header->owner);
    file_header_seal(header);
    snprintf(out->name, sizeof out->name, "%016llx-%016llx-%016llx%s", (unsigned long long)header->program,
             (unsigned long long)header->created_ns, (unsigned long long)random[1], suffix);
    return true;
}
