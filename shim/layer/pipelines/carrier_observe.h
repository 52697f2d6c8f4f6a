/* carrier_observe.h - passes calls as the application made them, and counts */
#ifndef PYLAYER_CARRIER_OBSERVE_H
#define PYLAYER_CARRIER_OBSERVE_H

#include "pipelines/batch.h"

VkResult carrier_observe_create(Batch *batch);

#endif
