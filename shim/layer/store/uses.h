/* uses.h - which stored pipelines a run used, where policy had nothing to do in it */
#ifndef PYLAYER_USES_H
#define PYLAYER_USES_H

#include "store/store.h"

/* Writes it into the store, if no run did within a day, for a device with a kept plan. Without it, the store would evict
 * first what is used most (pylayer/store/recency.py). */
void uses_write(Store *store);

#endif
