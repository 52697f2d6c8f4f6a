/* store.c - see store.h */
#include <stdlib.h>

#include "store/store.h"

void store_open(Store *store, const Driver *driver, Run *run)
{
    Stored *stored = &store->stored;
    store->driver = driver;
    store->run = run;
    pthread_mutex_init(&stored->reading, NULL);
    pthread_mutex_init(&stored->mutex, NULL);
    for (size_t i = 0; i < STORED_TURNS; i++)
        pthread_mutex_init(&stored->turns[i], NULL);
    shared_map_open(&stored->given);
}

void store_close(Store *store)
{
    Stored *stored = &store->stored;
    index_forget(stored);
    free(stored->directory);
    free(stored->system);
    shared_map_close(&stored->given);
    for (size_t i = 0; i < STORED_TURNS; i++)
        pthread_mutex_destroy(&stored->turns[i]);
    pthread_mutex_destroy(&stored->mutex);
    pthread_mutex_destroy(&stored->reading);
}
