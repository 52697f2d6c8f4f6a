// The store's files, as docs/internals/format.md has them: a header of 256 bytes, then records at multiples of 16, each
// with a header of 64 bytes.
#include "corruption.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_HEADER = 256, RECORD_HEADER = 64, ALIGNMENT = 16, INPUTS_AT_ONCE = 96, MAX_BASES = 16 };

Bytes read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die("%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    Bytes bytes = {NULL, (size_t)ftell(file)};
    rewind(file);
    bytes.bytes = malloc(bytes.size + 1);
    if (!bytes.bytes || fread(bytes.bytes, 1, bytes.size, file) != bytes.size)
        die("%s cannot be read", path);
    fclose(file);
    return bytes;
}

void write_file(const char *path, const void *data, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, size) != (ssize_t)size || close(file) != 0)
        die("%s cannot be written", path);
}

// ---- Data in records -------------------------------------------------------------------------------------------

typedef struct {
    uint8_t *bytes;
    size_t size, room;
} Out;

static void put(Out *out, const void *data, size_t size)
{
    if (out->size + size > out->room) {
        out->room = (out->size + size) * 2;
        out->bytes = realloc(out->bytes, out->room);
        if (!out->bytes)
            die("out of memory");
    }
    if (size)
        memcpy(out->bytes + out->size, data, size);
    out->size += size;
}

static void put_padding(Out *out)
{
    static const uint8_t zeros[ALIGNMENT];
    put(out, zeros, -out->size % ALIGNMENT);
}

