/* carrier_binaries.h - creates pipelines by their keys */
#ifndef PYLAYER_CARRIER_BINARIES_H
#define PYLAYER_CARRIER_BINARIES_H

#include "pipelines/batch.h"

/* For a call without a VkPipelineCache, after batch_wait_for_load. */
VkResult carrier_binaries_create(Batch *batch);

#endif
