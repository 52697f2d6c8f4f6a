/* program_name.h - the name of this program, as rules use it */
#ifndef PYLAYER_PROGRAM_NAME_H
#define PYLAYER_PROGRAM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMMAND_LINE_BYTES 65536
#define NAME_ROOM (COMMAND_LINE_BYTES + 4096 + 8)

/* Writes the executable's name. For interpreters and Wine the script's or program's name follows it. Each argument
 * in the command line ends with a zero. */
void program_name(char out[NAME_ROOM], const char *executable, const char *command_line, size_t size);
/* What /proc says of this process's program. Each argument ends with a zero. */
typedef struct ProgramText {
    const char *path, *command_line;
    size_t path_size, command_line_size;
} ProgramText;
/* Reads /proc once, because argv[0] can be anything, and there this thread's entry, because the main thread may have
 * ended. The result is valid for ever; texts are empty if /proc says nothing. */
const ProgramText *program_text(void);
/* Returns the name of this process's program, valid for ever: "unknown" if /proc says nothing, NULL if memory is short. */
const char *executable_name(void);
/* Returns the program's name for people, as Program.name in pylayer/values.py, malloc'd; NULL if memory is short. */
char *program_title(const char *application_name);
/* The program's number in the store, as identity.program_id of Python. Returns false if a name is not plain ASCII, which
 * Python may decode into something else. */
bool program_id(const char *application_name, uint64_t *id);

#endif