static uint32_t word_at(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t size_at(const uint8_t *bytes)
{
    uint64_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

static VkPipelineBinaryKeyKHR key_at(const uint8_t *size, const uint8_t *key)
{
    VkPipelineBinaryKeyKHR read = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, .keySize = word_at(size)};
    memcpy(read.key, key, sizeof read.key);
    return read;
}

static Entry new_entry(uint32_t count)
{
    Entry entry = {.count = count};
    entry.keys = calloc(MAX_BINARIES, sizeof *entry.keys);
    entry.data = calloc(MAX_BINARIES, sizeof *entry.data);
    if (!entry.keys || !entry.data || count > MAX_BINARIES)
        die("%u binaries in a record", count);
    return entry;
}

// BINR: number, size of the key, 8 bytes, key; 48 bytes a binary; their data at multiples of 16.
static Entry entry_of(const uint8_t *data)
{
    Entry entry = new_entry(word_at(data));
    entry.key = key_at(data + 4, data + 16);
    const uint8_t *place = data + 48 + 48 * entry.count;
    for (uint32_t i = 0; i < entry.count; ++i) {
        const uint8_t *about = data + 48 + 48 * i;
        entry.keys[i] = key_at(about + 8, about + 16);
        Bytes bytes = bytes_of(place, size_at(about));
        entry.data[i] = (VkPipelineBinaryDataKHR){bytes.size, bytes.bytes};
        place += (bytes.size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    }
    return entry;
}

// Whole and possible, so that the hash of the record alone says that it is another.
static void put_entry(Out *out, const uint8_t *data, const Entry *entry)
{
    uint64_t size;
    put(out, &entry->count, sizeof entry->count);
    put(out, data + 4, 44);
    for (uint32_t i = 0; i < entry->count; ++i) {
        static const uint32_t zero;
        size = entry->data[i].dataSize;
        put(out, &size, sizeof size);
        put(out, &entry->keys[i].keySize, sizeof entry->keys[i].keySize);
        put(out, &zero, sizeof zero);
        put(out, entry->keys[i].key, sizeof entry->keys[i].key);
    }
    for (uint32_t i = 0; i < entry->count; ++i) {
        put_padding(out);
        put(out, entry->data[i].pData, entry->data[i].dataSize);
    }
    put_padding(out);
}

// ---- Files -----------------------------------------------------------------------------------------------------

typedef struct {
    Bytes file;
    char program[20]; // the beginning of its name, up to what is unique
    Archive binaries; // of its records, to take others' from
    uint32_t records;
} Base;

static bool holds(const StoredFiles *files, const uint8_t *magic)
{
    if (files->list == OF_CACHE)
        return memcmp(magic, "CELL", 4) == 0 || memcmp(magic, "SNAP", 4) == 0;
    return memcmp(magic, "BINR", 4) == 0;
}

static size_t behind(const uint8_t *record)
{
    return (RECORD_HEADER + size_at(record + 8) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static void read_records(const StoredFiles *files, Base *base)
{
    for (size_t at = FILE_HEADER; at + RECORD_HEADER <= base->file.size; at += behind(base->file.bytes + at)) {
        const uint8_t *record = base->file.bytes + at;
        if (!holds(files, record))
            continue;
        ++base->records;
        if (files->list == OF_CACHE)
            continue;
        Entry entry = entry_of(record + RECORD_HEADER);
        // Entries of an archive are numbered here, not looked up.
        entry.key = (VkPipelineBinaryKeyKHR){.keySize = 4, .key = {0}};
        memcpy(entry.key.key, &base->binaries.count, 4);
        archive_add(&base->binaries, &entry);
    }
}

static uint32_t read_bases(const StoredFiles *files, Base *bases)
{
    uint32_t count = 0;
    DIR *directory = opendir(files->base);
    if (!directory)
        die("%s cannot be read", files->base);
    for (struct dirent *found; (found = readdir(directory)) != NULL;) {
        const char *suffix = strrchr(found->d_name, '.');
        char path[4096];
        if (!suffix || strcmp(suffix + 1, files->suffix) != 0 || count == MAX_BASES)
            continue;
        snprintf(path, sizeof path, "%s/%s", files->base, found->d_name);
        Base *base = &bases[count];
        memset(base, 0, sizeof *base);
        base->file = read_file(path);
        snprintf(base->program, sizeof base->program, "%.17s", found->d_name);
        if (files->list != OF_FILE)
            read_records(files, base);
        if (files->list != OF_FILE && !base->records)
            continue;
        ++count;
    }
    closedir(directory);
    if (!count)
        die("%s has no file that ends in .%s and has something to corrupt", files->base, files->suffix);
    return count;
}

static void empty_folder(const StoredFiles *files)
{
    const char *path = files->live;
    DIR *directory = opendir(path);
    if (!directory)
        die("%s cannot be read", path);
    for (struct dirent *found; (found = readdir(directory)) != NULL;) {
        char name[4096];
        if (found->d_name[0] == '.' || strcmp(found->d_name, "identity") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, found->d_name);
        unlink(name);
    }
    closedir(directory);
}

static uint32_t corrupt_records(const StoredFiles *files, const Base *base, Random *random, Out *out)
{
    uint32_t inputs = 0, number = 0;
    put(out, base->file.bytes, FILE_HEADER);
    for (size_t at = FILE_HEADER; at + RECORD_HEADER <= base->file.size; at += behind(base->file.bytes + at)) {
        const uint8_t *record = base->file.bytes + at, *data = record + RECORD_HEADER;
        Bytes intact = {(uint8_t *)(uintptr_t)data, size_at(record + 8)};
        bool ours = holds(files, record);
        put(out, record, RECORD_HEADER);
        /* Intact ones stand between them. */
        bool changed = ours && (base->records == 1 || below(random, 4) > 0);
        if (changed && files->list == OF_CACHE) {
            Bytes corrupted = corrupt_cache(&intact, files->kind, random);
            put(out, corrupted.bytes, corrupted.size);
            free(corrupted.bytes);
            ++inputs;
        } else if (changed) {
            Entry corrupted = corrupt_binaries(&base->binaries, number, files->kind, random);
            if (corrupted.count) {
                put_entry(out, data, &corrupted);
                entry_free(&corrupted);
                ++inputs;
            } else {
                put(out, intact.bytes, intact.size);
            }
        } else {
            put(out, intact.bytes, intact.size);
        }
        put_padding(out);
        number += ours;
    }
    return inputs;
}

uint32_t corrupt_store(const StoredFiles *files, Random *random, uint64_t most)
{
    static Base bases[MAX_BASES];
    static uint32_t base_count;
    static uint64_t name;
    uint32_t inputs = 0;
    if (!base_count)
        base_count = read_bases(files, bases);
    empty_folder(files);
    while (inputs < INPUTS_AT_ONCE && inputs < most) {
        const Base *base = &bases[below(random, base_count)];
        Out out = {0};
        if (files->list == OF_FILE) {
            Bytes corrupted = corrupt_file(&base->file, files->kind, random);
            put(&out, corrupted.bytes, corrupted.size);
            free(corrupted.bytes);
            ++inputs;
        } else {
            inputs += corrupt_records(files, base, random, &out);
        }
        char path[4096];
        snprintf(path, sizeof path, "%s/%s%016llx-%016llx.%s", files->live, base->program,
                 (unsigned long long)(0x1800000000000000u + name), (unsigned long long)mixed(name), files->suffix);
        ++name;
        write_file(path, out.bytes, out.size);
        free(out.bytes);
    }
    return inputs;
}
