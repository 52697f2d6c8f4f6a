// What can be wrong with data of a VkPipelineCache, with binaries, and with a file. Every change changes something.
#include "corruption.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_HEADER = 32, CACHE_COUNT_END = 36, ENTRY_ALIGNMENT = 8 };

// ---- Numbers ---------------------------------------------------------------------------------------------------

static uint64_t next(Random *random)
{
    uint64_t x = random->state;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    random->state = x;
    return x * 0x2545f4914f6cdd1du;
}

Random random_of(uint64_t seed, uint64_t kind, uint64_t input)
{
    Random random = {mixed(mixed(mixed(seed) ^ kind) ^ input) | 1};
    next(&random);
    return random;
}

uint64_t below(Random *random, uint64_t limit)
{
    return limit ? (next(random) >> 11) % limit : 0;
}

static void fill(Random *random, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; ++i)
        bytes[i] = (uint8_t)(next(random) >> 56);
}

Bytes bytes_of(const void *data, size_t size)
{
    // A byte more: no data is somewhere, too.
    Bytes bytes = {malloc(size + 1), size};
    if (!bytes.bytes)
        die("out of memory");
    if (size)
        memcpy(bytes.bytes, data, size);
    return bytes;
}

// ---- Names -----------------------------------------------------------------------------------------------------

typedef enum {
    CACHE_INTACT,
    CACHE_RANDOM_TAIL,
    CACHE_RANDOM_AFTER_COUNT,
    CACHE_ZERO_TAIL,
    CACHE_ONES_TAIL,
    CACHE_HEADER_ONLY,
    CACHE_TRUNCATED_HEADER,
    CACHE_WRONG_UUID,
    CACHE_BIT,
    CACHE_BYTE,
    CACHE_TRUNCATED,
    CACHE_COUNT_ALL_ONES,
    CACHE_PAYLOADS,
} CacheKind;

typedef enum {
    BINARY_INTACT,
    BINARY_RANDOM,
    BINARY_BIT,
    BINARY_BYTE,
    BINARY_BIT_AT_END,
    BINARY_TRUNCATED,
    BINARY_RANDOM_START,
    BINARY_EMPTY,
    BINARY_ZEROS,
    BINARY_ONES,
    BINARY_OF_ANOTHER,
    BINARY_COMPUTE_IN_GRAPHICS,
    BINARY_GRAPHICS_IN_COMPUTE,
    BINARY_FRAGMENT_OF_ANOTHER,
    BINARY_ORDER_REVERSED,
    BINARY_WRONG_KEY,
    BINARY_DAMAGED_KEY,
    BINARY_TRAILING,
    BINARY_ONE_MISSING,
    BINARY_ONE_MORE,
} BinaryKind;

typedef enum {
    FILE_INTACT,
    FILE_BIT,
    FILE_BYTE,
    FILE_TRUNCATED,
    FILE_RANDOM,
    FILE_ZEROS,
    FILE_EXCHANGED,
    FILE_DOUBLED,
    FILE_REMOVED,
} FileKind;

static const char *const cache_names[] = {"intact",          "random tail", "random after count", "zero tail",
                                          "0xff tail",       "header only", "header cut off",     "wrong UUID",
                                          "one bit",         "one byte",    "truncated",          "count 0xffffffff",
                                          "random payloads", NULL};
static const char *const binary_names[] = {"intact",
                                           "random bytes",
                                           "one bit",
                                           "one byte",
                                           "one bit in the last quarter",
                                           "truncated",
                                           "random first 64 bytes",
                                           "zero length",
                                           "all 0x00",
                                           "all 0xff",
                                           "data of another pipeline",
                                           "compute data in graphics",
                                           "graphics data in compute",
                                           "fragment shader of another",
                                           "order reversed",
                                           "key of another",
                                           "one bit of the key",
                                           "trailing bytes",
                                           "one binary missing",
                                           "one binary more",
                                           NULL};
static const char *const file_names[] = {"intact",
                                         "one bit",
                                         "one byte",
                                         "truncated",
                                         "random stretch",
                                         "zeroed stretch",
                                         "two stretches exchanged",
                                         "a stretch doubled",
                                         "a stretch removed",
                                         NULL};
static const char *const *const names[KIND_LISTS] = {cache_names, binary_names, file_names};

