/*
 * storage.c - a disk that fails as a test wants it, another time and another boot: a library for LD_PRELOAD.
 *
 *   PYLAYER_TEST_STORAGE_ROOT   only what is below this directory fails
 *   PYLAYER_TEST_STORAGE        rules, separated by commas: operation:action[:condition]...
 *   PYLAYER_TEST_STORAGE_LOG    a file that gets one line for each fault, so that a test can tell that it struck
 *
 * Operations: open (files and directories), change (what makes, renames, cuts or deletes a file), write, read, fsync,
 * rename, unlink, mkdir, truncate, stat, dup, and clock, which is no file's.
 * Actions: a name of errno; SHORT=n, at most n bytes go through; KILL and STOP, a signal before the call is made;
 * of clock BACK=s, seconds, or -s where it is ahead.
 * Conditions: nth=n, that call alone; from=n, that one and all later ones; after=n, of write: from so many bytes on,
 * as on a disk that is full then; path=text, only names that have it in them, below the directory.
 *
 *   PYLAYER_TEST_BOOT   a file that is read in place of the kernel's boot id, as after a reboot
 *   PYLAYER_TEST_WATCH  a file that gets one line at the process's end, also at _exit: whether an interpreter was loaded.
 *                       No process with this variable prunes the store by chance
 *
 * Calls are made by number, so that nothing of this library depends on what else is preloaded.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
/* Another name of a function of this library: on 64-bit machines the C library's are the same, too. */
#define SAME_AS(name) __attribute__((visibility("default"), alias(#name)))
#define MAX_RULES 16

typedef enum {
    OPEN = 1 << 0,
    CHANGE = 1 << 1,
    WRITE = 1 << 2,
    READ = 1 << 3,
    FSYNC = 1 << 4,
    RENAME = 1 << 5,
    UNLINK = 1 << 6,
    MKDIR = 1 << 7,
    TRUNCATE = 1 << 8,
    STAT = 1 << 9,
    DUP = 1 << 10,
    CLOCK = 1 << 11,
} Operation;

typedef struct {
    unsigned operations;
    int error;      /* errno, 0 where the call is not refused */
    int signal;     /* 0: none */
    long at_most;   /* bytes, -1: all */
    long back;      /* seconds */
    long nth, from; /* 0: every call */
    long after;     /* bytes, -1: no matter */
    const char *path;
    atomic_long calls, bytes;
} Rule;

static Rule rules[MAX_RULES];
static size_t rule_count;
static unsigned watched; /* operations that a rule is about */
static const char *root = "";
static size_t root_length;
static int log_file = -1;
static const char *boot_file, *watch_file;
static pid_t watched_process;

