/*
 * batch.h - one call of vkCreate*Pipelines on its way through a carrier, and what the carriers share.
 *
 * carrier_cells.c     probes a VkPipelineCache and compiles each miss into a cell
 * carrier_binaries.c  looks pipelines up by their keys
 * carrier_snapshot.c  creates with a VkPipelineCache, without a probe
 * carrier_observe.c   passes the call and counts
 */
#ifndef PYLAYER_BATCH_H
#define PYLAYER_BATCH_H

#include "caches/pipeline_cache.h"
#include "pipelines/creations.h"

/* What the driver answered to probes of one element. Only VK_PIPELINE_COMPILE_REQUIRED says that a cache lacks it. */
enum Probed {
    PROBED_NOT,
    PROBED_ABSENT,
    PROBED_UNCLEAR, /* another result, or a probe that could not be made */
};

typedef struct Batch {
    PipelineCall *call;
    AppCache *app_cache; /* NULL: the application passed no cache, or one the layer does not know */
    Element *elements;
    char *infos; /* changed copies of the create infos, in the call's own layout */
    VkResult result;
    uint64_t given_before; /* Caches::last_given when the last probe of the layer's cache began; 0: without one */
    bool suspects;         /* Element::suspect of any element */
    bool after_load;       /* the probe searched everything that the store holds */
    enum Probed probed;    /* what the probes of this element said */
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
    CREATE_TO_ADOPT, /* both */
};
/* Creates one element of the batch in a call of its own. duration_ns may be NULL. */
VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, enum Purpose purpose,
                          VkPipeline *pipeline, uint64_t *duration_ns);
/* Creates all elements in one call, as the application asked, with this cache. */
VkResult batch_create_together(Batch *batch, VkPipelineCache cache, uint64_t *duration_ns);
/* Where a pipeline may be. */
typedef struct Fetch {
    bool may_be_merged; /* false: the layer's cache probably lacks it */
    VkPipelineCache
        alone; /* a cache of the stored cell, to be probed instead (Plan.cells_alone); batch_probe destroys it */
} Fetch;
/* Has the layer's cache hold what the store has of the pipeline. may_be_alone: a cache of the cell alone will do. */
Fetch batch_fetch(Batch *batch, uint32_t index, bool may_be_alone);
/* Looks for a fetched pipeline in the driver's own cache and in the layer's, and says in which: VK_NULL_HANDLE is the
 * driver's. With cells_alone, if the layer's probably lacks it, the driver's own is searched alone first: NVIDIA's
 * driver needs 0.14 ms for a pipeline in its disk cache, and 1.2 ms more if it gets a VkPipelineCache that lacks the
 * pipeline (H100). */
VkResult batch_probe(Batch *batch, uint32_t index, Fetch fetch, VkPipelineCache *probed, uint64_t *duration_ns);
/* Creates, one by one, the pipelines that do not exist yet. */
typedef VkResult (*CreateFn)(Batch *batch, uint32_t index);
void batch_create_each(Batch *batch, CreateFn create);
/* Counts a pipeline that was created for the application. Those of deferred operations are counted in deferred.c, those
 * of calls that pass in pass.c. */
void batch_note_created(const Batch *batch, uint32_t index);
/* The same for a pipeline created with a cache and without a probe. from_layer: the cache was the layer's. */
void batch_note_plain(Batch *batch, uint32_t index, bool from_layer, uint64_t duration_ns);
/* Describes a pipeline that was just created. A PylayerCell is large: below the driver's frames it may be too much for a
 * small stack. */
void batch_about_cell(const Batch *batch, uint32_t index, uint8_t flags, uint64_t create_ns, PylayerCell *about);

#endif
