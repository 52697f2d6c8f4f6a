/* patient_read.c - see store.h */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "run/run.h"
#include "store/store.h"

/* How long a pipeline waits for the disk while this run has compiled none, and how often it looks. */
#define DISK_PATIENCE_NS 5000000ull
#define DISK_LOOK_NS 100000

/* As long as the run's compiles took. */
static uint64_t disk_patience_ns(const Run *run)
{
    PylayerCounters totals;
    counters_add_up(run->counters, &totals);
    return totals.compiled ? totals.compile_ns / totals.compiled : DISK_PATIENCE_NS;
}

uint64_t read_deadline(const Run *run, uint64_t *give_up)
{
    if (*give_up == 0)
        *give_up = now_ns() + disk_patience_ns(run);
    return *give_up;
}

/* Reads what the system has in memory. If that is not enough, has it read the rest from the disk, and looks again. */
static enum ReadResult read_patiently(const Run *run, const StoreRead *read, int fd, void *out, uint64_t *give_up,
                                      size_t *got)
{
    struct iovec into = {.iov_base = out, .iov_len = read->size};
    for (bool asked = false;; asked = true) {
        ssize_t result = preadv2(fd, &into, 1, (off_t)read->offset, RWF_NOWAIT);
        if (result < 0 && errno != EAGAIN && errno != EINTR) /* a file system that cannot tell */
            result = pread(fd, out, read->size, (off_t)read->offset);
        *got = result > 0 ? (size_t)result : 0;
        if (result < 0 && errno != EAGAIN && errno != EINTR)
            return READ_FAILED;
        if (*got >= read->needed)
            return READ_DONE;
        if (!asked)
            posix_fadvise(fd, (off_t)read->offset, (off_t)read->needed, POSIX_FADV_WILLNEED);
        if (now_ns() >= read_deadline(run, give_up))
            return READ_LATE;
        nanosleep(&(struct timespec){0, DISK_LOOK_NS}, NULL);
    }
}

/* Opens the file. Returns READ_DONE if it has what is needed. */
static enum ReadResult open_file(const StoreRead *read, int *fd, uint64_t *left)
{
    uint64_t size;
    *fd = reopen_in_store(read->directory, read->name, read->number, &size);
    if (*fd < 0)
        return errno == ENOENT ? READ_GONE : open_may_succeed_later(errno) ? READ_LATE : READ_REFUSED;
    *left = size > read->offset ? size - read->offset : 0;
    return *left >= read->needed ? READ_DONE : READ_FAILED;
}

enum ReadResult patient_read(const Run *run, const StoreRead *read, void *out, uint64_t *give_up, size_t *got,
                             uint64_t *left)
{
    int fd;
    *got = 0;
    *left = 0;
    enum ReadResult result = open_file(read, &fd, left);
    if (result == READ_DONE)
        result = read_patiently(run, read, fd, out, give_up, got);
    if (fd >= 0)
        close(fd);
    return result;
}