/* ---- Rules ---------------------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    int value;
} Name;

static const Name operations[] = {
    {"open", OPEN},     {"change", CHANGE}, {"write", WRITE}, {"read", READ}, {"fsync", FSYNC},
    {"rename", RENAME}, {"unlink", UNLINK}, {"mkdir", MKDIR}, {"stat", STAT}, {"truncate", TRUNCATE},
    {"dup", DUP},       {"clock", CLOCK},   {NULL, 0},
};
static const Name errors[] = {
    {"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT}, {"EROFS", EROFS},
    {"EAGAIN", EAGAIN}, {"EMFILE", EMFILE}, {"EACCES", EACCES}, {"ENOENT", ENOENT},
    {"ENFILE", ENFILE}, {"ESTALE", ESTALE}, {NULL, 0},
};
static const Name signals[] = {{"KILL", SIGKILL}, {"STOP", SIGSTOP}, {NULL, 0}};

static int find(const Name *names, const char *name)
{
    for (; names->name; names++)
        if (strcmp(names->name, name) == 0)
            return names->value;
    return 0;
}

static bool read_part(Rule *rule, const char *part)
{
    const char *equals = strchr(part, '=');
    if (!equals) {
        rule->error = find(errors, part);
        rule->signal = find(signals, part);
        return rule->error || rule->signal;
    }
    const struct {
        const char *name;
        long *number;
    } numbers[] = {
        {"SHORT=", &rule->at_most}, {"BACK=", &rule->back},   {"nth=", &rule->nth},
        {"from=", &rule->from},     {"after=", &rule->after},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strncmp(part, numbers[i].name, strlen(numbers[i].name)) == 0) {
            *numbers[i].number = strtol(equals + 1, NULL, 10);
            return equals[1] == '-' || (equals[1] >= '0' && equals[1] <= '9');
        }
    rule->path = equals + 1;
    return strncmp(part, "path=", 5) == 0;
}

static bool read_rule(Rule *rule, char *text)
{
    bool fine = true, acts = false;
    char *part = strsep(&text, ":");
    rule->at_most = rule->after = -1;
    rule->operations = (unsigned)find(operations, part);
    while (fine && (part = strsep(&text, ":")) != NULL)
        fine = read_part(rule, part);
    acts = rule->error || rule->signal || rule->at_most >= 0 || rule->back;
    return fine && acts && rule->operations;
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *wanted = getenv("PYLAYER_TEST_STORAGE"), *path = getenv("PYLAYER_TEST_STORAGE_LOG");
    const char *below = getenv("PYLAYER_TEST_STORAGE_ROOT"), *watch = getenv("PYLAYER_TEST_WATCH");
    const char *boot = getenv("PYLAYER_TEST_BOOT");
    boot_file = boot ? strdup(boot) : NULL;
    watch_file = watch ? strdup(watch) : NULL;
    watched_process = getpid();
    if (!wanted || !*wanted || !below)
        return;
    root = strdup(below);
    root_length = strlen(root);
    if (path && *path)
        log_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    /* The rules keep pointers into the copy. */
    char *rest = strdup(wanted);
    for (char *rule; rest && (rule = strsep(&rest, ",")) != NULL;) {
        char whole[256];
        snprintf(whole, sizeof whole, "%s", rule);
        if (rule_count == MAX_RULES || !read_rule(&rules[rule_count], rule)) {
            /* A test that injects nothing would pass. */
            fprintf(stderr, "storage: no such fault: %s\n", whole);
            abort();
        }
        watched |= rules[rule_count++].operations;
    }
}

