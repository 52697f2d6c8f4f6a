// Corrupted data, many pieces of each kind, for a driver with the layer above it or without.
#ifndef CORRUPTION_H
#define CORRUPTION_H

#include "../pipeline_binary.h"
#include "archive.h"
#include "extension.h"
#include "objects.h"
#include "recipes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PIPELINES = 8, MAX_BINARIES = 4 };

// ---- kinds.c: what can be wrong with data ----

typedef struct {
    uint64_t state;
} Random;

// The same for the same three numbers, so that each input can be made again.
Random random_of(uint64_t seed, uint64_t kind, uint64_t input);
uint64_t below(Random *random, uint64_t limit);

typedef struct {
    uint8_t *bytes;
    size_t size;
} Bytes;

Bytes bytes_of(const void *data, size_t size);

typedef enum { OF_CACHE, OF_BINARIES, OF_FILE, KIND_LISTS } KindList;

// The number of a kind by its name, which is the same word for the program, its runner and its tables.
uint32_t kind_number(KindList list, const char *name);
void print_kinds(void);

// Changed data of a VkPipelineCache, and a changed file; the caller's to free.
Bytes corrupt_cache(const Bytes *data, uint32_t kind, Random *random);
Bytes corrupt_file(const Bytes *file, uint32_t kind, Random *random);
// Changed binaries of one pipeline of several: a deep copy.
Entry corrupt_binaries(const Archive *all, uint32_t pipeline, uint32_t kind, Random *random);
void entry_free(Entry *entry);

// ---- program.c: a program's device, its pipelines, and what it makes them from ----

typedef struct {
    Options options;
    Context context;
    Extension extension;
    Objects objects;
    // Those that may be compiled, and those that may not.
    Recipe *recipes, *probes;
} Program;

typedef enum { CREATED, MISSED, FAILED } Outcome;

void program_open(Program *program);
void program_open_device(Program *program);
void program_close_device(Program *program);
void program_close(Program *program);

Outcome probe_pipeline(Program *program, uint32_t number, VkPipelineCache cache);
void compile_pipeline(Program *program, uint32_t number, VkPipelineCache cache);
// Reads its binaries with CAPTURE_DATA.
Entry capture_pipeline(Program *program, uint32_t number);
// The result of vkCreatePipelineBinariesKHR, then of the pipeline. CREATED, MISSED (no binaries) or FAILED.
Outcome import_pipeline(Program *program, uint32_t number, const Entry *entry);
// VK_NULL_HANDLE where it fails.
VkPipelineCache open_cache(Program *program, const Bytes *data);
Bytes read_cache(Program *program, VkPipelineCache cache);

// ---- stored.c: the store's files ----

typedef struct {
    const char *base;   // a directory with good files
    const char *live;   // the identity's folder in the store
    const char *suffix; // which of the files
    KindList list;      // what a kind changes: the data in the records, or the file
    uint32_t kind;
} StoredFiles;

// Replaces what is in the folder by corrupted copies, of about so many inputs at most. How many they are: records, or
// files.
uint32_t corrupt_store(const StoredFiles *files, Random *random, uint64_t most);

Bytes read_file(const char *path);
void write_file(const char *path, const void *data, size_t size);

#endif
