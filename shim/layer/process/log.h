/* log.h - the layer's messages to the user */
#ifndef PYLAYER_LOG_H
#define PYLAYER_LOG_H

#include <stdbool.h>
#include <sys/types.h>

#include "../../boundary.h"

void log_line(enum PylayerLogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(enum PylayerLogLevel level);
/* One write, without the signals of a pipe that nobody reads and of RLIMIT_FSIZE. Returns as write does. */
ssize_t write_quietly(int fd, const void *data, size_t size);

#endif
