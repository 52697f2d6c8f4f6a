/* carrier_snapshot.h - creates pipelines with a VkPipelineCache, without a probe */
#ifndef PYLAYER_CARRIER_SNAPSHOT_H
#define PYLAYER_CARRIER_SNAPSHOT_H

#include "pipelines/batch.h"

VkResult carrier_snapshot_create(Batch *batch);

#endif
