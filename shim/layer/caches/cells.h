/* cells.h - the layer's merged VkPipelineCache and the cells that go into it */
#ifndef PYLAYER_CELLS_H
#define PYLAYER_CELLS_H

#include "device/device.h"

bool cells_open(Device *device);
void cells_close(Device *device);
/* Reads the cell, merges it into the layer's cache and, when given, the application's, destroys it
 * and tells policy, with the rest of about filled in. The cell must hold no more than what creating one pipeline
 * added. False: the driver put nothing into it. */
bool cell_finish(Device *device, VkPipelineCache cell, AppCache *app_cache, PylayerCell about);
/* Merges the layer's cache into an application's that lacked a pipeline which the layer has. */
void cells_seed(Device *device, AppCache *app_cache);
/* What went into an application's cache and into no cell is kept as if it had gone into the layer's. */
void cells_absorb(Device *device, AppCache *app_cache, bool at_its_end);
/* What a deferred operation may use for as long as it takes, where the original may be merged into meanwhile: a copy of
 * the application's cache or, without one, of the layer's. Ending the copy merges it back; VK_NULL_HANDLE where the
 * driver refuses. */
VkPipelineCache cells_copy(Device *device, AppCache *app_cache);
void cells_copy_end(Device *device, VkPipelineCache copy, AppCache *app_cache);
int64_t cells_read_merged(Device *device, uint8_t *data, uint64_t size);
/* Makes caches of at most CELLS_MERGED_AT_ONCE records and merges them; how many the driver took. */
#define CELLS_MERGED_AT_ONCE 8
uint64_t cells_merge_records(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             const uint8_t *digests, uint32_t record_count);

#endif
