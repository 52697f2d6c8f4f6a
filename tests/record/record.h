/*
 * record.h - a create info with all that it points to, as one block that can be moved.
 *
 * In the block a pointer is the offset of what it points to. Replaying is: copy the block, add its address at the places of
 * pointers, and put this process's handles at the places of handles. Results, callbacks and what Vulkan ignores are not in
 * it: such pointers are NULL.
 */
#ifndef PYLAYER_RECORD_H
#define PYLAYER_RECORD_H

#include "vulkan/walk.h"

typedef struct RecordHandle {
    uint64_t place;  /* in the block */
    uint64_t handle; /* as the program passed it, or the digest of what made it */
    uint32_t type;   /* VkObjectType */
} RecordHandle;

typedef struct RecordArray {
    void *items;
    size_t count, room;
} RecordArray;

typedef struct Record {
    Walk walk;                            /* the first member: its visitors get it */
    RecordArray block, pointers, handles; /* of uint8_t; of uint64_t, places in the block; of RecordHandle */
    bool failed;                          /* memory was short */
} Record;

/* What is known of the pipeline is in record->walk. Returns false if memory is short. Free with record_free. */
bool record_make(Record *record, enum StructureIndex index, const void *info);
void record_free(Record *record);
/* Returns the create info in a new block, for free(), with the handles that `find` returns. NULL if memory is short. */
void *record_replay(const Record *record, uint64_t (*find)(void *context, const RecordHandle *handle), void *context);

#endif