static void note(const char *what, const char *name, long call)
{
    char line[1024];
    int length = snprintf(line, sizeof line, "storage: %s, call %ld: %s\n", what, call, name);
    if (log_file >= 0 && length > 0)
        syscall(SYS_write, log_file, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* ---- Which file ----------------------------------------------------------------------------------- */

static bool is_below(const char *name)
{
    return strncmp(name, root, root_length) == 0 && (name[root_length] == '/' || name[root_length] == '\0');
}

/* What a descriptor is open on, also one that was duplicated or renamed since. */
static bool name_of(int fd, char *name, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, name, size - 1);
    name[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* ---- What becomes of a call ------------------------------------------------------------------------ */

typedef struct {
    int error;
    size_t bytes; /* so many go through */
} Fate;

static bool strikes(const Rule *rule, long call)
{
    return rule->nth ? call == rule->nth : call >= rule->from;
}

static bool apply(Rule *rule, const char *name, size_t bytes, Fate *fate)
{
    long call = ++rule->calls;
    if (!strikes(rule, call))
        return false;
    if (rule->after >= 0) {
        long before = atomic_fetch_add(&rule->bytes, (long)bytes), room = rule->after - before;
        if (room >= (long)bytes)
            return false;
        if (room > 0) {
            fate->bytes = (size_t)room;
            note("full", name, call);
            return true;
        }
    }
    if (rule->signal) {
        note("signal", name, call);
        /* To this thread: a signal to the process is another thread's to take, and this one goes on until it has. */
        syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), rule->signal);
        return false;
    }
    if (rule->at_most >= 0 && bytes > (size_t)rule->at_most)
        fate->bytes = (size_t)rule->at_most;
    fate->error = rule->error;
    note(rule->error ? strerrorname_np(rule->error) : "short", name, call);
    return true;
}

static Fate fate_of(unsigned operation, const char *name, size_t bytes)
{
    Fate fate = {0, bytes};
    if (!is_below(name))
        return fate;
    for (size_t i = 0; i < rule_count; i++) {
        Rule *rule = &rules[i];
        if ((rule->operations & operation) && (!rule->path || strstr(name + root_length, rule->path)) &&
            apply(rule, name, bytes, &fate))
            break;
    }
    return fate;
}

/* True where the call is refused: errno is set. */
static bool refused_at(unsigned operation, int directory, const char *path)
{
    if (!(watched & operation) || !path)
        return false;
    char name[8192];
    if (*path != '/' && directory != AT_FDCWD) {
        char base[4096];
        if (!name_of(directory, base, sizeof base))
            return false;
        snprintf(name, sizeof name, "%s/%s", base, path);
    } else {
        snprintf(name, sizeof name, "%s", path);
    }
    Fate fate = fate_of(operation, name, 0);
    if (fate.error)
        errno = fate.error;
    return fate.error != 0;
}

static Fate fate_on(unsigned operation, int fd, size_t bytes)
{
    char name[4096];
    if (!(watched & operation) || !name_of(fd, name, sizeof name))
        return (Fate){0, bytes};
    Fate fate = fate_of(operation, name, bytes);
    if (fate.error)
        errno = fate.error;
    return fate;
}

/* ---- Opening -------------------------------------------------------------------------------------- */

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
    bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    if (refused_at(writes ? OPEN | CHANGE : OPEN, directory, path))
        return -1;
    if (boot_file && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        path = boot_file;
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

#define OPEN_FUNCTION(name, parameters, directory)                                                                     \
    VISIBLE int name parameters                                                                                        \
    {                                                                                                                  \
        va_list arguments;                                                                                             \
        va_start(arguments, flags);                                                                                    \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;                                 \
        va_end(arguments);                                                                                             \
        return open_at(directory, path, flags, mode);                                                                  \
    }

OPEN_FUNCTION(open64, (const char *path, int flags, ...), AT_FDCWD)
OPEN_FUNCTION(openat64, (int directory, const char *path, int flags, ...), directory)
SAME_AS(open64) int open(const char *path, int flags, ...);
SAME_AS(openat64) int openat(int directory, const char *path, int flags, ...);

VISIBLE DIR *opendir(const char *path)
{
    static DIR *(*real)(const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    return refused_at(OPEN, AT_FDCWD, path) ? NULL : real(path);
}

VISIBLE int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && fate_on(DUP, fd, 0).error)
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
SAME_AS(fcntl64) int fcntl(int fd, int command, ...);

/* ---- Reading and writing --------------------------------------------------------------------------- */

static size_t size_of(const struct iovec *pieces, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    return size;
}

/* Makes a call with many pieces, where less goes through with as much of the first ones. */
static ssize_t vector(long number, int fd, const struct iovec *pieces, int count, off_t offset, int flags, size_t bytes)
{
    struct iovec cut[1024];
    if (bytes < size_of(pieces, count)) {
        int used = 0;
        for (; used < count && bytes > 0; used++) {
            cut[used] = pieces[used];
            if (cut[used].iov_len > bytes)
                cut[used].iov_len = bytes;
            bytes -= cut[used].iov_len;
        }
        pieces = cut;
        count = used;
    }
    return syscall(number, fd, pieces, count, offset, 0L, flags);
}

static ssize_t transfer(Operation operation, long number, int fd, const void *data, size_t size, off_t offset)
{
    Fate fate = fate_on(operation, fd, size);
    return fate.error ? -1 : syscall(number, fd, data, fate.bytes, offset);
}

static ssize_t transfer_pieces(Operation operation, long number, int fd, const struct iovec *pieces, int count,
                               off_t offset, int flags)
{
    Fate fate = fate_on(operation, fd, size_of(pieces, count));
    return fate.error ? -1 : vector(number, fd, pieces, count, offset, flags, fate.bytes);
}

VISIBLE ssize_t write(int fd, const void *data, size_t size)
{
    return transfer(WRITE, SYS_write, fd, data, size, 0);
}

VISIBLE ssize_t read(int fd, void *data, size_t size)
{
    return transfer(READ, SYS_read, fd, data, size, 0);
}

VISIBLE ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    return transfer_pieces(WRITE, SYS_writev, fd, pieces, count, 0, 0);
}

VISIBLE ssize_t readv(int fd, const struct iovec *pieces, int count)
{
    return transfer_pieces(READ, SYS_readv, fd, pieces, count, 0, 0);
}

VISIBLE ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return transfer(WRITE, SYS_pwrite64, fd, data, size, offset);
}

SAME_AS(pwrite64) ssize_t pwrite(int fd, const void *data, size_t size, off_t offset);

VISIBLE ssize_t pread64(int fd, void *data, size_t size, off_t offset)
{
    return transfer(READ, SYS_pread64, fd, data, size, offset);
}

SAME_AS(pread64) ssize_t pread(int fd, void *data, size_t size, off_t offset);

/* What a compiler calls that checks arguments, as Ubuntu's does. The headers do not declare them. */
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
int __open64_2(const char *path, int flags);

