/* deferred.h - ray tracing pipelines in deferred operations */
#ifndef PYLAYER_DEFERRED_H
#define PYLAYER_DEFERRED_H

#include "device/deferred_operations.h"

struct PipelineCall;

/* Implements vkCreateRayTracingPipelinesKHR with a deferred operation, on a device with a carrier. */
VkResult deferred_create(const struct PipelineCall *call);
void deferred_open(DeferredOperations *all);
void deferred_close(DeferredOperations *all);

#endif
