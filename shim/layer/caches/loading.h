/* loading.h - merges stored records into the layer's cache */
#ifndef PYLAYER_LOADING_H
#define PYLAYER_LOADING_H

#include "base.h"

/* Records that policy published, and how many of them are merged. They stay in policy's memory until the next
 * loading_publish or loading_done returns. */
typedef struct Loading {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_uint changes;    /* counts the signals of `changed` */
    atomic_ullong begun_ns; /* a thread waits at most until this plus load_wait_ns */
    atomic_int done;        /* no load is expected: everything stored is merged */
    atomic_int under_way;   /* records were published, in this or a later load, and not all are merged */
    atomic_int abandoned;   /* the device or the process ends: the driver gets no more records */
    atomic_bool refused;    /* the driver refused a record */
    const uint8_t *base;
    const uint64_t *offsets, *sizes;
    const uint8_t *digests;
    uint64_t count, next, finished; /* of this publication */
    uint64_t published, taken;      /* of this load */
    unsigned expected;              /* loads that neither loading_done nor loading_cancel has ended */
} Loading;

/* Finishes the previous publication, together with threads in loading_wait, and publishes these records. Returns -1 if
 * the device has no cache of the layer's. */
int64_t loading_publish(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                        const uint8_t *digests, const uint64_t *fingerprint_array, uint64_t record_count);
/* Announces one more load. Pipeline creations that miss wait for its loading_done or loading_cancel. */
void loading_begin(Device *device);
void loading_cancel(Device *device);
/* Ends all loads that are expected. */
void loading_end(Device *device);
/* Finishes what is published. No thread waits any longer, unless another load is expected. Returns how many records of
 * the load the driver accepted, or -1 if the device or the process is ending. */
int64_t loading_done(Device *device);
/* The driver refused records that the layer read itself. */
void loading_refused(Device *device, uint64_t records);
/* Returns true if records are being merged into the layer's cache, or are still expected. */
bool loading_is_under_way(const Device *device);
/* Abandons the remaining records: loading_done returns -1, and no thread waits any longer. */
void loading_abandon(Device *device);
/* Waits for the store, at most as long as the plan allows, and merges slices meanwhile. Returns true if the whole store
 * is merged and the driver refused no record. */
bool loading_wait(Device *device);

#endif
