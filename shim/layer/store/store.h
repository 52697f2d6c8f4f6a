/* store.h - what a device has of the store */
#ifndef PYLAYER_STORE_H
#define PYLAYER_STORE_H

#include "driver/driver.h"
#include "process/number_map.h"
#include "process/trusted.h"
#include "run/run.h"
#include "store/store_format.h"

#define LIVE_SUFFIX ".live"

/* A crash marker's file. After the marks comes text, which first says where each number is and what it counts, and then
 * the counters. Policy reads it with Python's struct (pylayer/store/crash_marker.py). */
#define LIVE_TEXT_BYTES (LIVE_BYTES - LIVE_RUN_OFFSET - sizeof((Run *)NULL)->own_counters)
typedef struct LiveFile {
    FileHeader header;
    PylayerMark marks[PYLAYER_MARK_COUNT];
    char text[LIVE_TEXT_BYTES];
    Counters counters[THREAD_SLOTS];
} LiveFile;
_Static_assert(offsetof(LiveFile, text) == LIVE_RUN_OFFSET && sizeof(LiveFile) == LIVE_BYTES, "no gaps");
_Static_assert(LIVE_TEXT_BYTES > PYLAYER_ABOUT_BYTES + 2048, "see run_file.c");

/* What crash markers say of runs whose process ended without a mark. */
typedef struct LiveEnded {
    bool written;                      /* the file of such a run was written */
    char last[PYLAYER_RUN_NAME_BYTES]; /* the newest of this program that compiled; empty: none */
    uint64_t compiled;                 /* run_compiled */
} LiveEnded;

typedef struct StoredFile {
    char name[PYLAYER_STORE_NAME_BYTES];
    FileNumber number;
    uint64_t salt;
    uint64_t entry_count;
    bool damage_told;    /* policy knows that it has to read the file */
    bool system;         /* in the system's store, of which policy repairs nothing */
    bool has_table;      /* it is a pack */
    TableEntry *entries; /* in the order of fingerprints */
} StoredFile;

#define STORED_TURNS 16

/* The files of one device's folder that hold pipelines of this program. */
typedef struct Stored {
    atomic_bool open;
    atomic_bool unnamed_fetched; /* the driver has all that have no fingerprint */
    atomic_bool behind; /* a file is gone, or something could not be opened at this moment: there may be more */
    bool own;           /* the folder can be trusted; otherwise it is not looked into */
    uint8_t identity[PYLAYER_DIGEST_BYTES];
    char *directory;
    char *system;             /* the same folder of the system's store; NULL if there is none that can be trusted */
    char outside[PATH_BYTES]; /* the folder's directory for crash markers in memory; empty: there can be none */
    pthread_mutex_t reading;  /* held while the folder is read again */
    pthread_mutex_t mutex;    /* guards the files */
    StoredFile *files;        /* one that is gone keeps its place, without a name and entries */
    uint32_t file_count;
    pthread_mutex_t turns[STORED_TURNS]; /* one is held while something is given to the driver: stored_take_turn */
    SharedMap given;                     /* places of records */
} Stored;

/* What the folder says at the start. */
typedef struct StoredFound {
    bool reviewed; /* set by the caller: policy has looked into the folder and passed the decision */
    uint64_t records;
    bool used_recently; /* a run said within a day what it used */
    uint32_t journals;  /* of this program, whose writers have ended */
    uint64_t journal_bytes;
    bool work; /* so many of them that policy should compact them */
    LiveEnded ended;
    uint8_t off;          /* PylayerDecision::off_by, if it took effect */
    uint64_t block_files; /* as PylayerDecision::block_files: of this program and of all programs */
} StoredFound;

/* A file's number and the offset of a record in it; 0: none. */
typedef uint64_t Place;
#define PLACE_OFFSET_BITS 40

static inline uint32_t place_file(Place place)
{
    return (uint32_t)(place >> PLACE_OFFSET_BITS) - 1;
}

