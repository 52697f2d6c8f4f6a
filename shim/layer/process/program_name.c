/* program_name.c - see program_name.h */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/program_name.h"
#include "process/digest.h"
#include "process/trusted.h"

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Interpreters that run a script or another program. A version may follow the name. */
static bool runs_scripts(const char *executable)
{
    static const char *const starts[] = {"python", "pypy", "wine", "ld-linux", "ld-musl"};
    static const char *const names[] = {"java", "javaw", "lua", "luajit", "node", "nodejs", "perl", "ruby"};
    if (starts_with(executable, "qemu-"))
        return !starts_with(executable, "qemu-system");
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (starts_with(executable, starts[i]))
            return true;
    size_t length = strlen(executable);
    while (length && strchr("0123456789.-", executable[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(executable, names[i], length) == 0)
            return true;
    return false;
}

static void join(char *out, const char *executable, const char *name, size_t size)
{
    size_t used = strlen(executable);
    memcpy(out, executable, used); /* NOLINT(bugprone-not-null-terminated-result): it has a size */
    out[used++] = ' ';
    memcpy(out + used, name, size);
    out[used + size] = '\0';
}

void program_name(char out[NAME_ROOM], const char *executable, const char *command_line, size_t size)
{
    bool scripts = runs_scripts(executable);
    const char *end = command_line + size;
    for (const char *argument = command_line; scripts && argument <= end;) {
        const char *stop = argument < end ? memchr(argument, '\0', (size_t)(end - argument)) : NULL;
        size_t length = (size_t)((stop ? stop : end) - argument);
        /* Wine removes its own name from the command line, which then begins with the Windows program. */
        bool counts = argument > command_line || (length >= 4 && strncasecmp(argument + length - 4, ".exe", 4) == 0);
        if (counts && length == 2 && (memcmp(argument, "-c", 2) == 0 || memcmp(argument, "-e", 2) == 0))
            return join(out, executable, argument, length);
        if (counts && length && *argument != '-') {
            size_t first = length;
            while (first && argument[first - 1] != '/' && argument[first - 1] != '\\')
                first--;
            return join(out, executable, argument + first, length - first);
        }
        argument += length + 1;
    }
    snprintf(out, NAME_ROOM, "%s", executable);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char program_path[PATH_BYTES], *own_program_name;
static ProgramText own = {.path = program_path, .command_line = ""};

static void read_own(void)
{
    ssize_t length = readlink("/proc/thread-self/exe", program_path, sizeof program_path - 1);
    own.path_size = length > 0 ? (size_t)length : 0;
    char *read = read_all(open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC), COMMAND_LINE_BYTES, 0,
                          &own.command_line_size);
    if (read)
        own.command_line = read;
    else
        own.command_line_size = 0;
    const char *slash = strrchr(program_path, '/'), *executable = slash ? slash + 1 : program_path;
    own_program_name = malloc(NAME_ROOM);
    if (own_program_name)
        program_name(own_program_name, own.path_size ? executable : "unknown", own.command_line, own.command_line_size);
}

const ProgramText *program_text(void)
{
    pthread_once(&once, read_own);
    return &own;
}

const char *executable_name(void)
{
    pthread_once(&once, read_own);
    return own_program_name;
}

char *program_title(const char *application_name)
{
    char *title = NULL;
    const char *executable = executable_name();
    bool both = executable && *application_name && !strcasestr(executable, application_name);
    int length = !executable ? -1
                 : both      ? asprintf(&title, "%s (%s)", executable, application_name)
                             : asprintf(&title, "%s", executable);
    return length < 0 ? NULL : title;
}

bool program_id(const char *application_name, uint64_t *id)
{
    char *text = NULL;
    const char *executable = executable_name();
    int length = executable ? asprintf(&text, "%s%c%s", executable, '\0', application_name) : -1;
    if (length < 0)
        return false;
    bool plain = true;
    for (int i = 0; i < length; i++)
        plain &= (unsigned char)text[i] < 0x80;
    *id = digest64(text, (size_t)length, 0);
    free(text);
    return plain;
}
