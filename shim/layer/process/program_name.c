/* program_name.c - see program_name.h */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/program_name.h"
#include "process/digest.h"
#include "process/trusted.h"

/* What the kernel writes behind the path of a file that was deleted or replaced. */
#define DELETED " (deleted)"
/* Of longer arguments only so many bytes are read. */
#define MOST_ARGUMENTS (1u << 20)

/* Interpreters that run a script or another program. A version may follow the name. */
static bool runs_scripts(const char *executable)
{
    static const char *const starts[] = {"python", "pypy", "ld-linux", "ld-musl"};
    static const char *const names[] = {"java", "javaw", "lua", "luajit", "node", "nodejs", "perl", "ruby"};
    if (name_begins(executable, "qemu-"))
        return !name_begins(executable, "qemu-system");
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (name_begins(executable, starts[i]))
            return true;
    size_t length = strlen(executable);
    while (length && strchr("0123456789.-", executable[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && strncmp(executable, names[i], length) == 0)
            return true;
    return false;
}

/* Returns what follows the last slash of either kind. */
static const char *last_part(const char *path)
{
    const char *name = path;
    for (; *path; path++)
        if (*path == '/' || *path == '\\')
            name = path + 1;
    return name;
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcasecmp(text + size - end_size, end) == 0;
}

/* Cuts an end off, if it is there. */
static void cut(char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);
    if (size >= end_size && strcmp(text + size - end_size, end) == 0)
        text[size - end_size] = '\0';
}

/* What is left of a process's arguments, each with a zero behind it. */
typedef struct Arguments {
    const char *next, *end;
} Arguments;

/* Returns the next argument; NULL if there is none. */
static const char *next_argument(Arguments *of)
{
    const char *one = of->next < of->end ? of->next : NULL;
    of->next += one ? strlen(one) + 1 : 0;
    return one;
}

/* ---- Windows programs ------------------------------------------------------------------------------ */

/* Wine's loader, as wine64-preloader. It runs Windows programs in its own process. */
static bool is_wine(const char *name)
{
    return name_begins(name, "wine") && !ends_with(name, ".exe") &&
           (!name[4] || strchr("0123456789.-", name[4]) || name_begins(name + 4, "loader"));
}

/* Returns the name of the file that a line of /proc/PID/maps maps as a program: from its first byte, and private. Wine
 * shares what a program only reads of another .exe, such as its icons. The name is empty for all other lines. Writes
 * into the line. */
static const char *program_in(char *line)
{
    unsigned long offset;
    char access[5];
    int at = 0;
    if (sscanf(line, "%*s %4s %lx %*s %*s %n", access, &offset, &at) != 2 || offset || access[3] != 'p' ||
        line[at] != '/')
        return "";
    cut(line, "\n");
    cut(line, DELETED);
    if (ends_with(line, ".exe.so")) /* Wine's own programs, before Wine 6 */
        line[strlen(line) - strlen(".so")] = '\0';
    return strrchr(line, '/') + 1;
}

/* Writes the name of the Windows program that is mapped: what the command line calls so, or the first .exe. Returns
 * false if there is none. */
static bool name_mapped(char out[NAME_ROOM], const char *process, const char *called)
{
    char path[PATH_BYTES], *line = NULL;
    snprintf(path, sizeof path, "%s/maps", process);
    FILE *file = fopen(path, "re");
    size_t room = 0;
    bool found = false, is_called = false;
    while (file && !is_called && getline(&line, &room, file) > 0) {
        const char *name = program_in(line);
        is_called = *name && strcasecmp(name, called) == 0;
        if (is_called || (!found && ends_with(name, ".exe"))) {
            snprintf(out, NAME_ROOM, "%s", name);
            found = true;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Writes the name of a Windows program. Returns false if this is none. Its command line can begin with anything, so
 * what is mapped goes first. */
static bool name_windows(char out[NAME_ROOM], const char *executable, Arguments arguments, const char *process)
{
    bool wine = is_wine(executable);
    const char *called = "", *argument;
    while (!*called && (argument = next_argument(&arguments))) {
        argument = last_part(argument);
        if (*argument && *argument != '-' && !is_wine(argument))
            called = argument; /* read last */
        else if (!wine)
            break;
    }
    if (!wine && !ends_with(called, ".exe"))
        return false;
    if (name_mapped(out, process, called))
        return true;
    if (*called && wine)
        snprintf(out, NAME_ROOM, "%s", called);
    return *called && wine;
}

/* ---- all programs ------------------------------------------------------------------------------ */

/* Writes the name of a program that is not a Windows program. */
static void name_other(char out[NAME_ROOM], const char *executable, Arguments arguments)
{
    snprintf(out, NAME_ROOM, "%s", executable);
    const char *argument = runs_scripts(executable) ? next_argument(&arguments) : NULL;
    while (argument && (argument = next_argument(&arguments))) {
        bool is_code = strcmp(argument, "-c") == 0 || strcmp(argument, "-e") == 0;
        if (is_code || (*argument && *argument != '-')) {
            snprintf(out, NAME_ROOM, "%s %s", executable, is_code ? argument : last_part(argument));
            return;
        }
    }
}

int32_t pylayer_program_name(char out[NAME_ROOM], const char *process)
{
    char path[PATH_BYTES], file[PATH_BYTES];
    size_t size = 0;
    snprintf(file, sizeof file, "%s/exe", process);
    ssize_t length = readlink(file, path, sizeof path - 1);
    snprintf(file, sizeof file, "%s/cmdline", process);
    char *text = length > 0 ? read_all(open(file, O_RDONLY | O_CLOEXEC), MOST_ARGUMENTS, 1, &size) : NULL;
    if (!text)
        return -1;
    text[size] = path[length] = '\0';
    cut(path, DELETED);
    const char *slash = strrchr(path, '/'), *executable = slash ? slash + 1 : path;
    /* What argv[0] says is not believed. */
    const Arguments arguments = {text, text + size};
    if (!name_windows(out, executable, arguments, process))
        name_other(out, executable, arguments);
    free(text);
    return 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char own_program_name[NAME_ROOM];

/* This thread's entry is read because the main thread may have ended. A call of the system that fails once must not
 * make the program another one, so it is read again. In a sandbox it fails each time. */
static void read_own(void)
{
    if (pylayer_program_name(own_program_name, "/proc/thread-self") &&
        pylayer_program_name(own_program_name, "/proc/thread-self"))
        strcpy(own_program_name, "unknown");
}

const char *executable_name(void)
{
    pthread_once(&once, read_own);
    return own_program_name;
}

uint64_t program_id(const char *application_name)
{
    char text[NAME_ROOM + PYLAYER_NAME_BYTES];
    int length = snprintf(text, sizeof text, "%s%c%s", executable_name(), '\0', application_name);
    return digest64(text, (size_t)length, 0);
}
