#include "archive.h"

#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die("out of memory");
    return memory;
}

// ---- The table -------------------------------------------------------------------------------------------------

static bool same_key(const VkPipelineBinaryKeyKHR *a, const VkPipelineBinaryKeyKHR *b)
{
    return a->keySize == b->keySize && memcmp(a->key, b->key, a->keySize) == 0;
}

// Keys are hashes: their first bytes are as good as any.
static uint32_t first_place(const Archive *archive, const VkPipelineBinaryKeyKHR *key)
{
    uint32_t word;
    memcpy(&word, key->key, sizeof word);
    return word & (archive->table_size - 1);
}

static void enter(Archive *archive, uint32_t index)
{
    uint32_t at = first_place(archive, &archive->entries[index].key);
    while (archive->table[at])
        at = (at + 1) & (archive->table_size - 1);
    archive->table[at] = index + 1;
}

const Entry *archive_find(const Archive *archive, const VkPipelineBinaryKeyKHR *key)
{
    if (archive->table_size == 0)
        return NULL;
    for (uint32_t at = first_place(archive, key); archive->table[at]; at = (at + 1) & (archive->table_size - 1))
        if (same_key(&archive->entries[archive->table[at] - 1].key, key))
            return &archive->entries[archive->table[at] - 1];
    return NULL;
}

void archive_add(Archive *archive, const Entry *entry)
{
    if (archive->count == archive->room) {
        archive->room = archive->room ? archive->room * 2 : 256;
        archive->entries = realloc(archive->entries, archive->room * sizeof *archive->entries);
        if (!archive->entries)
            die("out of memory");
        free(archive->table);
        archive->table_size = archive->room * 2;
        archive->table = allocate(archive->table_size, sizeof *archive->table);
        for (uint32_t i = 0; i < archive->count; ++i)
            enter(archive, i);
    }
    archive->entries[archive->count] = *entry;
    enter(archive, archive->count++);
}

// ---- The file --------------------------------------------------------------------------------------------------
//
// As numbers in this machine's byte order: "BINS", then the global key, how many entries, and of each its key, how many
// binaries, and of each of them its key, a 64-bit size, and the data. A key is its size in 32 bits and 32 bytes. The
// program believes what it reads there, as programs do: nothing tells it of damage.

static bool read_key(FILE *file, VkPipelineBinaryKeyKHR *key)
{
    memset(key, 0, sizeof *key);
    key->sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR;
    return fread(&key->keySize, sizeof key->keySize, 1, file) == 1 && fread(key->key, sizeof key->key, 1, file) == 1;
}

static bool read_entry(FILE *file, Entry *entry)
{
    if (!read_key(file, &entry->key) || fread(&entry->count, sizeof entry->count, 1, file) != 1)
        return false;
    entry->keys = allocate(entry->count, sizeof *entry->keys);
    entry->data = allocate(entry->count, sizeof *entry->data);
    for (uint32_t i = 0; i < entry->count; ++i) {
        uint64_t size;
        if (!read_key(file, &entry->keys[i]) || fread(&size, sizeof size, 1, file) != 1)
            return false;
        entry->data[i] = (VkPipelineBinaryDataKHR){size, allocate(size, 1)};
        if (fread(entry->data[i].pData, 1, size, file) != size)
            return false;
    }
    return true;
}

ArchiveState archive_load(Archive *archive, const char *path, const VkPipelineBinaryKeyKHR *global_key,
                          bool any_global_key)
{
    char magic[4];
    uint32_t count = 0;
    memset(archive, 0, sizeof *archive);
    archive->global_key = *global_key;
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return ARCHIVE_ABSENT;
    VkPipelineBinaryKeyKHR made_for;
    if (fread(magic, sizeof magic, 1, file) != 1 || memcmp(magic, "BINS", 4) != 0 || !read_key(file, &made_for) ||
        fread(&count, sizeof count, 1, file) != 1)
        die("%s is no archive", path);
    bool usable = any_global_key || same_key(&made_for, global_key);
    for (uint32_t i = 0; usable && i < count; ++i) {
        Entry entry;
        if (!read_entry(file, &entry))
            die("%s ends early", path);
        archive_add(archive, &entry);
    }
    fclose(file);
    return usable ? ARCHIVE_LOADED : ARCHIVE_STALE;
}

static void write_all(FILE *file, const void *data, size_t size)
{
    if (size && fwrite(data, size, 1, file) != 1)
        die("the archive cannot be written");
}

static void write_key(FILE *file, const VkPipelineBinaryKeyKHR *key)
{
    write_all(file, &key->keySize, sizeof key->keySize);
    write_all(file, key->key, sizeof key->key);
}

void archive_save(const Archive *archive, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        die("%s cannot be written", path);
    write_all(file, "BINS", 4);
    write_key(file, &archive->global_key);
    write_all(file, &archive->count, sizeof archive->count);
    for (uint32_t i = 0; i < archive->count; ++i) {
        const Entry *entry = &archive->entries[i];
        write_key(file, &entry->key);
        write_all(file, &entry->count, sizeof entry->count);
        for (uint32_t j = 0; j < entry->count; ++j) {
            uint64_t size = entry->data[j].dataSize;
            write_key(file, &entry->keys[j]);
            write_all(file, &size, sizeof size);
            write_all(file, entry->data[j].pData, size);
        }
    }
    if (fclose(file) != 0)
        die("%s cannot be written", path);
}

void archive_destroy(Archive *archive)
{
    for (uint32_t i = 0; i < archive->count; ++i) {
        for (uint32_t j = 0; j < archive->entries[i].count; ++j)
            free(archive->entries[i].data[j].pData);
        free(archive->entries[i].keys);
        free(archive->entries[i].data);
    }
    free(archive->entries);
    free(archive->table);
}
