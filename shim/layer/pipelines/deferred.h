/* deferred.h - ray tracing pipelines in deferred operations */
#ifndef PYLAYER_DEFERRED_H
#define PYLAYER_DEFERRED_H

#include "base.h"

struct PipelineCall;

/* Deferred operations that create pipelines and are not complete yet. */
typedef struct DeferredOperations {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* signalled when an operation was removed */
    struct DeferredOperation *pending;
    atomic_uint pending_count; /* if 0, no thread needs the mutex */
    uint64_t last_serial;
} DeferredOperations;

/* Implements vkCreateRayTracingPipelinesKHR with a deferred operation, on a device with a carrier. */
VkResult deferred_create(const struct PipelineCall *call);
void deferred_open(Device *device);
void deferred_close(Device *device);

#endif
