/* creations.h - what policy is told of pipelines that were created */
#ifndef PYLAYER_CREATIONS_H
#define PYLAYER_CREATIONS_H

#include "vulkan/create_info.h"

struct Batch;

/* Fills in what is known of a pipeline whose creation has just ended: all but unit, flags, outcome and data. */
void creation_describe(PylayerCell *about, const PipelineCall *call, uint32_t index, const Element *element,
                       uint64_t create_ns);

/* One that left nothing to keep; nothing is told unless the plan asks for it. pipelines: so many that create_ns covers. */
void creation_tell(const struct Batch *batch, uint32_t index, enum PylayerOutcome outcome, uint64_t create_ns,
                   uint32_t pipelines);
void creation_tell_about(Device *device, PylayerCell about, enum PylayerOutcome outcome);
/* A hit, if it was slow. */
void creation_tell_hit(const struct Batch *batch, uint32_t index, uint64_t create_ns);
/* A call without a probe, as far as batch_note_plain found that something was compiled. */
void creation_tell_plain(struct Batch *batch, uint64_t create_ns);
/* A call that went to the driver as it is. */
void creation_tell_passed(const PipelineCall *call, VkResult result, uint64_t create_ns);
/* A thread that wanted to create a pipeline and waited for the store. */
void creation_tell_wait(Device *device, uint64_t waited_ns);

#endif
