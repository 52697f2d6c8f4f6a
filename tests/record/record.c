/* record.c - see record.h */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* The strictest alignment of a member. */
#define ALIGNMENT 8

/* Returns the first of `count` new items, which are zeros; NULL if memory is short. */
static void *append(Record *record, RecordArray *array, size_t item_bytes, size_t count)
{
    if (array->count + count > array->room) {
        size_t room = 2 * array->room + count;
        void *items = record->failed ? NULL : realloc(array->items, room * item_bytes);
        if (!items) {
            record->failed = true;
            record->walk.ended = true;
            return NULL;
        }
        array->items = items;
        array->room = room;
    }
    void *first = (char *)array->items + array->count * item_bytes;
    memset(first, 0, count * item_bytes);
    array->count += count;
    return first;
}

/* Where the copy of a byte of the program's is. */
static size_t offset_of(const Record *record, const void *data)
{
    return record->walk.block.at + (size_t)((const char *)data - record->walk.block.data);
}

static void put(Record *record, size_t place, const void *data, size_t size)
{
    if (!record->failed)
        memcpy((uint8_t *)record->block.items + place, data, size);
}

static void begin_block(Record *record, const void *data, size_t size)
{
    record->walk.block = (WalkBlock){data, record->block.count};
    append(record, &record->block, 1, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void enter_target(Walk *walk, const void *place, const void *target, size_t size)
{
    Record *record = (Record *)(void *)walk;
    const uint64_t from = offset_of(record, place), to = record->block.count;
    uint64_t *pointer = append(record, &record->pointers, sizeof *pointer, 1);
    if (pointer)
        *pointer = from;
    put(record, from, &to, sizeof to);
    begin_block(record, target, size);
}

static void copy_bytes(Walk *walk, const void *data, size_t size)
{
    Record *record = (Record *)(void *)walk;
    put(record, offset_of(record, data), data, size);
}

static void note_handle(Walk *walk, VkObjectType type, const uint64_t *handle, const void *structure)
{
    (void)structure;
    Record *record = (Record *)(void *)walk;
    RecordHandle *noted = *handle ? append(record, &record->handles, sizeof *noted, 1) : NULL;
    if (noted)
        *noted = (RecordHandle){offset_of(record, handle), *handle, (uint32_t)type};
}

bool record_make(Record *record, enum StructureIndex index, const void *info)
{
    record->walk.facts |= FACT_RECORDED;
    record->walk.bytes = copy_bytes;
    record->walk.handle = note_handle;
    record->walk.enter = enter_target;
    begin_block(record, info, walk_size_of(index));
    walk_structures(&record->walk, index, info, 1);
    return !record->failed;
}

void record_free(Record *record)
{
    free(record->block.items);
    free(record->pointers.items);
    free(record->handles.items);
}

void *record_replay(const Record *record, uint64_t (*find)(void *context, const RecordHandle *handle), void *context)
{
    const uint64_t *pointers = record->pointers.items;
    const RecordHandle *handles = record->handles.items;
    char *block = malloc(record->block.count);
    if (!block)
        return NULL;
    memcpy(block, record->block.items, record->block.count);
    for (size_t i = 0; i < record->pointers.count; i++)
        *(uint64_t *)(void *)(block + pointers[i]) += (uint64_t)(uintptr_t)block;
    for (size_t i = 0; i < record->handles.count; i++)
        *(uint64_t *)(void *)(block + handles[i].place) = find(context, &handles[i]);
    return block;
}
