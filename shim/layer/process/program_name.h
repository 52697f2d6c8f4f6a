/* program_name.h - the name of this program, as rules use it */
#ifndef PYLAYER_PROGRAM_NAME_H
#define PYLAYER_PROGRAM_NAME_H

#include <stdint.h>

#define NAME_ROOM 8192 /* so in pylayer/cli/status.py */

/* Writes a program's name, bytes as they are in /proc and cut at NAME_ROOM: the file name of its executable, for
 * interpreters with that of the script behind it, and for a Windows program under Wine that of its .exe alone.
 * `process` is the process's directory in /proc. Returns -1 if it does not tell the executable or the arguments. Commands of pylayer
 * find this function in the layer's library. */
__attribute__((visibility("default"))) int32_t pylayer_program_name(char out[NAME_ROOM], const char *process);
/* Returns the name of this process's program, valid for ever: "unknown" if /proc says nothing. */
const char *executable_name(void);
/* Returns the program's number in the store: the XXH3-64 of its name, a zero, and what the application calls itself.
 * Nobody else computes it. */
uint64_t program_id(const char *application_name);

#endif
