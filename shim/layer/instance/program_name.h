/* program_name.h - what program this is, as rules name it */
#ifndef PYLAYER_PROGRAM_NAME_H
#define PYLAYER_PROGRAM_NAME_H

#include <stddef.h>

#define COMMAND_LINE_BYTES 65536
#define NAME_ROOM (COMMAND_LINE_BYTES + 4096 + 8)

/* Writes the executable's name, for interpreters and Wine with the script's. A zero ends each of the command line's
 * arguments. */
void program_name(char out[NAME_ROOM], const char *executable, const char *command_line, size_t size);
/* Returns the name of this process's program, malloc'd: "unknown" where /proc says nothing, NULL without memory. It comes
 * from /proc, because argv[0] can be anything: of this thread, since main may have ended. */
char *executable_name(void);

#endif
