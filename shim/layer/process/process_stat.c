/* process_stat.c - see process.h */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "process/process.h"
#include "process/trusted.h"

bool process_stat(const char *path, ProcessStat *out)
{
    char text[1024], state;
    if (read_text(path, text, sizeof text) == 0)
        return false;
    /* The name before the last parenthesis may hold anything. */
    const char *end = strrchr(text, ')');
    errno = EINVAL;
    if (!end || sscanf(end + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %*s %llu",
                       &state, &out->threads, &out->start_ticks) != 3)
        return false;
    out->main_has_ended = state == 'Z' || state == 'X';
    return true;
}
