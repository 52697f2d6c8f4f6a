/* base.h - what every file of the layer uses */
#ifndef PYLAYER_BASE_H
#define PYLAYER_BASE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "../boundary.h"
#include "process/digest.h"
#include "process/log.h"
#include "vulkan/vk_compat.h"

#define LAYER_NAME "VK_LAYER_PYLAYER_pipeline_cache"

/* For functions whose variables would be too much on the stack of the function that calls them. */
#define NOT_INLINED __attribute__((noinline))

typedef struct Instance Instance;
typedef struct Device Device;

/* ---- time: CLOCK_MONOTONIC, nanoseconds ---- */

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline struct timespec deadline_at(uint64_t time_ns)
{
    return (struct timespec){.tv_sec = (time_t)(time_ns / 1000000000ull), .tv_nsec = (long)(time_ns % 1000000000ull)};
}

/* ---- counters ---- */

static inline void count(uint64_t *counter, uint64_t amount)
{
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

#endif
