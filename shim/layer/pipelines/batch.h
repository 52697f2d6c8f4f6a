/*
 * batch.h - one call of vkCreate*Pipelines on its way through a carrier, and what the carriers share.
 *
 * carrier_cells.c     probes a VkPipelineCache and compiles each miss into a cell
 * carrier_binaries.c  looks pipelines up by their keys
 * carrier_observe.c   passes the call and counts
 */
#ifndef PYLAYER_BATCH_H
#define PYLAYER_BATCH_H

#include "caches/pipeline_cache.h"
#include "pipelines/creations.h"

typedef struct Batch {
    PipelineCall *call;
    AppCache *app_cache; /* NULL: the application passed no cache, or one the layer does not know */
    Element *elements;
    char *infos; /* changed copies of the create infos, in the call's own layout */
    VkResult result;
    bool after_load; /* the probe searched everything that the store holds */
    /* Of the pipelines created without a probe: how many were compiled, and the first of them. Telling policy
     * (creation_tell_plain) resets the number. */
    uint32_t plain_compiled, first_compiled;
} Batch;

/* Sets Element::suspect of all elements. */
void batch_find_suspects(Batch *batch);
/* Waits for the store, then finds the suspects, which are not known before. */
void batch_wait_for_load(Batch *batch);
/* What a call to the driver is for. */
enum Purpose {
    CREATE_AS_ASKED,
    CREATE_BY_PROBE, /* with FAIL_ON_PIPELINE_COMPILE_REQUIRED */
    CREATE_IN_CELL,  /* the cache is a new cell */
};
/* Creates one element of the batch in a call of its own. duration_ns may be NULL. */
VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, enum Purpose purpose,
                          VkPipeline *pipeline, uint64_t *duration_ns);
/* Creates all elements in one call, as the application asked, with this cache. */
VkResult batch_create_together(Batch *batch, VkPipelineCache cache, uint64_t *duration_ns);
/* Has the layer's cache hold what the store has of the pipeline. Returns false if that cache probably lacks it. */
bool batch_fetch(Batch *batch, uint32_t index);
/* Creates, one by one, the pipelines that do not exist yet. */
typedef VkResult (*CreateFn)(Batch *batch, uint32_t index);
void batch_create_each(Batch *batch, CreateFn create);
/* Counts a pipeline that was created for the application. Those of deferred operations are counted in deferred.c, those
 * of calls that pass in pass.c. */
void batch_note_created(const Batch *batch, uint32_t index);
/* The same for a pipeline that was created as the application asked. */
void batch_note_plain(Batch *batch, uint32_t index, uint64_t duration_ns);
/* Describes a pipeline that was just created. A PylayerCell is large: below the driver's frames it may be too much for a
 * small stack. */
void batch_about_cell(const Batch *batch, uint32_t index, uint64_t create_ns, PylayerCell *about);

#endif
