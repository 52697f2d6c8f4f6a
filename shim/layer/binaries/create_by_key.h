/*
 * create_by_key.h - what the binaries carrier does for one pipeline: it creates the pipeline from binaries in the device's
 * index, or keeps the binaries of a pipeline that the index lacked.
 */
#ifndef PYLAYER_CREATE_BY_KEY_H
#define PYLAYER_CREATE_BY_KEY_H

#include "binaries/binaries.h"
#include "vulkan/create_info.h"

/* Asks the driver for the pipeline's key. Returns false if the pipeline must not be created from binaries, nor its
 * binaries read. */
bool binaries_key(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                  VkPipelineBinaryKeyKHR *key);

/*
 * Creates the pipeline from the index's entry for the key. Returns true if *result is the result of the call. Returns
 * false if the index has no entry, or if the driver failed with it; such binaries are evicted. An entry may have no
 * binaries because its pipeline has none: then the pipeline is created as the application asked.
 */
bool binaries_create(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                     const VkPipelineBinaryKeyKHR *key, VkPipeline *pipeline, VkResult *result, uint64_t *duration_ns);

/* Creates the pipeline with CAPTURE_DATA, and keeps its binaries. Returns false if the pipeline was not created. */
bool binaries_capture(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                      const VkPipelineBinaryKeyKHR *key, PylayerCell *about, VkPipeline *pipeline,
                      uint64_t *duration_ns);

#endif
