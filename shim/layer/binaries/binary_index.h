/* binary_index.h - pipeline binaries as bytes, by pipeline key */
#ifndef PYLAYER_BINARY_INDEX_H
#define PYLAYER_BINARY_INDEX_H

#include "binaries/binary_record.h"
#include "process/number_map.h"
#include "process/spread_lock.h"

/* Binaries by pipeline key. */
#define BINARY_ENTRY_LOCKS 16
typedef struct BinaryIndex {
    SpreadLock lock;             /* of newest and entries */
    NumberMap newest;            /* by the key's hash: the BinaryEntry that was added last */
    struct BinaryEntry *entries; /* all of them */
    atomic_ullong bytes;         /* held by entries */
    pthread_mutex_t entry_locks[BINARY_ENTRY_LOCKS];
} BinaryIndex;

/* The binaries of one pipeline in the index, from then on until the device goes. */
typedef struct BinaryEntry BinaryEntry;

void binary_index_open(Device *device);
/* Destroys the driver's objects; binary_index_free the rest, when nobody can read any more. */
void binary_index_close(Device *device);
void binary_index_free(Device *device);
BinaryEntry *binary_index_find(Device *device, const VkPipelineBinaryKeyKHR *key);
/* Copies a record. False: it is none, or has no room. */
bool binary_index_load(Device *device, const void *data, uint64_t size);
/* Takes the handles where it returns an entry, NULL where there was no room. known: the key was there before, and the
 * handles stay the caller's. */
BinaryEntry *binary_index_add(Device *device, const VkPipelineBinaryKeyKHR *key, uint64_t size, uint32_t handle_count,
                              VkPipelineBinaryKHR *handles, bool *known);
uint32_t binary_entry_count(const BinaryEntry *entry);
/* The entry's VkPipelineBinaryKHR objects, made when first asked for; NULL: the driver refuses. */
const VkPipelineBinaryKHR *binary_entry_handles(Device *device, BinaryEntry *entry);
/* Its record, malloc'ed; NULL where it cannot be had. */
BinaryRecord *binary_entry_record(Device *device, BinaryEntry *entry);
/* Never found again. */
void binary_entry_evict(Device *device, BinaryEntry *entry);

#endif
