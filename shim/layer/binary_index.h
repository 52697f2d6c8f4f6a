/* binary_index.h - pipeline binaries as bytes, by pipeline key, and what the application read of its own */
#ifndef PYLAYER_BINARY_INDEX_H
#define PYLAYER_BINARY_INDEX_H

#include "base.h"

/* Binaries by pipeline key. Readers take no lock: a table is replaced by a larger one, never changed but for
 * slots that are filled, and old ones stay until the device goes. */
#define BINARY_ENTRY_LOCKS 16
typedef struct BinaryIndex {
    _Atomic(struct BinaryTable *) table;
    pthread_mutex_t mutex;       /* writers only */
    struct BinaryEntry *entries; /* all that ever were in a table */
    atomic_ullong bytes;         /* held by entries */
    size_t used;                 /* entries in the table */
    pthread_mutex_t entry_locks[BINARY_ENTRY_LOCKS];
} BinaryIndex;

/* Digests, by key, of the data of binaries that the application read, in this run or in others. */
#define BINARY_HISTORY_BUCKETS 1024
typedef struct BinaryHistory {
    pthread_mutex_t mutex;
    struct KnownBinary *buckets[BINARY_HISTORY_BUCKETS];
    uint64_t bytes, count;
} BinaryHistory;

/* ---- binary_record.c ---- */

/* The bytes of all VkPipelineBinaryKHR of one pipeline (docs/format.md, 'Binaries'): this, an entry for each, and each
 * one's data at a multiple of 16. Little-endian, as every machine that this runs on. */
typedef struct BinaryRecord {
    uint32_t count, key_size;
    uint64_t zero;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES]; /* of the pipeline */
    struct {
        uint64_t size;
        uint32_t key_size, zero;
        uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    } entries[];
} BinaryRecord;

/* A record that says only what its size has room for. NULL: none. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Reads the data of the handles, malloc'ed; NULL where the driver or memory fails. */
BinaryRecord *binary_record_read(Device *device, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size);
/* vkCreatePipelineBinariesKHR of the next layer with the record's keys and data. */
VkResult binary_record_create(Device *device, const BinaryRecord *record, const VkAllocationCallbacks *allocator,
                              uint32_t handle_count, VkPipelineBinaryKHR *handles);

/* ---- binary_index.c ---- */

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

/* ---- binary_history.c ---- */

enum BinaryOutcome { BINARY_UNKNOWN, BINARY_ATTESTED, BINARY_ALTERED, BINARY_STALE };

/* Copies it; true when it was not known before. data, where there is room for it, is what restoring needs. */
bool binary_history_add(Device *device, const PylayerAttested *attested);
/* What is known of data that an application brings. restored: of altered data, the one content known under that key,
 * valid until the device goes; else NULL. */
enum BinaryOutcome binary_history_judge(Device *device, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data, VkPipelineBinaryDataKHR *restored);
void binary_history_free(Device *device);

#endif
