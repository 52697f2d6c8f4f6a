/* deferred_operations.h - a device's list of deferred operations, which pipelines/deferred.c keeps */
#ifndef PYLAYER_DEFERRED_OPERATIONS_H
#define PYLAYER_DEFERRED_OPERATIONS_H

#include "base.h"

/* Deferred operations that create pipelines and are not complete yet. */
typedef struct DeferredOperations {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* signalled when an operation was removed */
    struct DeferredOperation *pending;
    atomic_uint pending_count; /* if 0, no thread needs the mutex */
    uint64_t last_serial;
} DeferredOperations;

#endif
