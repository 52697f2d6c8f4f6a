/* carrier_cells.h - creates pipelines with a VkPipelineCache, each miss in a cell */
#ifndef PYLAYER_CARRIER_CELLS_H
#define PYLAYER_CARRIER_CELLS_H

#include "pipelines/batch.h"

VkResult carrier_cells_create(Batch *batch);
/* Creates one of the call's pipelines, with the application's cache and the layer's. */
VkResult carrier_cells_create_one(Batch *batch, uint32_t index);

#endif
