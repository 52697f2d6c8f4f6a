/* cells.h - the layer's merged VkPipelineCache and the cells that go into it */
#ifndef PYLAYER_CELLS_H
#define PYLAYER_CELLS_H

#include "caches/pipeline_cache.h"
#include "vulkan/create_info.h"

bool cells_open(Caches *caches);
void cells_close(Caches *caches);
/* Returns an empty cache to create this pipeline in; VK_NULL_HANDLE if the driver refuses. one_thread: see
 * driver_cache_create. */
VkPipelineCache cell_create(Caches *caches, const Element *element, bool one_thread);
/* Reads the cell, merges it into the layer's cache and, if given, the application's, and destroys it. Fills in the rest
 * of `about` and sends it to policy. The cell must hold no more than what creating one pipeline added. Returns false if the
 * driver put nothing into it, or would find nothing in it. */
bool cell_finish(Caches *caches, VkPipelineCache cell, AppCache *app_cache, PylayerCell *about);
/* Returns true of a fast-linked pipeline, once it is finished, that left nothing: its libraries have all that it needs. */
bool cell_is_of_a_link(const PylayerCell *about);
/* Merges the layer's cache into an application's cache that lacks pipelines which the layer has. */
void cells_seed(Caches *caches, AppCache *app_cache);
/* Returns true if the driver got this record from the store, where the layer reads it itself. */
bool cells_given(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* Merges at most CELLS_MERGED_AT_ONCE records into an application's cache. Returns false if the driver refuses one. */
#define CELLS_MERGED_AT_ONCE 8
bool cells_give(Caches *caches, AppCache *app_cache, const uint8_t *base, const uint64_t *offsets,
                const uint64_t *sizes, const uint8_t *digests, uint32_t record_count);
/* Makes caches of at most CELLS_MERGED_AT_ONCE records and merges them. Returns how many the driver accepted. */
uint64_t cells_merge_records(Caches *caches, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             const uint8_t *digests, uint32_t record_count);

#endif
