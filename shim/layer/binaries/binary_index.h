/* binary_index.h - the pipeline binaries that a device has in memory, by pipeline key */
#ifndef PYLAYER_BINARY_INDEX_H
#define PYLAYER_BINARY_INDEX_H

#include "binaries/binary_record.h"
#include "process/number_map.h"
#include "process/spread_lock.h"

typedef struct Binaries Binaries;

/* The most memory for stored binaries on one device, and for its history of the program's own. */
#define BINARIES_BYTES (256ull << 20)

#define BINARY_ENTRY_LOCKS 16
typedef struct BinaryIndex {
    SpreadLock lock;             /* guards newest and entries */
    NumberMap newest;            /* the BinaryEntry that was added last, by its key's hash */
    struct BinaryEntry *entries; /* list of all entries */
    atomic_ullong bytes;         /* of all entries that are not evicted */
    pthread_mutex_t entry_locks[BINARY_ENTRY_LOCKS];
} BinaryIndex;

/* The binaries of one pipeline. An entry of the index stays in memory until the device is destroyed. */
typedef struct BinaryEntry BinaryEntry;

void binary_index_open(Binaries *binaries);
/* Destroys the driver's objects. binary_index_free frees the rest, once no thread can read the index any more. */
void binary_index_close(Binaries *binaries);
void binary_index_free(Binaries *binaries);
BinaryEntry *binary_index_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key);
/* Copies a record into the index. Returns false if the record is malformed or of another global key, or there is no
 * room. */
bool binary_index_load(Binaries *binaries, const void *data, uint64_t size);
/* Returns the new entry, which owns the handles from then on. Returns NULL, and the handles stay the caller's, if there
 * is no room, or if the key was in the index before (*known). */
BinaryEntry *binary_index_add(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, uint64_t size,
                              uint32_t handle_count, VkPipelineBinaryKHR *handles, bool *known);
uint32_t binary_entry_count(const BinaryEntry *entry);
/* Returns the entry's VkPipelineBinaryKHR objects, created when first asked for. Returns NULL if the driver refuses. */
const VkPipelineBinaryKHR *binary_entry_handles(Binaries *binaries, BinaryEntry *entry);
/* The index never finds an evicted entry again. */
void binary_entry_evict(Binaries *binaries, BinaryEntry *entry);

#endif
