/*
 * log.c - writes one line for each fact (docs/troubleshooting.md), to standard error or PYLAYER_LOG_FILE. It writes
 * nothing unless PYLAYER_LOG asks for it, because the output of the process belongs to the program.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "process/log.h"
#include "process/process.h"
#include "process/spread_lock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int threshold;
static char *log_path; /* NULL: standard error */
static struct stat first_standard_error;

static const char *const level_names[] = {"", "error", "warn", "info", "debug"};

#define LINE_BYTES 2048

static atomic_uint left_out;

static bool write_one(enum PylayerLogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes level and time, and returns their length. UTC is computed here, because even gmtime_r reads TZ and keeps
 * it: that could happen before the program sets TZ, on a thread that it does not know
 * (test_time_zone_is_the_programs). */
static size_t begin_line(char *line, size_t size, enum PylayerLogLevel level)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = now.tv_sec > 0 ? now.tv_sec : 0;
    /* Years begin with March here, so that leap days come last. 146097 days are 400 years. */
    int64_t days = seconds / 86400 + 719468, era = days / 146097, of_era = days % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), march = (5 * of_year + 2) / 153;
    int length = snprintf(line, size, "pylayer: %s: %04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", level_names[level],
                          (int)(era * 400 + year + (march >= 10)), (int)((march + 2) % 12 + 1),
                          (int)(of_year - (153 * march + 2) / 5 + 1), (int)(seconds / 3600 % 24),
                          (int)(seconds / 60 % 60), (int)(seconds % 60), now.tv_nsec / 1000000);
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

/* Adds the process id, because several processes may write into one file. Returns the length of the line. */
static size_t end_line(char *line, size_t size, size_t length)
{
    char end[32];
    int more = snprintf(end, sizeof end, " pid=%d\n", (int)getpid());
    if (length > size - (size_t)more)
        length = size - (size_t)more;
    memcpy(line + length, end, (size_t)more);
    return length + (size_t)more;
}

/*
 * Opens a file of this user's or root's, a terminal or a pipe. In a directory like /tmp somebody else may have made
 * the file, or a link to a file that is not theirs to write. A pipe that nobody reads, or that is full, loses lines
 * but blocks nobody.
 */
static int open_log(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    struct stat found;
    if (fd < 0)
        return -1;
    bool fine = fstat(fd, &found) == 0;
    if (fine && S_ISREG(found.st_mode))
        fine = found.st_uid == geteuid() || found.st_uid == 0;
    else
        fine = fine && (S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode));
    if (fine)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

