/* caches.h - a device's VkPipelineCache objects: the layer's own, and what it knows of the application's */
#ifndef PYLAYER_CACHES_H
#define PYLAYER_CACHES_H

#include "crash/crash.h"
#include "process/number_map.h"
#include "store/store.h"
#include "vulkan/create_info.h"

/* What the layer knows of an application's VkPipelineCache. The application uses the driver's handle, and destroys it
 * only when no thread uses it any more (vkDestroyPipelineCache: externally synchronized). */
typedef struct AppCache {
    VkPipelineCache handle;
    SpreadLock lock;           /* held for reading by all that use the cache, by merges for writing (cells.c) */
    atomic_uint deferred_uses; /* by deferred operations that end at an unknown time: it is not merged into */
    bool synchronized_merge;   /* the driver lets others use the cache during a merge */
    uint64_t data_id;          /* first bytes of the initial data's digest; 0: no data, or not known */
    atomic_bool holds_unknown; /* it may hold pipelines that this run did not create with it: data, merges */
    /* What the cache would hold without the layer, by fingerprint. A stored pipeline that the program creates with a
     * cache of its own belongs into that cache. It is merged later, when somebody can look into the cache, and all at
     * once: most programs never look. */
    SharedMap contents;
    atomic_bool owes_all;  /* something is missing that has no fingerprint, or could not be merged: merge everything */
    PatientMutex settling; /* held while what is missing is merged: whoever reads the cache waits for that */
} AppCache;

typedef struct Caches {
    const Driver *driver;
    Run *run;
    Store *store;
    Crash *crash;

    /* The layer's own cache: all cells merged. Created with the device and never passed to the application. */
    VkPipelineCache merged; /* VK_NULL_HANDLE if no mode keeps pipelines */
    SpreadLock merged_lock; /* as AppCache::lock */
    /* Allows one merge at a time in a device. A merge locks its destination and its sources, so two merges in
     * opposite directions could wait for each other for ever: Mesa locks the destination, then the source. */
    PatientMutex merge_mutex;
    uint8_t *empty_data; /* vkGetPipelineCacheData of an empty cache, to recognise that nothing was kept */
    size_t empty_size;
    atomic_int said_unreadable; /* the log has said that the driver does not return data */
    atomic_int gives_back;      /* cells.c: whether the driver finds what it put into a cell */
    atomic_uint left_nothing;   /* Element::codeless of pipelines of which one left nothing in its cell */

    pthread_mutex_t given_mutex; /* guards the next three */
    VkPipelineCache *unmerged;   /* of the program's caches, whose threads could not wait for another merge */
    size_t unmerged_count;
    NumberMap given;    /* by digest_id of what the driver got: a cell in how many chunks, or GIVEN_ALONE (cells.c) */
    atomic_bool ending; /* the device or the process ends: the driver gets no more records */

    SharedMap apps; /* AppCache, by handle */
    atomic_uint next_slot;
    atomic_ullong waited_ns;    /* for policy's verdicts on the program's data */
    atomic_bool policy_answers; /* it gave at least one */
} Caches;

/* ---- pipeline_cache.c: the application's own VkPipelineCache objects ------------------------------------- */

void caches_close(Caches *caches);
/* Returns AppCache::data_id for the crash marker; 0 without a cache. */
static inline uint64_t app_cache_data_id(const AppCache *app_cache)
{
    return app_cache ? app_cache->data_id : 0;
}

AppCache *app_cache_find(Caches *caches, VkPipelineCache handle);
/* Without memory for it the cache is used as it is, and never merged into. */
void app_cache_add(Caches *caches, VkPipelineCache handle, VkPipelineCacheCreateFlags flags, bool from_data,
                   uint64_t data_id);
/* The application destroys the cache. */
void app_cache_forget(Caches *caches, AppCache *app_cache);

/* Notes that a pipeline which another cache had belongs into this one. Returns true if that was known already. */
bool app_cache_owes(AppCache *app_cache, uint64_t fingerprint);
/* Notes that a pipeline was merged into the cache. */
void app_cache_holds(AppCache *app_cache, uint64_t fingerprint);
/* Returns the fingerprints of what is still to be merged, which the caller frees, and notes them as merged. NULL: there
 * are none, or memory is short. */
uint64_t *app_cache_take_owed(AppCache *app_cache, size_t *count);

/* ---- own_data.c: what the program passes to vkCreatePipelineCache and what it reads ---------------------- */

/* Initial data of one vkCreatePipelineCache. */
typedef struct OwnData {
    uint32_t slot; /* PylayerCacheInfo::slot */
    bool passes;   /* policy passed it, or the time for its answers is spent */
    const VkPipelineCacheCreateInfo *info;
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* zero if it was not needed */
    uint64_t id;                          /* of the digest, for the crash marker; 0: no data, or refused */
} OwnData;

