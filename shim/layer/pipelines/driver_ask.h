/* driver_ask.h - asks the driver's own cache for a pipeline that the store has */
#ifndef PYLAYER_DRIVER_ASK_H
#define PYLAYER_DRIVER_ASK_H

#include "pipelines/batch.h"

/* Counts whether the driver's own cache has the first pipeline that is about to be read from the store, as a sample of
 * all. So `pylayer stats` can tell what the driver's cache no longer had. Only for a call without a VkPipelineCache. */
void driver_ask(Batch *batch, uint32_t index);

#endif
