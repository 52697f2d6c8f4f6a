/* program_name.h - the name of this program, as rules use it */
#ifndef PYLAYER_PROGRAM_NAME_H
#define PYLAYER_PROGRAM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMMAND_LINE_BYTES 65536
#define NAME_ROOM (COMMAND_LINE_BYTES + 4096 + 8)

/* Writes a program's name: the file name of its executable, for interpreters with that of the script behind it, and for a
 * Windows program under Wine that of its .exe alone. Each argument in the command line ends with a zero; `maps` is the
 * path of a process's maps. pylayer/common/program_name.py does the same. */
void program_name(char out[NAME_ROOM], const char *executable, const char *command_line, size_t size, const char *maps);
/* Returns the name of this process's program, valid for ever: "unknown" if /proc says nothing, NULL if memory is short. */
const char *executable_name(void);
/* Returns the program's name for people, as Program.name in pylayer/values.py, malloc'd; NULL if memory is short. */
char *program_title(const char *application_name);
/* The program's number in the store, as identity.program_id of Python. Returns false if a name is not plain ASCII, which
 * Python may decode into something else. */
bool program_id(const char *application_name, uint64_t *id);

#endif
