/* folder.h - names in a device's folder of the store, and files in it that are read as a whole */
#ifndef PYLAYER_FOLDER_H
#define PYLAYER_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_format.h"

/* How the names of a program's files begin: format.md, 'Directories'. */
#define PROGRAM_PREFIX_BYTES 18
void program_prefix(char prefix[PROGRAM_PREFIX_BYTES], uint64_t program);
bool name_begins(const char *name, const char *prefix);
bool name_ends(const char *name, const char *suffix);

/* Calls `look` for each name in the folder, with the folder's descriptor. Returns false if the folder cannot be read. */
bool folder_names(const char *directory, void (*look)(void *to, int fd, const char *name), void *to);

/* Calls `take` for each record of a file of this identity and kind until one does not verify. A file of more than `most`
 * bytes, or one that cannot be read, has none. Returns false if the file is gone or cannot be opened at this moment: its
 * records may be in another file, or be there later. */
bool folder_records(const char *directory, const char *name, const uint8_t identity[PYLAYER_DIGEST_BYTES],
                    const char kind[4], size_t most,
                    void (*take)(void *to, const RecordHeader *record, const uint8_t *data), void *to);

#endif
