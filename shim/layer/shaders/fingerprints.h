/* fingerprints.h - hashes what a pipeline is made of into one number */
#ifndef PYLAYER_FINGERPRINTS_H
#define PYLAYER_FINGERPRINTS_H

#include "shaders/shaders.h"
#include "vulkan/create_info.h"

/* Returns PylayerCell::fingerprint, the same number in every process; 0 if something the pipeline is made of is
 * unknown. */
uint64_t fingerprint_of(Shaders *shaders, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind);
/* Tells the fingerprint of a pipeline library, of which those of pipelines linked from it are made. Handles are used
 * again, so an unknown fingerprint, 0, must be told too. */
void fingerprint_note_library(Shaders *shaders, VkPipeline library, uint64_t fingerprint);

#endif
