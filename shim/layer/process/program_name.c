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

/* What the kernel writes behind the path of a file that was deleted or replaced. */
#define DELETED " (deleted)"

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

/* Part of a text. */
typedef struct Part {
    const char *text;
    size_t size;
} Part;

/* Returns what follows the last slash of either kind. */
static Part last_part(Part path)
{
    size_t first = path.size;
    while (first && path.text[first - 1] != '/' && path.text[first - 1] != '\\')
        first--;
    return (Part){path.text + first, path.size - first};
}

static bool ends_with(Part part, const char *end)
{
    size_t size = strlen(end);
    return part.size >= size && strncasecmp(part.text + part.size - size, end, size) == 0;
}

/* Returns the argument at an offset of the command line, and sets the offset of the next one. */
static Part argument_at(const char *command_line, size_t size, size_t *at)
{
    Part found = {command_line + *at, strnlen(command_line + *at, size - *at)};
    *at += found.size + 1;
    return found;
}

static void write_part(char *out, size_t used, Part name)
{
    if (name.size >= NAME_ROOM - used)
        name.size = NAME_ROOM - used - 1;
    memcpy(out + used, name.text, name.size);
    out[used + name.size] = '\0';
}

/* ---- Windows programs ------------------------------------------------------------------------------ */

/* Wine's loader, as wine64-preloader. It runs Windows programs in its own process. */
static bool is_wine(Part name)
{
    bool begins = name.size >= 4 && memcmp(name.text, "wine", 4) == 0;
    return begins && !ends_with(name, ".exe") &&
           (name.size == 4 || strchr("0123456789.-", name.text[4]) ||
            (name.size >= 10 && memcmp(name.text + 4, "loader", 6) == 0));
}

/* Returns the name of the file that a line of /proc/PID/maps maps as a program: from its first byte, and private. Wine
 * shares what a program only reads of another .exe, such as its icons. The name is empty for all other lines. */
static Part program_in(const char *line)
{
    unsigned long offset;
    char access[5];
    int at = 0;
    if (sscanf(line, "%*s %4s %lx %*s %*s %n", access, &offset, &at) != 2 || offset || access[3] != 'p' ||
        line[at] != '/')
        return (Part){line, 0};
    const char *slash = strrchr(line, '/');
    Part name = {slash + 1, strcspn(slash + 1, "\n")};
    if (ends_with(name, DELETED))
        name.size -= strlen(DELETED);
    if (ends_with(name, ".exe.so")) /* Wine's own programs, before Wine 6 */
        name.size -= strlen(".so");
    return name;
}

/* Writes the name of the Windows program that is mapped: what the command line calls so, or the first .exe. Returns false
 * if there is none. */
static bool name_mapped(char out[NAME_ROOM], const char *maps, Part called)
{
    FILE *file = fopen(maps, "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false, is_called = false;
    while (file && !is_called && getline(&line, &room, file) > 0) {
        Part name = program_in(line);
        is_called = name.size && name.size == called.size && strncasecmp(name.text, called.text, name.size) == 0;
        if (is_called || (!found && ends_with(name, ".exe"))) {
            write_part(out, 0, name);
            found = true;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Writes the name of a Windows program. Returns false if this is none. Its command line can begin with anything, so what
 * is mapped goes first. */
static bool name_windows(char out[NAME_ROOM], Part executable, const char *command_line, size_t size, const char *maps)
{
    Part called = {"", 0};
    for (size_t at = 0; !called.size && at < size;) {
        Part argument = last_part(argument_at(command_line, size, &at));
        if (!is_wine(argument) && (!argument.size || *argument.text != '-'))
            called = argument;
        else if (!is_wine(executable))
            break;
    }
    if (!is_wine(executable) && !ends_with(called, ".exe"))
        return false;
    if (name_mapped(out, maps, called))
        return true;
    if (called.size && is_wine(executable))
        write_part(out, 0, called);
    return called.size && is_wine(executable);
}

/* ---- all programs ------------------------------------------------------------------------------ */

void program_name(char out[NAME_ROOM], const char *executable, const char *command_line, size_t size, const char *maps)
{
    Part name = {executable, strlen(executable)};
    if (name_windows(out, name, command_line, size, maps))
        return;
    write_part(out, 0, name);
    size_t at = 0;
    if (!runs_scripts(executable) || !size)
        return;
    for (argument_at(command_line, size, &at); at < size;) {
        Part argument = argument_at(command_line, size, &at);
        bool is_code =
            argument.size == 2 && (memcmp(argument.text, "-c", 2) == 0 || memcmp(argument.text, "-e", 2) == 0);
        if (!is_code && (!argument.size || *argument.text == '-'))
            continue;
        write_part(out, name.size, (Part){" ", 1});
        write_part(out, name.size + 1, is_code ? argument : last_part(argument));
        return;
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *own_program_name;

/* argv[0] can be anything. This thread's entry is read because the main thread may have ended. */
static void read_own(void)
{
    char path[PATH_BYTES];
    ssize_t length = readlink("/proc/thread-self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    char *deleted = strstr(path, DELETED);
    if (deleted && !deleted[strlen(DELETED)])
        *deleted = '\0';
    const char *slash = strrchr(path, '/'), *executable = slash ? slash + 1 : path;
    size_t size = 0;
    char *command_line =
        read_all(open("/proc/thread-self/cmdline", O_RDONLY | O_CLOEXEC), COMMAND_LINE_BYTES, 0, &size);
    own_program_name = malloc(NAME_ROOM);
    if (own_program_name)
        program_name(own_program_name, *executable ? executable : "unknown", command_line ? command_line : "",
                     command_line ? size : 0, "/proc/thread-self/maps");
    free(command_line);
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
