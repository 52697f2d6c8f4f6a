/* loading.h - merges stored records that policy hands over into the layer's cache */
#ifndef PYLAYER_LOADING_H
#define PYLAYER_LOADING_H

#include "base.h"

/* How long a pipeline creation waits for stored records before it compiles. */
#ifndef LOAD_WAIT_NS /* shorter in the fuzz targets */
#define LOAD_WAIT_NS 5000000000ull
#endif

typedef struct Caches Caches;

typedef struct Loading {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_ullong begun_ns; /* a thread waits for stored records at most until this plus LOAD_WAIT_NS */
    atomic_int done;        /* no load is expected: everything stored is merged */
    atomic_int under_way;   /* records were handed over, in this or a later load, and more may come */
    atomic_int abandoned;   /* the device or the process ends: the driver gets no more records */
    atomic_bool refused;    /* the driver refused a record */
    uint64_t given, taken;  /* records of this load; policy's thread counts them */
    unsigned expected;      /* loads that neither loading_done nor loading_cancel has ended */
} Loading;

/* Merges records before it returns; abandoned ones are left out. Returns -1 if the device has no cache of the layer's. */
int64_t loading_take(Caches *caches, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                     const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count);
/* Announces one more load. Pipeline creations that miss wait for its loading_done or loading_cancel. */
void loading_begin(Caches *caches);
void loading_cancel(Caches *caches);
/* Ends all loads that are expected. */
void loading_end(Caches *caches);
/* Ends a load: no thread waits any longer, unless another is expected. Returns how many records of it the driver
 * accepted, or -1 if the device or the process is ending. */
int64_t loading_done(Caches *caches);
/* The driver refused records. */
void loading_refused(Caches *caches, uint64_t records);
/* Returns true if records are being merged into the layer's cache, or are still expected. */
bool loading_is_under_way(const Caches *caches);
/* Abandons the remaining records: loading_done returns -1, and no thread waits any longer. */
void loading_abandon(Caches *caches);
/* Waits for the store, at most as long as the plan allows. Returns true if the whole store is merged and the driver
 * refused no record. */
bool loading_wait(Caches *caches);

#endif
