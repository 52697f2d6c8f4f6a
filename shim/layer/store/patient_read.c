/* patient_read.c - see patient_read.h */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device/counters.h"
#include "device/device.h"
#include "store/patient_read.h"

/* How long a pipeline waits for the disk while this run has compiled none, and how often it looks. */
#define DISK_PATIENCE_NS 5000000ull
#define DISK_LOOK_NS 100000

/* As long as the run's compiles took. */
static uint64_t disk_patience_ns(const Device *device)
{
    PylayerCounters totals;
    counters_add_up(device->counters, &totals);
    return totals.compiled ? totals.compile_ns / totals.compiled : DISK_PATIENCE_NS;
}

uint64_t read_deadline(const Device *device, uint64_t *give_up)
{
    if (*give_up == 0)
        *give_up = now_ns() + disk_patience_ns(device);
    return *give_up;
}

enum ReadResult read_result_of_open(int reason)
{
    return reason == ENOENT ? READ_GONE : READ_LATE;
}

/* Reads what the system has in memory. If that is not enough, has it read the rest from the disk, and looks again. */
enum ReadResult patient_read(const Device *device, int fd, void *out, size_t size, uint64_t offset, size_t needed,
                             uint64_t *give_up, size_t *got)
{
    struct iovec into = {.iov_base = out, .iov_len = size};
    for (bool asked = false;; asked = true) {
        ssize_t result = preadv2(fd, &into, 1, (off_t)offset, RWF_NOWAIT);
        if (result < 0 && errno != EAGAIN && errno != EINTR) /* a file system that cannot tell */
            result = pread(fd, out, size, (off_t)offset);
        *got = result > 0 ? (size_t)result : 0;
        if (result < 0 && errno != EAGAIN && errno != EINTR)
            return READ_FAILED;
        if (*got >= needed)
            return READ_DONE;
        if (!asked)
            posix_fadvise(fd, (off_t)offset, (off_t)needed, POSIX_FADV_WILLNEED);
        if (now_ns() >= read_deadline(device, give_up))
            return READ_LATE;
        nanosleep(&(struct timespec){0, DISK_LOOK_NS}, NULL);
    }
}