uint32_t kind_number(KindList list, const char *name)
{
    for (uint32_t i = 0; names[list][i]; ++i)
        if (strcmp(names[list][i], name) == 0)
            return i;
    die("no such kind: %s", name);
}

void print_kinds(void)
{
    static const char *const lists[KIND_LISTS] = {"cache", "binaries", "file"};
    for (uint32_t list = 0; list < KIND_LISTS; ++list)
        for (uint32_t i = 0; names[list][i]; ++i)
            printf("%s\t%s\n", lists[list], names[list][i]);
}

// ---- Bytes -----------------------------------------------------------------------------------------------------

static void flip_bit(Bytes *data, size_t from, size_t to, Random *random)
{
    data->bytes[from + below(random, to - from)] ^= (uint8_t)(1u << below(random, 8));
}

static void replace_byte(Bytes *data, Random *random)
{
    data->bytes[below(random, data->size)] ^= (uint8_t)(1 + below(random, 255));
}

// ---- A cache ---------------------------------------------------------------------------------------------------

// Mesa's entries: type, size of the key, size of the data, the key, zeros up to a multiple of 8, the data.
static void fill_payloads(Bytes *data, Random *random)
{
    uint32_t count, place = CACHE_COUNT_END;
    memcpy(&count, data->bytes + CACHE_HEADER, sizeof count);
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t head[3];
        place = (place + 3) & ~3u;
        if (place + sizeof head > data->size)
            die("this driver's VkPipelineCache data is not what is known of it");
        memcpy(head, data->bytes + place, sizeof head);
        place = (place + (uint32_t)sizeof head + head[1] + ENTRY_ALIGNMENT - 1) & ~(ENTRY_ALIGNMENT - 1u);
        if (place + (uint64_t)head[2] > data->size)
            die("this driver's VkPipelineCache data is not what is known of it");
        fill(random, data->bytes + place, head[2]);
        place += head[2];
    }
}

static void change_cache(Bytes *data, CacheKind kind, Random *random)
{
    size_t tail = CACHE_HEADER + below(random, data->size - CACHE_HEADER);
    const uint32_t ones = UINT32_MAX;
    switch (kind) {
    case CACHE_INTACT:
        break;
    case CACHE_RANDOM_TAIL:
        fill(random, data->bytes + tail, data->size - tail);
        break;
    case CACHE_RANDOM_AFTER_COUNT:
        fill(random, data->bytes + CACHE_COUNT_END, data->size - CACHE_COUNT_END);
        break;
    case CACHE_ZERO_TAIL:
        memset(data->bytes + tail, 0, data->size - tail);
        break;
    case CACHE_ONES_TAIL:
        memset(data->bytes + tail, 0xff, data->size - tail);
        break;
    case CACHE_HEADER_ONLY:
        data->size = CACHE_HEADER;
        break;
    case CACHE_TRUNCATED_HEADER:
        data->size = 1 + below(random, CACHE_HEADER - 1);
        break;
    case CACHE_WRONG_UUID:
        fill(random, data->bytes + 16, 16);
        break;
    case CACHE_BIT:
        flip_bit(data, 0, data->size, random);
        break;
    case CACHE_BYTE:
        replace_byte(data, random);
        break;
    case CACHE_TRUNCATED:
        data->size = tail;
        break;
    case CACHE_COUNT_ALL_ONES:
        memcpy(data->bytes + CACHE_HEADER, &ones, sizeof ones);
        break;
    case CACHE_PAYLOADS:
        fill_payloads(data, random);
        break;
    }
}

