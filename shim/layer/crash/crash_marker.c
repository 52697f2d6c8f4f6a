/* crash_marker.c - see crash_marker.h */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "process/process.h"
#include "crash/crash_marker.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* With a lower RLIMIT_MEMLOCK the crash marker is not locked. It has been 8 MiB since Linux 5.16, and was 64 KiB. */
#define LOCKABLE_BYTES (1u << 20)

_Static_assert(sizeof(PylayerMark) == 128, "policy reads marks with Python's struct");
_Static_assert(PYLAYER_MARKS_OFFSET + PYLAYER_MARK_COUNT * sizeof(PylayerMark) == PYLAYER_RUN_OFFSET, "no gap");

/* Descriptors of programs have lower numbers. */
#define FIRST_DESCRIPTOR 512

/* Returns false if this file system does not write a file's blocks in place. If each write takes a new block
 * (btrfs, f2fs, ZFS) or goes over a network, storing into a mapped page raises SIGBUS in the program when the disk
 * is full. */
static bool writes_in_place(unsigned long file_system)
{
    switch (file_system) {
    case EXT4_SUPER_MAGIC: /* ext2 and ext3 too */
    case XFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* A mapping on overlayfs keeps open the file below the overlay, so the kernel would grant others a lease on a living
 * process's file (marker_file.c). There a descriptor stays open, too, unless the program closes it. */
static void keep_open(Crash *crash, int fd)
{
    struct stat found;
    if (fstat(fd, &found) != 0)
        return;
    crash->marker_fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    crash->marker_inode = found.st_ino;
}

/* The program may have closed it and have a file of its own under the number. */
static void close_kept(Crash *crash)
{
    struct stat found;
    int fd = crash->marker_fd;
    if (fd >= FIRST_DESCRIPTOR && fstat(fd, &found) == 0 && found.st_ino == crash->marker_inode)
        close(fd);
    crash->marker_fd = 0;
}

int marker_open(Crash *crash, int fd)
{
    struct statfs file_system;
    if (fstatfs(fd, &file_system) != 0 || !writes_in_place((unsigned long)file_system.f_type))
        return -2;
    if (atomic_load(&crash->marks))
        return -1;
    uint8_t *mapped = mmap(NULL, PYLAYER_LIVE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return -1;
    /* Without mlock a page that was written back and evicted would be read again, from a disk that may have failed:
     * SIGBUS. What a program may lock belongs to it, where that is little. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= LOCKABLE_BYTES)
        mlock(mapped, PYLAYER_LIVE_BYTES);
    if ((unsigned long)file_system.f_type == OVERLAYFS_SUPER_MAGIC)
        keep_open(crash, fd);
    atomic_store(&crash->marks, (PylayerMark *)(void *)(mapped + PYLAYER_MARKS_OFFSET));
    return 0;
}

void marker_close(Crash *crash)
{
    PylayerMark *marks = atomic_exchange(&crash->marks, NULL);
    if (marks)
        munmap((uint8_t *)marks - PYLAYER_MARKS_OFFSET, PYLAYER_LIVE_BYTES);
    close_kept(crash);
}

uint64_t digest_id(const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    uint64_t id;
    memcpy(&id, digest, sizeof id);
    return id;
}

static void set_call(PylayerMark *mark, uint32_t call)
{
    __atomic_store_n(&mark->call, call, __ATOMIC_RELEASE);
}

/* Threads begin at different places, so each usually gets the mark that it had before. That takes 30 ns more than a
 * mark owned by the thread (measured), but threads that end need no cleanup. Returns NULL if all marks are in use:
 * then this call is not watched. */
static PylayerMark *take_mark(PylayerMark *marks)
{
    unsigned first = thread_number();
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++) {
        PylayerMark *mark = &marks[(first + i) % PYLAYER_MARK_COUNT];
        uint32_t none = PYLAYER_MARK_NONE;
        if (__atomic_load_n(&mark->call, __ATOMIC_RELAXED) == PYLAYER_MARK_NONE &&
            __atomic_compare_exchange_n(&mark->call, &none, PYLAYER_MARK_TAKEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return mark;
    }
    return NULL;
}

static atomic_bool exit_has_begun;

/* A forked child shares the file and passes every call unchanged, so it must not mark. */
static PylayerMark *marks_of(Crash *crash)
{
    PylayerMark *marks = atomic_load_explicit(&crash->marks, memory_order_acquire);
    bool marked = marks && !atomic_load_explicit(&exit_has_begun, memory_order_relaxed) && !process_is_forked_child();
    return marked ? marks : NULL;
}

static Mark mark_ids(Crash *crash, uint32_t call, unsigned kind, const uint64_t *ids, unsigned id_count)
{
    PylayerMark *marks = marks_of(crash), *taken = marks ? take_mark(marks) : NULL;
    if (!taken)
        return NULL;
    taken->kind = (uint16_t)kind;
    taken->cache = 0;
    taken->id_count = (uint16_t)id_count;
    memcpy(taken->ids, ids, id_count * sizeof *ids);
    set_call(taken, call);
    return taken;
}

Mark mark_record(Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    uint64_t id = digest_id(digest);
    return mark_ids(crash, PYLAYER_MARK_RECORDS, 0, &id, 1);
}

Mark mark_application(Crash *crash, enum PylayerMarkedCall call, const uint64_t *data_ids, unsigned id_count)
{
    return id_count ? mark_ids(crash, call, 0, data_ids, id_count) : NULL;
}

Mark mark_added(Crash *crash, enum PylayerMarkedCall call, unsigned kind, uint64_t fingerprint)
{
    return mark_ids(crash, call, kind, &fingerprint, 1);
}

Mark mark_pipelines(Crash *crash, const Element *elements, uint32_t count, uint64_t data_id, bool foreign,
                    bool may_compile)
{
    foreign = foreign && atomic_load_explicit(&crash->holds_stored, memory_order_relaxed);
    PylayerMark *marks = foreign || data_id ? marks_of(crash) : NULL, *taken = marks ? take_mark(marks) : NULL;
    if (!taken)
        return NULL;
    taken->kind = (uint16_t)(elements ? elements->kind : 0);
    taken->cache = data_id;
    taken->id_count = (uint16_t)(!elements ? 0 : count < PYLAYER_MARK_IDS ? count : PYLAYER_MARK_IDS);
    for (unsigned i = 0; i < taken->id_count; i++)
        taken->ids[i] = elements[i].fingerprint;
    set_call(taken, may_compile ? PYLAYER_MARK_COMPILE : PYLAYER_MARK_PIPELINES);
    return taken;
}

void mark_end(Mark mark)
{
    if (mark)
        set_call(mark, PYLAYER_MARK_NONE);
}

void mark_end_created(Mark mark)
{
    if (mark)
        mark->used += mark->call == PYLAYER_MARK_PIPELINES;
    mark_end(mark);
}

void marker_exit_begins(void)
{
    atomic_store(&exit_has_begun, true);
}

void marker_forget(Crash *crash)
{
    PylayerMark *marks = atomic_load(&crash->marks);
    for (unsigned i = 0; marks && i < PYLAYER_MARK_COUNT; i++)
        set_call(&marks[i], PYLAYER_MARK_NONE);
}
