/* caches.h - a device's VkPipelineCache objects: the layer's own, and what it knows of the application's */
#ifndef PYLAYER_CACHES_H
#define PYLAYER_CACHES_H

#include "caches/cache_history.h"
#include "caches/loading.h"
#include "caches/pipeline_cache.h"
#include "crash/crash.h"
#include "driver/driver.h"
#include "run/run.h"
#include "store/store.h"

struct Caches {
    const Driver *driver;
    Run *run;
    Store *store;
    Crash *crash;

    /* The layer's own cache: all cells merged. Created with the device and never passed to the application. */
    VkPipelineCache merged; /* VK_NULL_HANDLE if no carrier keeps pipelines */
    CacheUse merged_use;
    atomic_uint generation; /* raised by every merge into merged */
    /* Allows one merge at a time in a device. A merge locks its destination and its sources, so two merges in
     * opposite directions could wait for each other for ever: Mesa locks the destination, then the source. */
    PatientMutex merge_mutex;
    uint8_t *empty_data; /* vkGetPipelineCacheData of an empty cache, to recognise that nothing was kept */
    size_t empty_size;
    atomic_int said_unreadable; /* the log has said that the driver does not return data */
    atomic_int gives_back;      /* cells.c: whether the driver finds what it put into a cell */

    pthread_mutex_t given_mutex;
    NumberMap given; /* digest_id of the stored records that the driver got; not of those from policy */
    Loading loading;
    atomic_bool sends_sketches; /* with the first question about the program's data */

    pthread_mutex_t apps_mutex; /* writers only */
    _Atomic(AppCache *) apps[APP_CACHE_BUCKETS];
    atomic_uint next_slot;
    CacheHistory history;
};

/* Without the layer's own cache: cells_open creates that. */
void caches_open(Caches *caches, const Driver *driver, Run *run, Store *store, Crash *crash);
void caches_close(Caches *caches);

#endif
