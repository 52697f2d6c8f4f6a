/*
 * log.c - one line a fact, to standard error or PYLAYER_LOG_FILE, and nothing unless PYLAYER_LOG asks:
 * the layer runs in programs whose output belongs to somebody else.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layer.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int threshold;
static int log_fd = STDERR_FILENO;

static const char *const level_names[] = {"", "error", "warn", "info", "debug"};

static void read_environment(void)
{
    const char *wanted = secure_getenv("PYLAYER_LOG");
    for (int level = PYLAYER_LOG_ERROR; wanted && level <= PYLAYER_LOG_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            threshold = level;
    const char *path = secure_getenv("PYLAYER_LOG_FILE");
    if (threshold && path && *path) {
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
        if (fd >= 0)
            log_fd = fd;
    }
}

bool log_enabled(enum PylayerLogLevel level)
{
    pthread_once(&once, read_environment);
    return (int)level <= threshold;
}

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    char line[1024];
    int used = snprintf(line, sizeof line, "pylayer: %s: ", level_names[level]);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\n')
            line[i] = ' ';
    line[length++] = '\n';
    /* One write, so that lines of several threads and processes do not mix. */
    ssize_t written = write(log_fd, line, length);
    (void)written;
}
