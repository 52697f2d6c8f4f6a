/*
 * binaries.h - the binaries carrier's part in creating one pipeline: from binaries that the device's index has, and
 * what keeps those of a pipeline that it lacked.
 */
#ifndef PYLAYER_BINARIES_H
#define PYLAYER_BINARIES_H

#include "vulkan/create_info.h"

/* Asks the driver for the pipeline's key. False: this one is not to be made from binaries, nor its binaries read. */
bool binaries_key(PipelineCall *call, uint32_t index, Element *element, VkPipelineBinaryKeyKHR *key);

/*
 * Creates the pipeline from what the index has under the key. True: *result is the call's; false: the index has
 * nothing, or what it had was of no use and is evicted. An entry without binaries, of a pipeline that has none, is
 * created as the application asked.
 */
bool binaries_create(PipelineCall *call, uint32_t index, Element *element, const VkPipelineBinaryKeyKHR *key,
                     VkPipeline *pipeline, VkResult *result, uint64_t *duration_ns);

/* Of a pipeline that was just created without a VkPipelineCache: asks the driver's internal cache for its binaries.
 * False: it does not have them. */
bool binaries_keep(PipelineCall *call, uint32_t index, Element *element, const VkPipelineBinaryKeyKHR *key,
                   PylayerCell about);

/* Whether the driver's internal cache is known not to give binaries of this kind, so that compiling captures. */
bool binaries_want_capture(const Device *device, const Element *element);

/* Of a pipeline that the application created with CAPTURE_DATA. */
void binaries_keep_captured(PipelineCall *call, uint32_t index, Element *element, PylayerCell about);

/* Creates the pipeline with CAPTURE_DATA, and keeps its binaries. False: it was not created that way. */
bool binaries_capture(PipelineCall *call, uint32_t index, Element *element, const VkPipelineBinaryKeyKHR *key,
                      PylayerCell about, VkPipeline *pipeline, uint64_t *duration_ns);

#endif
