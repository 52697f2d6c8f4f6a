/* binaries.h - the pipeline binaries of a device, and what is known of the driver's and of the application's */
#ifndef PYLAYER_BINARIES_H
#define PYLAYER_BINARIES_H

#include "caches/caches.h"
#include "crash/crash.h"
#include "driver/driver.h"
#include "process/number_map.h"
#include "run/run.h"
#include "store/store.h"

/* All VkPipelineBinaryKHR of one pipeline as bytes (docs/internals/format.md, 'Binaries'): this head, an entry for each
 * binary, and each binary's data at a multiple of 16. Little-endian, like every machine that the layer runs on. */
typedef struct BinaryRecord {
    uint32_t count, key_size;
    uint64_t global_key;                   /* under which the driver gave them (binaries_global_key) */
    uint8_t key[PYLAYER_BINARY_KEY_BYTES]; /* of the pipeline */
    struct {
        uint64_t size;
        uint32_t key_size, zero;
        uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    } entries[];
} BinaryRecord;

/* The binaries of one pipeline. An entry of the index stays in memory until the device is destroyed. */
typedef struct BinaryEntry {
    struct BinaryEntry *older; /* of the same hash: used once this one is evicted */
    uint32_t key_size, count;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint64_t bytes;               /* these count against BINARIES_BYTES */
    bool evicted;                 /* under the index's mutex */
    pthread_mutex_t mutex;        /* guards what follows */
    VkPipelineBinaryKHR *handles; /* malloc'd; NULL: not created yet */
    BinaryRecord *record;         /* of which they are created */
} BinaryEntry;

/* The most memory for stored binaries on one device. */
#define BINARIES_BYTES (256ull << 20)

typedef struct Binaries {
    const Driver *driver;
    Run *run;
    Crash *crash;

    /* enabled: pipelineBinaries is enabled. app_enabled: the application enabled it. */
    bool enabled, app_enabled;
    /* The application asked for a pipeline's key or, by its create info, for its binaries: it keeps binaries itself. It
     * may get them from the driver's internal cache, which lacks what went through a VkPipelineCache. So from then on
     * the layer adds no cache, and stores no binaries. */
    atomic_bool app_keeps;
    bool app_extension, app_maintenance5; /* the application enabled these, so it may use their commands */
    bool internal_cache;      /* VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo may be used with this driver */
    bool driver_cache_off;    /* disableInternalCache */
    atomic_ullong global_key; /* what binaries_global_key returned last */
    atomic_uint failures[PYLAYER_KIND_COUNT]; /* in a row */

    pthread_mutex_t index_mutex; /* guards the index: the BinaryEntry that was added last, by its key's hash */
    NumberMap index;
    uint64_t index_bytes; /* of all entries that are not evicted */
} Binaries;

void binaries_open(Binaries *binaries, const Driver *driver, Run *run, Crash *crash);
/* Returns the XXH3-64 of the driver's global key, and 0 if the driver does not give it. Binaries are of use only under
 * an equal one: it changes with anything that makes them useless (Vulkan, vkGetPipelineKeyKHR). The driver is asked by
 * the first call, so that a program which only enables the extension needs no key. */
uint64_t binaries_global_key(Binaries *binaries);
/* Frees memory. binary_index_close has destroyed the driver's objects before. */
void binaries_close(Binaries *binaries);

/* ---- binary_index.c: the binaries that a device has in memory, by pipeline key -------------------- */

/* Destroys the driver's objects. */
void binary_index_close(Binaries *binaries);
/* Returns the newest entry of the key that was not evicted; NULL if there is none. */
BinaryEntry *binary_index_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key);
/* Copies a record into the index. Returns false if the record is malformed, of another global key or in the index
 * already, or there is no room. */
bool binary_index_load(Binaries *binaries, const void *data, uint64_t size);
/* Takes over malloc'd handles, of a pipeline whose record has this size. Returns false if the key was in the index
 * before. */
bool binary_index_add(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, uint64_t size, uint32_t handle_count,
                      VkPipelineBinaryKHR *handles);
/* Returns the entry's VkPipelineBinaryKHR objects, created when first asked for. Returns NULL if the driver refuses. */
const VkPipelineBinaryKHR *binary_entry_handles(Binaries *binaries, BinaryEntry *entry);
/* The index never finds an evicted entry again. */
void binary_entry_evict(Binaries *binaries, BinaryEntry *entry);

/* ---- stored_binaries.c: puts the stored pipeline binaries of a device into memory ------------------ */

/* Call it when the store is open, before the application has the device. */
void stored_binaries_read(Binaries *binaries, Store *store);

/* ---- binary_history.c: the data that the application read from its own binaries ------------------- */

enum BinaryOutcome { BINARY_UNKNOWN, BINARY_ATTESTED, BINARY_ALTERED, BINARY_STALE };

/* Notes what was read. */
void binary_history_note(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key, const void *data,
                         size_t size);
/* Compares data that an application brings with what is known under its key. */
enum BinaryOutcome binary_history_judge(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data);

/* ---- binary_record.c: the binaries of one pipeline as bytes ----------------------------------------- */

/* Returns data as a record, or NULL if the counts and sizes in it do not match its size. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Returns a malloc'ed record with the data of the handles, or NULL if the driver fails or there is no memory. Its
 * global_key is 0. */
BinaryRecord *binary_record_read(const Driver *driver, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size);
/* Calls vkCreatePipelineBinariesKHR of the next layer with the record's keys and data. Returns malloc'd handles; NULL,
 * and there is none, if not all could be created. */
VkPipelineBinaryKHR *binary_record_create(const Driver *driver, const BinaryRecord *record);
/* Destroys and frees malloc'd handles. */
void binaries_destroy(const Driver *driver, uint32_t handle_count, VkPipelineBinaryKHR *handles);

#endif
