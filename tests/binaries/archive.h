// The program's own file of pipeline binaries, and the table in which it looks them up.
#ifndef BINARIES_ARCHIVE_H
#define BINARIES_ARCHIVE_H

#include "../pipeline_binary.h"

#include <stdbool.h>

// All binaries of one pipeline. There may be none: then the pipeline is created as ever.
typedef struct {
    VkPipelineBinaryKeyKHR key;
    uint32_t count;
    VkPipelineBinaryKeyKHR *keys;
    VkPipelineBinaryDataKHR *data;
} Entry;

typedef struct {
    VkPipelineBinaryKeyKHR global_key;
    Entry *entries;
    uint32_t count, room;
    uint32_t *table; // of indices into entries, plus 1
    uint32_t table_size;
} Archive;

typedef enum { ARCHIVE_ABSENT, ARCHIVE_LOADED, ARCHIVE_STALE } ArchiveState;

// Binaries of another global key are of no use (VK_KHR_pipeline_binary: 'must not be passed'); they are left out unless
// a badly written program is wanted.
ArchiveState archive_load(Archive *archive, const char *path, const VkPipelineBinaryKeyKHR *global_key,
                          bool any_global_key);
void archive_save(const Archive *archive, const char *path);
const Entry *archive_find(const Archive *archive, const VkPipelineBinaryKeyKHR *key);
// Takes over what the entry points to.
void archive_add(Archive *archive, const Entry *entry);
void archive_destroy(Archive *archive);

#endif
