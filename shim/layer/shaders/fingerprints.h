/* fingerprints.h - hashes what a pipeline is made of into one number */
#ifndef PYLAYER_FINGERPRINTS_H
#define PYLAYER_FINGERPRINTS_H

#include "vulkan/create_info.h"

/* Returns PylayerCell::fingerprint, the same number in every process; 0 if something the pipeline is made of is
 * unknown. */
uint64_t fingerprint_of(const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind);

#endif
