/* create.h - vkCreate*Pipelines without a deferred operation, by the device's carrier */
#ifndef PYLAYER_CREATE_H
#define PYLAYER_CREATE_H

#include "vulkan/create_info.h"

/* Passes a call with a deferred operation to the driver unchanged. With CREATE_FOUND, pipelines that no cache has become
 * VK_NULL_HANDLE, and the result is VK_PIPELINE_COMPILE_REQUIRED. */
VkResult pipelines_create(const PipelineCall *call);
/* Returns true if the application may ask the driver's internal cache for the binaries of what this call creates. */
bool needs_internal_cache(const PipelineCall *call);

#endif