static int level_named(const char *wanted)
{
    for (int level = PYLAYER_LOG_ERROR; wanted && level <= PYLAYER_LOG_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return level;
    return 0;
}

static void read_environment(void)
{
    const char *path = secure_getenv("PYLAYER_LOG_FILE");
    int level = level_named(secure_getenv("PYLAYER_LOG"));
    if (level)
        fstat(STDERR_FILENO, &first_standard_error);
    if (level && path && *path) {
        int fd = open_log(path);
        if (fd >= 0) {
            log_path = realpath(path, NULL);
            close(fd);
        } else if (level >= PYLAYER_LOG_WARN && errno == EPERM) {
            write_one(PYLAYER_LOG_WARN, "PYLAYER_LOG_FILE is not used: it is not this user's own file");
        } else if (level >= PYLAYER_LOG_WARN) {
            write_one(PYLAYER_LOG_WARN, "PYLAYER_LOG_FILE cannot be written");
        }
    }
    atomic_store(&threshold, level);
}

bool log_enabled(enum PylayerLogLevel level)
{
    pthread_once(&once, read_environment);
    return (int)level <= atomic_load_explicit(&threshold, memory_order_acquire);
}

/* Names of programs and devices are untrusted text. They must not end the line or control a terminal. This replaces
 * ASCII's control characters, C1's (U+0080 to U+009F), and those that change the text direction (U+202A to U+202E,
 * U+2066 to U+2069). */
static void make_harmless(char *line, size_t length)
{
    unsigned char *text = (unsigned char *)line;
    for (size_t i = 0; i < length; i++) {
        size_t bytes = 0;
        if (text[i] < 0x20 || text[i] == 0x7f)
            bytes = 1;
        else if (text[i] == 0xc2 && i + 1 < length && text[i + 1] >= 0x80 && text[i + 1] < 0xa0)
            bytes = 2;
        else if (text[i] == 0xe2 && i + 2 < length &&
                 ((text[i + 1] == 0x80 && text[i + 2] >= 0xaa && text[i + 2] <= 0xae) ||
                  (text[i + 1] == 0x81 && text[i + 2] >= 0xa6 && text[i + 2] <= 0xa9)))
            bytes = 3;
        if (bytes)
            memset(text + i, text[i] == '\n' ? ' ' : '?', bytes);
    }
}

/* Uses one write, so that lines of several threads and processes do not mix. Writing to a pipe without a reader, or
 * to a file at RLIMIT_FSIZE, raises a signal that would end the program, so it is blocked and removed. If the program
 * blocks it itself, that may be one which it has not taken yet: its own write has failed, too. */
ssize_t write_quietly(int fd, const void *data, size_t size)
{
    sigset_t ends, previous;
    sigemptyset(&ends);
    sigaddset(&ends, SIGPIPE);
    sigaddset(&ends, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &ends, &previous);
    ssize_t written = write(fd, data, size);
    if (written < 0 && (errno == EPIPE || errno == EFBIG)) {
        int reason = errno;
        while (sigtimedwait(&ends, NULL, &(struct timespec){0}) > 0)
            ;
        errno = reason;
    }
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    return written;
}

/* A terminal that nobody reads says that it has room as long as it has any. That is at least 256 bytes (tty_buffer.c),
 * and a line's end takes two. */
#define TERMINAL_BYTES 250

/* Returns how many bytes standard error takes at once. 0: the program replaced it by a file that may be its data,
 * neither a terminal nor opened for appending. */
static size_t standard_error_takes(void)
{
    struct stat found;
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    if (flags < 0 || fstat(STDERR_FILENO, &found) != 0)
        return 0;
    if (S_ISCHR(found.st_mode))
        return TERMINAL_BYTES;
    bool same = found.st_dev == first_standard_error.st_dev && found.st_ino == first_standard_error.st_ino;
    return same || flags & O_APPEND ? PIPE_BUF : 0;
}

/* The program shares standard error, so O_NONBLOCK would be the program's too. If poll() says that a pipe has room, it
 * has room for PIPE_BUF bytes. Returns false if there is no room now. */
static bool write_to_standard_error(const char *line, size_t length)
{
    size_t most = standard_error_takes(), done = 0;
    ssize_t written = 1;
    while (most > 0 && done < length && written > 0) {
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT))
            return false;
        written = write_quietly(STDERR_FILENO, line + done, length - done < most ? length - done : most);
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* Opens the log file for each line, because the program may close any descriptor and reuse its number for its own
 * file. */
static bool write_to_file(const char *line, size_t length)
{
    int fd = open_log(log_path);
    if (fd < 0)
        return true;
    bool full = write_quietly(fd, line, length) < 0 && errno == EAGAIN;
    close(fd);
    return !full;
}

/* In a forked child a thread that does not exist there may hold the mutex, so nobody waits for it longer. */
#define TURN_NS 100000000

/* Returns false if there is no room for the line now. Two threads must not both see the last room of a pipe. */
static bool write_out(const char *line, size_t length)
{
    static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
    if (log_path)
        return write_to_file(line, length);
    int cancellation = cancellation_off();
    bool written = mutex_lock_within(&writing, TURN_NS);
    if (written) {
        written = write_to_standard_error(line, length);
        pthread_mutex_unlock(&writing);
    }
    cancellation_restore(cancellation);
    return written;
}

static bool write_line(enum PylayerLogLevel level, const char *format, va_list arguments)
{
    char line[LINE_BYTES];
    size_t used = begin_line(line, sizeof line, level);
    int more = vsnprintf(line + used, sizeof line - used, format, arguments);
    size_t length = used + (more < 0 ? 0 : (size_t)more);
    if (length > sizeof line - 1)
        length = sizeof line - 1;
    make_harmless(line, length);
    length = end_line(line, sizeof line, length);
    int before = errno;
    bool written = write_out(line, length);
    errno = before;
    return written;
}

static bool write_one(enum PylayerLogLevel level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool written = write_line(level, format, arguments);
    va_end(arguments);
    return written;
}

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    unsigned missing = atomic_exchange(&left_out, 0);
    if (missing && !write_one(PYLAYER_LOG_WARN, "%u log lines were dropped, because nobody read them", missing))
        atomic_fetch_add(&left_out, missing);
    va_list arguments;
    va_start(arguments, format);
    if (!write_line(level, format, arguments))
        atomic_fetch_add(&left_out, 1);
    va_end(arguments);
}
