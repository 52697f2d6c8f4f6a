/* store.c - see store.h */
#include "store/store.h"

#include <stdlib.h>

void store_open(Store *store, const Driver *driver, Run *run)
{
    Stored *stored = &store->stored;
    pthread_condattr_t monotonic;
    store->driver = driver;
    store->run = run;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&stored->given, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&stored->mutex, NULL);
}

void store_close(Store *store)
{
    Stored *stored = &store->stored;
    index_forget(stored);
    free(stored->directory);
    free(stored->system);
    free(atomic_load(&stored->buffer));
    number_map_free(&stored->places);
    pthread_cond_destroy(&stored->given);
    pthread_mutex_destroy(&stored->mutex);
}