static bool same_bytes(const Bytes *a, const Bytes *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

Bytes corrupt_cache(const Bytes *data, uint32_t kind, Random *random)
{
    for (;;) {
        Bytes copy = bytes_of(data->bytes, data->size);
        change_cache(&copy, (CacheKind)kind, random);
        if (kind == CACHE_INTACT || !same_bytes(&copy, data))
            return copy;
        free(copy.bytes);
    }
}

// ---- A file ----------------------------------------------------------------------------------------------------

static void exchange(uint8_t *a, uint8_t *b, size_t size)
{
    for (size_t i = 0; i < size; ++i) {
        uint8_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

static void change_file(Bytes *file, FileKind kind, Random *random)
{
    // Half of them at multiples of 16, where the store's records begin.
    size_t at = below(random, file->size), most = file->size - at < 4096 ? file->size - at : 4096;
    size_t length = 1 + below(random, most);
    if (below(random, 2) && (at &= ~(size_t)15, length & ~(size_t)15))
        length &= ~(size_t)15;
    size_t other = below(random, file->size - length + 1);
    switch (kind) {
    case FILE_INTACT:
        break;
    case FILE_BIT:
        flip_bit(file, 0, file->size, random);
        break;
    case FILE_BYTE:
        replace_byte(file, random);
        break;
    case FILE_TRUNCATED:
        file->size = at;
        break;
    case FILE_RANDOM:
        fill(random, file->bytes + at, length);
        break;
    case FILE_ZEROS:
        memset(file->bytes + at, 0, length);
        break;
    case FILE_EXCHANGED:
        if (other + length <= at || at + length <= other)
            exchange(file->bytes + at, file->bytes + other, length);
        break;
    case FILE_DOUBLED:
        file->bytes = realloc(file->bytes, file->size + length);
        if (!file->bytes)
            die("out of memory");
        memmove(file->bytes + at + length, file->bytes + at, file->size - at);
        file->size += length;
        break;
    case FILE_REMOVED:
        memmove(file->bytes + at, file->bytes + at + length, file->size - at - length);
        file->size -= length;
        break;
    }
}

Bytes corrupt_file(const Bytes *file, uint32_t kind, Random *random)
{
    for (;;) {
        Bytes copy = bytes_of(file->bytes, file->size);
        change_file(&copy, (FileKind)kind, random);
        if (kind == FILE_INTACT || !same_bytes(&copy, file))
            return copy;
        free(copy.bytes);
    }
}

// ---- Binaries --------------------------------------------------------------------------------------------------

static void set_data(Entry *entry, uint32_t index, const VkPipelineBinaryDataKHR *data)
{
    free(entry->data[index].pData);
    Bytes copy = bytes_of(data->pData, data->dataSize);
    entry->data[index] = (VkPipelineBinaryDataKHR){copy.size, copy.bytes};
}

static Entry copy_entry(const Entry *from)
{
    Entry copy = {.key = from->key, .count = from->count};
    copy.keys = calloc(MAX_BINARIES + 1, sizeof *copy.keys);
    copy.data = calloc(MAX_BINARIES + 1, sizeof *copy.data);
    if (!copy.keys || !copy.data || from->count > MAX_BINARIES)
        die("out of memory");
    memcpy(copy.keys, from->keys, from->count * sizeof *copy.keys);
    for (uint32_t i = 0; i < from->count; ++i)
        set_data(&copy, i, &from->data[i]);
    return copy;
}

void entry_free(Entry *entry)
{
    for (uint32_t i = 0; i < entry->count; ++i)
        free(entry->data[i].pData);
    free(entry->data);
    free(entry->keys);
}

static bool same_data(const VkPipelineBinaryDataKHR *a, const VkPipelineBinaryDataKHR *b)
{
    return a->dataSize == b->dataSize && memcmp(a->pData, b->pData, a->dataSize) == 0;
}

// A pipeline with so many binaries: one is compute, two are graphics.
static const Entry *any_of(const Archive *all, uint32_t count, Random *random)
{
    for (uint32_t tries = 0; tries < 10000; ++tries) {
        const Entry *entry = &all->entries[below(random, all->count)];
        if (entry->count == count)
            return entry;
    }
    die("there is no pipeline with %u binaries", count);
}

// Data that is not the same, of another pipeline's binary in this place.
static void take_from(Entry *entry, uint32_t index, const Archive *all, uint32_t count, Random *random, bool with_key)
{
    for (;;) {
        const Entry *other = any_of(all, count, random);
        uint32_t from = index < other->count ? index : (uint32_t)below(random, other->count);
        if (same_data(&other->data[from], &entry->data[index]))
            continue;
        if (with_key)
            entry->keys[index] = other->keys[from];
        else
            set_data(entry, index, &other->data[from]);
        return;
    }
}

static void resize(Entry *entry, uint32_t index, size_t size, Random *random)
{
    Bytes changed = bytes_of(NULL, 0);
    changed.bytes = realloc(changed.bytes, size + 1);
    if (!changed.bytes)
        die("out of memory");
    size_t kept = size < entry->data[index].dataSize ? size : entry->data[index].dataSize;
    memcpy(changed.bytes, entry->data[index].pData, kept);
    fill(random, changed.bytes + kept, size - kept);
    free(entry->data[index].pData);
    entry->data[index] = (VkPipelineBinaryDataKHR){size, changed.bytes};
}

static void change_data(Entry *entry, uint32_t index, BinaryKind kind, Random *random)
{
    Bytes data = {entry->data[index].pData, entry->data[index].dataSize};
    switch (kind) {
    case BINARY_RANDOM:
        fill(random, data.bytes, data.size);
        break;
    case BINARY_BIT:
        flip_bit(&data, 0, data.size, random);
        break;
    case BINARY_BYTE:
        replace_byte(&data, random);
        break;
    case BINARY_BIT_AT_END:
        flip_bit(&data, data.size / 4 * 3, data.size, random);
        break;
    case BINARY_TRUNCATED:
        resize(entry, index, 1 + below(random, data.size - 1), random);
        break;
    case BINARY_RANDOM_START:
        fill(random, data.bytes, data.size < 64 ? data.size : 64);
        break;
    case BINARY_EMPTY:
        entry->data[index].dataSize = 0;
        if (below(random, 2)) {
            free(entry->data[index].pData);
            entry->data[index].pData = NULL;
        }
        break;
    case BINARY_ZEROS:
        memset(data.bytes, 0, data.size);
        break;
    case BINARY_ONES:
        memset(data.bytes, 0xff, data.size);
        break;
    default: // BINARY_TRAILING
        resize(entry, index, data.size + 1 + below(random, 128), random);
    }
}

// Whether a pipeline can have this kind: some need another number of binaries.
static bool suits(const Entry *entry, BinaryKind kind)
{
    switch (kind) {
    case BINARY_GRAPHICS_IN_COMPUTE:
        return entry->count == 1;
    case BINARY_COMPUTE_IN_GRAPHICS:
    case BINARY_FRAGMENT_OF_ANOTHER:
    case BINARY_ORDER_REVERSED:
    case BINARY_ONE_MISSING:
        return entry->count == 2;
    default:
        return entry->count > 0;
    }
}

Entry corrupt_binaries(const Archive *all, uint32_t pipeline, uint32_t kind, Random *random)
{
    const Entry *from = &all->entries[pipeline];
    Entry entry = copy_entry(from);
    if (!suits(from, (BinaryKind)kind)) {
        entry_free(&entry);
        return (Entry){.count = 0};
    }
    uint32_t index = (uint32_t)below(random, entry.count);
    VkPipelineBinaryDataKHR kept;
    switch ((BinaryKind)kind) {
    case BINARY_INTACT:
        break;
    case BINARY_OF_ANOTHER:
        take_from(&entry, index, all, from->count, random, false);
        break;
    case BINARY_COMPUTE_IN_GRAPHICS:
        take_from(&entry, index, all, 1, random, false);
        break;
    case BINARY_GRAPHICS_IN_COMPUTE:
        take_from(&entry, index, all, 2, random, false);
        break;
    case BINARY_FRAGMENT_OF_ANOTHER:
        take_from(&entry, 1, all, 2, random, false);
        break;
    case BINARY_ORDER_REVERSED:
        kept = entry.data[0];
        entry.data[0] = entry.data[1];
        entry.data[1] = kept;
        break;
    case BINARY_WRONG_KEY:
        take_from(&entry, index, all, from->count, random, true);
        break;
    case BINARY_DAMAGED_KEY:
        entry.keys[index].key[below(random, entry.keys[index].keySize)] ^= (uint8_t)(1u << below(random, 8));
        break;
    case BINARY_ONE_MISSING:
        free(entry.data[--entry.count].pData);
        break;
    case BINARY_ONE_MORE:
        entry.keys[entry.count] = entry.keys[index];
        set_data(&entry, entry.count, &from->data[index]);
        ++entry.count;
        break;
    default:
        do
            change_data(&entry, index, (BinaryKind)kind, random);
        while (entry.data[index].pData && same_data(&entry.data[index], &from->data[index]));
    }
    return entry;
}
