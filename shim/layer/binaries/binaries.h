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

/* The binaries of one pipeline. They stay until the device is destroyed, because nothing in Vulkan says that they may be
 * destroyed before the pipelines that were created from them ('Object Lifetime' lists what may). */
typedef struct BinaryEntry {
    struct BinaryEntry *older; /* of the same hash */
    VkPipelineBinaryKeyKHR key;
    atomic_bool evicted; /* the driver created nothing from them: never found again */
    uint32_t count;
    VkPipelineBinaryKHR handles[];
} BinaryEntry;

/* The most data of binaries that the driver holds for the layer on one device. Further pipelines become cells. */
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
    atomic_ullong global_key; /* what binaries_global_key returned last */
    /* A stored record is of another global key. That of ANV 26.1.6 differs in each process: binaries would be stored in
     * each run and never found, so pipelines become cells. */
    atomic_bool foreign;
    atomic_uint failures[PYLAYER_KIND_COUNT]; /* in a row */

    atomic_ullong held_bytes; /* the data of all entries */
    pthread_mutex_t mutex;    /* guards the index: the BinaryEntry that was added last, by its key's hash */
    NumberMap index;
} Binaries;

/* Returns the XXH3-64 of the driver's global key, and 0 if the driver does not give it. Binaries are of use only under
 * an equal one: it changes with anything that makes them useless (Vulkan, vkGetPipelineKeyKHR). The driver is asked by
 * the first call, so that a program which only enables the extension needs no key. */
uint64_t binaries_global_key(Binaries *binaries);
/* Destroys the driver's objects. */
void binaries_destroy(Binaries *binaries);
/* Returns the newest that this run captured or read under the key; NULL if there is nothing. */
BinaryEntry *binaries_find(Binaries *binaries, const VkPipelineBinaryKeyKHR *key);
/* Takes over an entry, whose data has this size. Returns false if one with this key was there already. */
bool binaries_add(Binaries *binaries, BinaryEntry *entry, uint64_t size);

/* ---- binary_history.c: the data that the application read from its own binaries ------------------- */

/* Notes what was read. */
void binary_history_note(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key, const void *data,
                         size_t size);
/* Compares data that the application brings with what is known under its key, and counts it. Returns true if the driver
 * may get it. */
bool binary_history_admits(Binaries *binaries, Caches *caches, const VkPipelineBinaryKeyKHR *key,
                           const VkPipelineBinaryDataKHR *data);

/* ---- binary_record.c: the binaries of one pipeline as bytes ----------------------------------------- */

/* Returns data as a record, or NULL if the counts and sizes in it do not match its size. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Returns a malloc'ed record with the data of the entry, or NULL if the driver fails or there is no memory. Its
 * global_key is 0. */
BinaryRecord *binary_record_read(const Driver *driver, const BinaryEntry *entry, uint64_t *size);
/* Calls vkCreatePipelineBinariesKHR of the next layer with the record's keys and data. Returns NULL, and there is none,
 * if not all could be created. */
BinaryEntry *binary_record_create(const Driver *driver, const BinaryRecord *record);

/* Returns an entry of no binaries yet; NULL if memory is short. */
BinaryEntry *binary_entry_new(const VkPipelineBinaryKeyKHR *key, uint32_t count);
/* Returns the entry with its first binaries only. */
BinaryEntry *binary_entry_shortened(BinaryEntry *entry, uint32_t count);
/* Destroys the binaries and frees the entry, which may be NULL. */
void binary_entry_free(const Driver *driver, BinaryEntry *entry);

#endif
