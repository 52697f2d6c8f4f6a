/* crash_marker.c - see crash.h */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "../../../build/driver_variables.h"
#include "crash/crash.h"
#include "process/process.h"
#include "store/run_file.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* With a lower RLIMIT_MEMLOCK the crash marker is not locked. It has been 8 MiB since Linux 5.16, and was 64 KiB. */
#define LOCKABLE_BYTES (1u << 20)

_Static_assert(sizeof(PylayerMark) == 128, "policy reads marks with Python's struct");

/* ---- the file ----------------------------------------------------------------------------------- */

/* Returns false if this file system does not write a file's blocks in place. If each write takes a new block
 * (btrfs, f2fs, ZFS) or goes over a network, storing into a mapped page raises SIGBUS in the program when the disk
 * is full. Nor is overlayfs one: a mapping there keeps open the file below the overlay, so the kernel would grant others
 * a lease on a living process's file (live_file.c). */
static bool writes_in_place(const char *directory)
{
    struct statfs found;
    unsigned long type = statfs(directory, &found) == 0 ? (unsigned long)found.f_type : 0;
    return type == EXT4_SUPER_MAGIC /* ext2 and ext3 too */ || type == XFS_SUPER_MAGIC || type == TMPFS_MAGIC;
}

bool marker_map(Crash *crash, int fd)
{
    LiveFile *live = mmap(NULL, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (live == MAP_FAILED)
        return false;
    /* Without mlock a page that was written back and evicted would be read again, from a disk that may have failed:
     * SIGBUS. What a program may lock belongs to it, where that is little. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= LOCKABLE_BYTES)
        mlock(live, sizeof *live);
    atomic_store(&crash->live, live);
    return true;
}

void marker_close(Crash *crash)
{
    LiveFile *live = atomic_exchange(&crash->live, NULL);
    if (live)
        munmap(live, sizeof *live);
}

static bool begins_with(const char *variable, const char *const *beginnings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name_begins(variable, beginnings[i]))
            return true;
    return false;
}

/* As block_list.driver_is_changed in pylayer/store answers. */
static bool driver_is_changed(void)
{
    for (char **variable = environment_all(); *variable; variable++)
        if (begins_with(*variable, changing_variables, sizeof changing_variables / sizeof *changing_variables) &&
            !begins_with(*variable, harmless_variables, sizeof harmless_variables / sizeof *harmless_variables))
            return true;
    return false;
}

static bool write_file(const Store *store, int fd, const FileHeader *header)
{
    LiveFile *live = live_new();
    if (live) {
        live->header = *header;
        run_describe(store, live->text);
    }
    bool written = live && write_quietly(fd, live, sizeof *live) == sizeof *live;
    free(live);
    return written;
}

bool marker_create(Crash *crash, Store *store, uint64_t created_ns)
{
    OwnFile file;
    bool outside = store->kept.marker_outside || !writes_in_place(store->stored.directory);
    const char *directory = outside ? store->stored.outside : store->stored.directory;
    if (outside)
        mkdir(directory, 0700);
    if (atomic_load(&crash->live) || (outside && !writes_in_place(directory)) ||
        !own_file_describe(store, "LIVE", LIVE_SUFFIX, created_ns, &file))
        return false;
    file.header.flags = driver_is_changed() ? STORE_CHANGED_DRIVER : 0;
    file_header_seal(&file.header);
    if (asprintf(&crash->marker_path, "%s/%s", directory, file.name) < 0)
        crash->marker_path = NULL;
    int fd = crash->marker_path ? create_in_store(directory, file.name) : -1;
    bool made = fd >= 0 && write_file(store, fd, &file.header) && marker_map(crash, fd);
    if (fd >= 0)
        close(fd);
    if (!made) {
        marker_remove(crash);
        return false;
    }
    run_count_in(store->run, atomic_load(&crash->live));
    memcpy(store->run->name, file.name, sizeof store->run->name - 1); /* without its suffix */
    return true;
}

void marker_remove(Crash *crash)
{
    if (crash->marker_path && !process_is_forked_child()) /* the parent's */
        unlink(crash->marker_path);
    free(crash->marker_path);
    crash->marker_path = NULL;
}

/* ---- marks -------------------------------------------------------------------------------------- */

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
static PylayerMark *take_mark(LiveFile *live)
{
    unsigned first = thread_number();
    for (unsigned i = 0; i < PYLAYER_MARK_COUNT; i++) {
        PylayerMark *mark = &live->marks[(first + i) % PYLAYER_MARK_COUNT];
        uint32_t none = PYLAYER_MARK_NONE;
        if (__atomic_load_n(&mark->call, __ATOMIC_RELAXED) == PYLAYER_MARK_NONE &&
            __atomic_compare_exchange_n(&mark->call, &none, PYLAYER_MARK_TAKEN, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return mark;
    }
    return NULL;
}

static atomic_bool exit_has_begun;

/* cache: PylayerMark::cache. */
static Mark mark_ids(Crash *crash, uint32_t call, unsigned kind, uint64_t cache, const uint64_t *ids, unsigned id_count)
{
    LiveFile *live = atomic_load_explicit(&crash->live, memory_order_acquire);
    /* A forked child shares the file and passes every call unchanged, so it must not mark. */
    if (!live || atomic_load_explicit(&exit_has_begun, memory_order_relaxed) || process_is_forked_child())
        return NULL;
    PylayerMark *taken = take_mark(live);
    if (!taken)
        return NULL;
    taken->kind = (uint16_t)kind;
    taken->cache = cache;
    taken->id_count = (uint16_t)id_count;
    memcpy(taken->ids, ids, id_count * sizeof *ids);
    set_call(taken, call);
    return taken;
}

Mark mark_record(Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    uint64_t id = digest_id(digest);
    return mark_ids(crash, PYLAYER_MARK_RECORDS, 0, 0, &id, 1);
}

Mark mark_application(Crash *crash, enum PylayerMarkedCall call, const uint64_t *data_ids, unsigned id_count)
{
    return id_count ? mark_ids(crash, call, 0, 0, data_ids, id_count) : NULL;
}

Mark mark_added(Crash *crash, enum PylayerMarkedCall call, unsigned kind, uint64_t fingerprint)
{
    return mark_ids(crash, call, kind, 0, &fingerprint, 1);
}

Mark mark_pipelines(Crash *crash, const Element *elements, uint32_t count, uint64_t data_id, bool foreign,
                    bool may_compile)
{
    uint64_t ids[PYLAYER_MARK_IDS];
    unsigned named = 0;
    if (!data_id && !(foreign && atomic_load_explicit(&crash->holds_stored, memory_order_relaxed)))
        return NULL;
    for (; elements && named < count && named < PYLAYER_MARK_IDS; named++)
        ids[named] = elements[named].fingerprint;
    return mark_ids(crash, may_compile ? PYLAYER_MARK_COMPILE : PYLAYER_MARK_PIPELINES, elements ? elements->kind : 0,
                    data_id, ids, named);
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
    LiveFile *live = atomic_load(&crash->live);
    for (unsigned i = 0; live && i < PYLAYER_MARK_COUNT; i++)
        set_call(&live->marks[i], PYLAYER_MARK_NONE);
}
