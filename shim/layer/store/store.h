/* store.h - what a device has of the store */
#ifndef PYLAYER_STORE_H
#define PYLAYER_STORE_H

#include "driver/driver.h"
#include "run/run.h"
#include "store/store_index.h"

struct Store {
    const Driver *driver;
    Run *run;
    PylayerKept kept;       /* what policy kept of an earlier process; zero if nothing */
    bool used_recently;     /* a run of the last day recorded which pipelines it used */
    bool has_undecided;     /* only policy can judge what this run shows about the driver (verdicts.h) */
    atomic_bool wants_work; /* at the end of the process policy folds journals, or prunes statistics */
    Stored stored;
};

/* Returns true if the device has a plan that policy kept, so an earlier run of the program had this device. */
static inline bool store_has_plan(const Store *store)
{
    return *store->kept.reason != '\0';
}

void store_open(Store *store, const Driver *driver, Run *run);
void store_close(Store *store);

#endif