static inline uint64_t place_offset(Place place)
{
    return place & ((1ull << PLACE_OFFSET_BITS) - 1);
}

typedef struct Store {
    const Driver *driver;
    Run *run;
    PylayerDecision kept;   /* the decision, from its file or from open_store; zero if there is none */
    StoredFound found;      /* what the folder said when it was opened */
    atomic_bool wants_work; /* at the end of the process policy compacts journals, or prunes statistics */
    atomic_bool undecided;  /* PylayerDecision::undecided */
    Stored stored;
} Store;

enum ReadResult {
    READ_DONE,
    READ_FAILED,  /* with an error, or it does not verify */
    READ_REFUSED, /* the file cannot be opened, and will not be: the disk fails, or the process is in a sandbox */
    READ_GONE,    /* the file is */
    READ_LATE,    /* the process has no descriptors or no memory: a later read may succeed */
};

/* ---- store_index.c: which pipelines the files of a device's folder hold, by fingerprint ---------------
 *
 * A pack ends in a table of its records. Journals have none, so their headers are read once. An entry that is wrong
 * costs time and nothing else: a record's header and data verify before the driver gets them, and the driver finds
 * pipelines by keys of its own.
 *
 * A file is open during one read only. A program may close every descriptor that it finds.
 */

/* Reads what was not read yet, if the folder can be trusted (Stored::own). Returns false if policy must look into it
 * first: it is missing, a process died over something in it since the last start, or the decision was compiled from
 * other `.verdict` files. One thread at a time may call it. */
bool index_read_folder(Store *store);
/* Reads the folder again because it is `behind`: another process may have compacted a journal, so that neither its name
 * nor the pack's was listed. One thread reads, without Stored::mutex; others wait for it. Returns false if the folder
 * could not be read at this moment. */
bool index_read_again(Store *store);
void index_forget(Stored *stored);
/* The device ends. */
void stored_close(Stored *stored);
/* Returns false if not all bytes could be read. */
bool store_read_at(int fd, void *out, size_t size, uint64_t offset);
/* Returns how many pipelines the files hold that were made after a run of this name had begun. */
uint64_t index_stored_since(const Stored *stored, const char *run_name);
/* Returns the next record with this fingerprint after a place, or after 0. Those of the oldest file come first. */
Place index_next(Store *store, uint64_t fingerprint, Place after);
/* If a read failed, has policy read the file, once, say what is wrong with it, and repair it when there is time. */
void index_tell_damage(Store *store, uint32_t file, enum ReadResult result);
/* The file is gone. */
void index_forget_file(Stored *stored, uint32_t file);

/* ---- stored_record.c: one record of a file in memory, verified -------------------------------------- */

typedef struct StoredRecord {
    RecordHeader header;
    uint32_t file; /* the number of its file */
    uint8_t *data;
    /* What the driver gets, and the cells in it. Without cells it is not data of a VkPipelineCache. */
    const uint8_t *cache;
    uint64_t cache_size;
    const ChunkCell *cells;
    size_t cell_count;
    ChunkCell alone; /* of a record that holds one cell */
} StoredRecord;

/* Reads and verifies a record of a file with this salt. Free its data in any case. */
enum ReadResult record_read(int fd, uint64_t salt, uint64_t offset, RecordHeader *header, uint8_t **data);
/* The same at a place, and describes it. */
enum ReadResult stored_record_read(Store *store, Place place, StoredRecord *out);

/* ---- live_file.c: where crash markers (crash/crash.h) are, and what those of other processes say --- */

/* Writes the path of Stored::outside, which is in the runtime directory, whose files are in memory. */
void live_outside(const char *root, const char *folder, char path[PATH_BYTES]);
/* Returns zeros; NULL if memory is short. */
LiveFile *live_new(void);
/* Returns true if the process that made this crash marker may have died over what the driver was working on. own: it is
 * the same program. Another's death matters only in a call that the layer adds. */
bool live_may_be_dead(int directory, const char *name, bool own, LiveEnded *ended);

#endif
