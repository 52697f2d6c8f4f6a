/* create.h - vkCreate*Pipelines without a deferred operation: what the device's carrier makes of the call */
#ifndef PYLAYER_CREATE_H
#define PYLAYER_CREATE_H

#include "vulkan/create_info.h"

/* A call with a deferred operation goes to the driver as it is. */
VkResult pipelines_create(const PipelineCall *call);
/* Without compiling: leaves VK_NULL_HANDLE, and returns VK_PIPELINE_COMPILE_REQUIRED, where something is missing. */
VkResult pipelines_probe(const PipelineCall *call, bool *after_load);

#endif
