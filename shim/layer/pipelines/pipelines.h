/*
 * pipelines.h - how calls of vkCreate*Pipelines go through the layer.
 *
 * create.c            one call without a deferred operation, by the device's mode
 * mode_cells.c     probes a VkPipelineCache and compiles each miss into a cell
 * mode_binaries.c  looks pipelines up by their keys
 * batch.c             what the modes share
 * deferred.c          a call with a deferred operation
 * pass.c              a call that goes to the driver as the application made it
 * creations.c         tells policy about created pipelines
 */
#ifndef PYLAYER_PIPELINES_H
#define PYLAYER_PIPELINES_H

#include "crash/crash.h"
#include "device/device.h"

/* ---- one call ---------------------------------------------------------------------------------- */

/* Passes a call with a deferred operation to the driver unchanged. For a probe, pipelines that no cache has become
 * VK_NULL_HANDLE, and the result is VK_PIPELINE_COMPILE_REQUIRED. */
VkResult pipelines_create(const PipelineCall *call);
/* Returns true if the application may ask the driver's internal cache for the binaries of what this call creates. */
bool needs_internal_cache(const PipelineCall *call);
/* Implements vkCreateRayTracingPipelinesKHR with a deferred operation, on a device with a mode. */
VkResult deferred_create(const PipelineCall *call);

/* ---- calls that pass ---------------------------------------------------------------------------- */

/* One command's use of the application's cache. */
typedef struct PassedUse {
    AppCache *app_cache;   /* NULL: the layer never merges into the cache that the driver gets */
    VkPipelineCache cache; /* the cache that the driver gets */
    Mark mark;
    uint64_t began_ns;
} PassedUse;

/* These enclose the call to the driver. deferred: the driver may use the cache until an end that the layer does not
 * see. blocked: a process died while it created one of these pipelines, so the driver gets no cache. */
PassedUse pass_begin(Device *device, VkPipelineCache cache, uint32_t pipeline_count, bool deferred, bool blocked);
void pass_end(const PassedUse *use);
/* Calls vkCreate*Pipelines as the application did. For a probe, returns VK_PIPELINE_COMPILE_REQUIRED instead. */
VkResult pass_pipelines(const PipelineCall *call);

/* ---- calls that a mode handles --------------------------------------------------------------- */

typedef struct Batch {
    PipelineCall *call;
    AppCache *app_cache; /* NULL: the application passed no cache, or one the layer does not know */
    Element *elements;
    VkPipelineBinaryInfoKHR binaries; /* for CREATE_FROM_BINARIES */
} Batch;

/* Each creates one of the call's pipelines: with VkPipelineCaches, the application's and the layer's, or by its key. */
VkResult mode_cells_create(Batch *batch, uint32_t index);
VkResult mode_binaries_create(Batch *batch, uint32_t index);

/* What a call to the driver is for. */
enum Purpose {
    CREATE_AS_ASKED,
    CREATE_IN_CELL,  /* the cache is a new cell */
    CREATE_BY_PROBE, /* with FAIL_ON_PIPELINE_COMPILE_REQUIRED */
    CREATE_FROM_BINARIES,
    CREATE_AND_CAPTURE,
};
/* Creates one element of the batch in a call of its own. From CREATE_BY_PROBE on, a success without a pipeline becomes
 * VK_INCOMPLETE. duration_ns may be NULL. */
VkResult batch_create_one(Batch *batch, uint32_t index, VkPipelineCache cache, enum Purpose purpose,
                          uint64_t *duration_ns);
/* Creates all elements in one call, as the application asked. */
VkResult batch_create_together(Batch *batch, uint64_t *duration_ns);
/* Counts a pipeline that was created for the application. Those of deferred operations are counted in deferred.c, those
 * of calls that pass in pass.c. */
void batch_note_created(const Batch *batch, uint32_t index);
/* The same for a pipeline that no mode handled. Returns true if the driver's feedback does not call it a hit. */
bool batch_note_plain(const Batch *batch, uint32_t index, uint64_t duration_ns);
/* The same for one that was found. */
void batch_note_hit(const Batch *batch, uint32_t index, uint64_t duration_ns);
/* Describes a pipeline that was just created. A PylayerCell is large: below the driver's frames it may be too much for
 * a small stack. */
void batch_about_cell(const Batch *batch, uint32_t index, uint64_t create_ns, PylayerCell *about);

/* ---- what policy is told ------------------------------------------------------------------------ */

/* Describes a pipeline whose creation has just ended: fills in all but unit, flags, outcome and data. */
void creation_describe(PylayerCell *about, const PipelineCall *call, uint32_t index, const Element *element,
                       uint64_t create_ns);
/* Tells policy about a creation that left nothing to keep, if the plan asks for that. pipelines: how many pipelines
 * create_ns covers. */
void creation_tell(const Batch *batch, uint32_t index, enum PylayerOutcome outcome, uint64_t create_ns,
                   uint32_t pipelines);
/* Tells policy about a call that was passed to the driver unchanged. */
void creation_tell_passed(const PipelineCall *call, VkResult result, uint64_t create_ns);

#endif
