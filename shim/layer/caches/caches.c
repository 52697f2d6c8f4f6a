/* caches.c - see caches.h */

#include "caches/caches.h"

void caches_open(Caches *caches, const Driver *driver, Run *run, Store *store, Crash *crash)
{
    caches->driver = driver;
    caches->run = run;
    caches->store = store;
    caches->crash = crash;
    pthread_mutex_init(&caches->given_mutex, NULL);
    patient_init(&caches->merge_mutex);
    shared_map_open(&caches->apps);
    spread_lock_init(&caches->merged_lock);
}

void caches_close(Caches *caches)
{
    pthread_mutex_destroy(&caches->given_mutex);
    number_map_free(&caches->given);
    patient_destroy(&caches->merge_mutex);
    shared_map_close(&caches->apps);
    spread_lock_destroy(&caches->merged_lock);
}
