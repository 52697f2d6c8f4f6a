/* creations.h - tells policy about created pipelines */
#ifndef PYLAYER_CREATIONS_H
#define PYLAYER_CREATIONS_H

#include "vulkan/create_info.h"

struct Batch;

/* Describes a pipeline whose creation has just ended: fills in all but unit, flags, outcome and data. */
void creation_describe(PylayerCell *about, const PipelineCall *call, uint32_t index, const Element *element,
                       uint64_t create_ns);

/* Tells policy about a creation that left nothing to keep, if the plan asks for that. pipelines: how many pipelines
 * create_ns covers. */
void creation_tell(const struct Batch *batch, uint32_t index, enum PylayerOutcome outcome, uint64_t create_ns,
                   uint32_t pipelines);
/* Tells policy about a hit that was slow. */
void creation_tell_hit(const struct Batch *batch, uint32_t index, uint64_t create_ns);
/* Tells policy about a call without a probe, if it compiled: by batch_note_plain's count or, without creation feedback,
 * by its duration. */
void creation_tell_plain(struct Batch *batch, uint64_t create_ns);
/* Tells policy about a call that was passed to the driver unchanged. */
void creation_tell_passed(const PipelineCall *call, VkResult result, uint64_t create_ns);

#endif
