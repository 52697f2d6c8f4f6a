/* own_file.h - files that the layer itself makes in a folder of the store */
#ifndef PYLAYER_OWN_FILE_H
#define PYLAYER_OWN_FILE_H

#include "run/run.h"
#include "store/store_format.h"

/* Fills in a name that no other process makes: files.unique_name of Python. Returns false if there are no random
 * numbers. */
bool unique_name(char name[PYLAYER_RUN_NAME_BYTES], uint64_t now_ns);

/* Nanoseconds since 1970. */
uint64_t wall_clock_ns(void);
/* Fills in what of a new file's header is this process's, and the file's name. The header's kind, identity and program
 * are set already, and created_ns may be. Returns false if there are no random numbers. */
bool own_file_describe(const Run *run, FileHeader *header, const char *suffix, char name[PYLAYER_STORE_NAME_BYTES]);
/* Writes a file of this name that is not there yet. It gets its name when it is written, so that nobody, not even after
 * a kill, finds one without its header. Returns how many bytes were written. */
size_t own_file_create(const char *directory, const char *name, const void *data, size_t size);
/* The same, in a folder that may be missing. `data`: malloc'd, and freed here; NULL: does nothing. Whoever reads it must
 * take one whose end is missing. */
void own_file_write(const char *directory, const char *name, void *data, size_t size);

#endif