VISIBLE ssize_t __read_chk(int fd, void *data, size_t size, size_t room)
{
    return size <= room ? read(fd, data, size) : -1;
}

VISIBLE int __open64_2(const char *path, int flags)
{
    return open64(path, flags);
}
SAME_AS(__open64_2) int __open_2(const char *path, int flags);

VISIBLE ssize_t pwritev64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    return transfer_pieces(WRITE, SYS_pwritev2, fd, pieces, count, offset, flags);
}

VISIBLE ssize_t preadv64v2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
    return transfer_pieces(READ, SYS_preadv2, fd, pieces, count, offset, flags);
}

VISIBLE int fsync(int fd)
{
    return fate_on(FSYNC, fd, 0).error ? -1 : (int)syscall(SYS_fsync, fd);
}

VISIBLE int fdatasync(int fd)
{
    return fate_on(FSYNC, fd, 0).error ? -1 : (int)syscall(SYS_fdatasync, fd);
}

VISIBLE int ftruncate64(int fd, off_t size)
{
    return fate_on(TRUNCATE | CHANGE, fd, 0).error ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

SAME_AS(ftruncate64) int ftruncate(int fd, off_t size);

/* ---- Names ---------------------------------------------------------------------------------------- */

VISIBLE int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    if (refused_at(RENAME | CHANGE, from_directory, from))
        return -1;
    return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
}

VISIBLE int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

VISIBLE int unlinkat(int directory, const char *path, int flags)
{
    return refused_at(UNLINK | CHANGE, directory, path) ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
}

VISIBLE int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

VISIBLE int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

VISIBLE int mkdirat(int directory, const char *path, mode_t mode)
{
    return refused_at(MKDIR | CHANGE, directory, path) ? -1 : (int)syscall(SYS_mkdirat, directory, path, mode);
}

VISIBLE int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

static int stat_at(int directory, const char *path, void *found, int flags)
{
    return refused_at(STAT, directory, path) ? -1 : (int)syscall(SYS_newfstatat, directory, path, found, flags);
}

VISIBLE int stat(const char *path, struct stat *found)
{
    return stat_at(AT_FDCWD, path, found, 0);
}

SAME_AS(stat) int stat64(const char *path, struct stat64 *found);

VISIBLE int lstat64(const char *path, struct stat64 *found)
{
    return stat_at(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

VISIBLE int fstatat64(int directory, const char *path, struct stat64 *found, int flags)
{
    return stat_at(directory, path, found, flags);
}

VISIBLE int fstat(int fd, struct stat *found)
{
    return fate_on(STAT, fd, 0).error ? -1 : (int)syscall(SYS_fstat, fd, found);
}

SAME_AS(fstat) int fstat64(int fd, struct stat64 *found);

/* ---- Time ----------------------------------------------------------------------------------------- */

VISIBLE int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    /* By this time's microseconds the layer chooses one process of 64 that prunes. */
    if (result == 0 && watch_file && clock == CLOCK_MONOTONIC &&
        (now->tv_sec * 1000000ll + now->tv_nsec / 1000) % 64 == 0)
        now->tv_nsec += now->tv_nsec < 999999000 ? 1000 : 0;
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) || !(watched & CLOCK))
        return result;
    for (size_t i = 0; i < rule_count; i++) {
        long call = rules[i].operations & CLOCK ? ++rules[i].calls : 0;
        if (call && strikes(&rules[i], call)) {
            now->tv_sec -= rules[i].back;
            if (call == 1 || call == rules[i].nth || call == rules[i].from)
                note("clock", "back", call);
        }
    }
    return result;
}

VISIBLE time_t time(time_t *out)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

VISIBLE int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

/* ---- The end -------------------------------------------------------------------------------------- */

static int is_interpreter(struct dl_phdr_info *info, size_t size, void *unused)
{
    return info->dlpi_name && strstr(info->dlpi_name, "/_policy.") != NULL;
}

/* Not in children of the program. */
__attribute__((destructor)) static void write_end(void)
{
    if (!watch_file || !*watch_file || getpid() != watched_process)
        return;
    const char *line = dl_iterate_phdr(is_interpreter, NULL) ? "interpreter=1\n" : "interpreter=0\n";
    int file = (int)syscall(SYS_openat, AT_FDCWD, watch_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    syscall(SYS_write, file, line, strlen(line));
    close(file);
    watch_file = "";
}

VISIBLE void _exit(int status)
{
    write_end();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}
