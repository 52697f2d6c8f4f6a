/* store.c - see store.h */
#include <stdlib.h>

#include "store/store.h"

void store_open(Store *store, const Driver *driver, Run *run)
{
    Stored *stored = &store->stored;
    store->driver = driver;
    store->run = run;
    cond_init_monotonic(&stored->given);
    pthread_mutex_init(&stored->mutex, NULL);
}

void store_close(Store *store)
{
    Stored *stored = &store->stored;
    index_forget(stored);
    free(stored->directory);
    free(stored->system);
    number_map_free(&stored->places);
    pthread_cond_destroy(&stored->given);
    pthread_mutex_destroy(&stored->mutex);
}
