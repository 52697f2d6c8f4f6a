/* loading.h - stored records on their way into the layer's cache */
#ifndef PYLAYER_LOADING_H
#define PYLAYER_LOADING_H

#include "base.h"

/* Records that policy published, in its memory until the next publication ends, and how far they are. */
typedef struct Loading {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_uint changes;    /* counts what changed is signalled for */
    atomic_ullong begun_ns; /* nobody waits later than this plus load_wait_ns */
    atomic_int done;        /* nothing more is expected: everything stored is merged */
    atomic_int under_way;   /* records were published, now or in a later load, and not all are merged */
    atomic_int abandoned;   /* device or process end: nothing more is given to the driver */
    atomic_bool refused;    /* the driver refused a record */
    const uint8_t *base;
    const uint64_t *offsets, *sizes;
    const uint8_t *digests;
    uint64_t count, next, finished; /* of this publication */
    uint64_t published, taken;      /* of this load */
    unsigned expected;              /* loads that loading_done or loading_cancel have not ended */
} Loading;

/* Finishes, with threads in loading_wait, what was published before, and publishes these records. -1: the
 * device keeps no cache. */
int64_t loading_publish(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                        const uint8_t *digests, uint64_t record_count);
/* One more load is expected: pipeline creations that miss wait for its loading_done, or loading_cancel. */
void loading_begin(Device *device);
void loading_cancel(Device *device);
/* No load is expected any more. */
void loading_end(Device *device);
/* Finishes what is published; nobody waits any longer, unless another load is expected. How many records the driver took in all, -1 where the
 * device or the process is ending. */
int64_t loading_done(Device *device);
/* Records are on their way into the layer's cache, or are still to come. */
bool loading_is_under_way(const Device *device);
/* Leaves the rest alone: loading_done returns -1, and nobody waits any longer. */
void loading_abandon(Device *device);
/* Waits for the store, at most as long as the plan allows, and helps. True when it is wholly merged, without a
 * record that the driver refused. */
bool loading_wait(Device *device);

#endif
