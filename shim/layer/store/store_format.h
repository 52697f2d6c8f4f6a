/* store_format.h - the bytes of the store's files: pylayer/store/format.py in C. docs/internals/format.md describes
 * them. All numbers are little-endian, as on every machine that the layer is built for. */
#ifndef PYLAYER_STORE_FORMAT_H
#define PYLAYER_STORE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../boundary.h"

#include "../../../build/store_numbers.h"

/* The process that wrote a file (owner.c). 0: unknown. */
typedef struct Owner {
    uint64_t unused, boot; /* earlier versions had the machine first */
    uint32_t pid, pid_namespace;
    uint64_t start_ticks;
} Owner;

typedef struct FileHeader {
    char magic[8];
    uint32_t version, header_size;
    char kind[4];
    uint32_t flags; /* STORE_CHANGED_DRIVER */
    uint8_t identity[PYLAYER_DIGEST_BYTES];
    uint8_t of_identity[72]; /* fields of the identity again, for other readers */
    uint64_t program, created_ns, size;
    uint64_t table; /* packs: where the TABL record begins */
    Owner owner;
    char application[64];
    uint64_t salt, hash;
} FileHeader;
_Static_assert(sizeof(FileHeader) == PYLAYER_FILE_HEADER_BYTES, "format.FILE_HEADER");

typedef struct RecordHeader {
    char magic[4];
    uint16_t kind, flags;
    uint64_t size, create_ns;
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    uint64_t fingerprint, last_used, hash;
} RecordHeader;
_Static_assert(sizeof(RecordHeader) == 64, "format.RECORD_HEADER");

/* A TABL record's data: each record of the pack in the order of fingerprints. */
typedef struct TableEntry {
    uint64_t fingerprint;
    uint64_t offset; /* of the record in the file */
} TableEntry;

/* A CHNK record's data: this, so many ChunkCell, and the data of the cache into which the driver merged the cells. */
typedef struct ChunkHead {
    uint64_t cell_count, zero;
} ChunkHead;

typedef struct ChunkCell {
    uint64_t fingerprint;
    uint64_t number; /* the beginning of the digest of the cell's own record: digest_id */
} ChunkCell;

/* Returns true if the header is whole and of this version and identity. */
bool file_header_is_whole(const FileHeader *header, const uint8_t identity[PYLAYER_DIGEST_BYTES]);
/* Returns true if a newer version of pylayer wrote it. */
bool file_header_is_newer(const FileHeader *header);
/* Hashes the header after its fields were changed. */
void file_header_seal(FileHeader *header);
/* Hashes the header after its fields were changed, for the file with this salt. */
void record_header_seal(RecordHeader *header, uint64_t salt);
/* Returns true if the header belongs to the file with this salt, so that its size can be trusted. */
bool record_header_is_whole(const RecordHeader *header, uint64_t salt);
/* Returns true if a record's data is what its header names. */
bool record_data_is_whole(const RecordHeader *header, const uint8_t *data);
/* Returns true if the record was used within the time in which uses are recorded once: contents.RECENT_SECONDS. */
bool record_is_recent(const RecordHeader *header);
bool record_is(const RecordHeader *header, const char magic[4]);
/* Returns the bytes from a record's beginning to the next one's. */
uint64_t record_space(uint64_t data_size);

/* ---- owner.c: which process wrote a file of the store, and whether it lives: pylayer/common/owner.py in C --- */

/* tests/unit/test_trust.py has one table of cases for both. */
typedef enum OwnerState {
    OWNER_ALIVE,
    OWNER_DEAD,
    OWNER_ELSEWHERE, /* on another machine or in another pid namespace, or /proc does not tell */
} OwnerState;

/* Describes this process. What /proc does not tell is 0. */
void owner_write(Owner *owner);
OwnerState owner_state(const Owner *owner);

/* ---- folder.c: names in a device's folder of the store, and files in it that are read as a whole --------- */

/* How the names of a program's files begin: format.md, 'Directories'. */
#define PROGRAM_PREFIX_BYTES 18
void program_prefix(char prefix[PROGRAM_PREFIX_BYTES], uint64_t program);
bool name_ends(const char *name, const char *suffix);

/* Calls `look` for each name in the folder, with the folder's descriptor. Returns false if the folder cannot
 * be read. */
bool folder_names(const char *directory, void (*look)(void *to, int fd, const char *name), void *to);

/* Calls `take` for each record of a file of this identity and kind until one does not verify. A file of more than
 * `most` bytes, or one that cannot be read, has none. Returns false if the file is gone or cannot be opened at this
 * moment: its records may be in another file, or be there later. */
bool folder_records(const char *directory, const char *name, const uint8_t identity[PYLAYER_DIGEST_BYTES],
                    const char kind[4], size_t most,
                    void (*take)(void *to, const RecordHeader *record, const uint8_t *data), void *to);

#endif