/* Fills in *data. Returns true if the driver must not get the data. */
bool own_data_is_refused(Caches *caches, OwnData *data, uint32_t slot, const VkPipelineCacheCreateInfo *info);
/* Call it once the driver has made a cache of the data. Data that passes is known from now on. */
void own_data_passed(Caches *caches, const OwnData *data);
/* Tells policy that the driver failed on the program's data with `result`, so that the program's cache begins empty. */
void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result);
/* The program has read this data of a cache: it is known from now on. */
void own_data_read(Caches *caches, const void *data, size_t size);
/* The same for data with this digest. data: as for cache_history_note. */
void own_data_note(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size, const void *data);
/* Has policy open the store, if it does so only now, as for a device that keeps nothing. */
void own_data_open(Caches *caches);
/* Returns true if the program read this data of a binary under another identity. */
bool own_data_is_of_another_driver(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size);

/* ---- sketch.c: recognising a damaged copy --------------------------------------------------------- */

/* Writes the sketch of data. Returns how many bytes it has. */
size_t sketch_write(uint8_t sketch[PYLAYER_SKETCH_BYTES], const void *data, uint64_t size);

/* ---- cache_history.c: which data of the program's caches is known ----------------------------------------- */

/* Data is known if the program read it from this driver, or passed it and policy knew nothing against it. The layer
 * records that at once, in a file of this process, so that nothing is lost however the process ends. Policy reads the
 * files to judge unknown data, and combines them (pylayer/store/cache_history.py). */

/* Returns true if the data is known. Where the plan is strict or only reports, data that merely passed is not.
 * policy_judges: the caller asks policy about data that is not known. */
bool cache_history_has(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], bool policy_judges);
/* Records that the program read this data, or only passed it. data: its damaged copies are recognized; NULL: they are
 * not. Does nothing if the store is read-only. */
void cache_history_note(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size, bool passed,
                        const void *data);

/* ---- cells.c: the layer's merged VkPipelineCache and the cells that go into it --------------------------- */

bool cells_open(Caches *caches);
void cells_close(Caches *caches);
/* Returns an empty cache to create this pipeline in; VK_NULL_HANDLE if the driver refuses. */
VkPipelineCache cell_create(Caches *caches, const Element *element);
/* Reads the cell, merges it into the layer's cache and, if given, the application's, and destroys it. Fills in the rest
 * of `about` and sends it to policy. The cell must hold no more than what creating one pipeline added. Returns false if
 * the driver put nothing into it, or would find nothing in it. codeless: of the element. */
bool cell_finish(Caches *caches, VkPipelineCache cell, AppCache *app_cache, uint32_t codeless, PylayerCell *about);
/* Merges the layer's cache into an application's. Returns false if that was not possible now. */
bool cells_merge_all(Caches *caches, AppCache *app_cache);
/* Returns true if the driver got the record with this digest, or this cell in two chunks. */
bool cells_given(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* Notes that the driver has the record and its cells. */
void cells_note_given(Caches *caches, const StoredRecord *record);
/* Makes a cache of a record and merges it into the layer's cache or, if given, an application's. Returns false if that
 * fails. */
bool cells_merge_record(Caches *caches, AppCache *app_cache, const StoredRecord *record);
/* Has the driver merge cells into one cache. Their data is in `cells`, one after the other. Writes the cache's data, at
 * most `capacity` bytes, and returns its size; 0 if it does not fit, or the driver fails or loses some of it. */
uint64_t cells_join(Caches *caches, const uint8_t *cells, const uint64_t *sizes, uint32_t cell_count, uint8_t *out,
                    uint64_t capacity);

/* ---- driver_cache.c: VkPipelineCache objects of the layer's own ---------------------------------- */

/* Creates a cache, from data if there is any. one_thread: one thread at a time uses it. Returns VK_NULL_HANDLE if the
 * driver refuses. */
VkPipelineCache driver_cache_create(const Driver *driver, const void *data, size_t size, bool one_thread);
/* Returns all data of a cache that nobody fills meanwhile, which the caller frees. Returns NULL, and a size of 0, if it
 * cannot be read. */
uint8_t *driver_cache_read(const Driver *driver, VkPipelineCache cache, size_t *size);

/* ---- stored.c: finds stored pipelines by their fingerprints and gives them to the driver when they are created --- */

/* What the program does not create is not read, and no pipeline waits for the interpreter. */

/* Merges a record that is stored under this fingerprint, with the rest of its chunk, into the layer's cache. Of several
 * the oldest comes first. Returns true if there are more, unless the driver finds the pipeline in this one. Updates
 * what is known of the fingerprint: enum Seen. With fingerprint 0 it merges all that have none. */
bool stored_fetch(Caches *caches, uint64_t fingerprint, unsigned *known);
/* Waits for a thread that gives what has this number. Unlock the mutex afterwards. Returns NULL if that takes too
 * long. */
pthread_mutex_t *stored_take_turn(Stored *stored, uint64_t number);
/* Merges what is missing in an application's cache. Call it before a command that reads the cache. */
void stored_settle(Caches *caches, AppCache *app_cache);

#endif
