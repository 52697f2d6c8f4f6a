/* base.h - what every file above process/ uses */
#ifndef PYLAYER_BASE_H
#define PYLAYER_BASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "../boundary.h"
#include "process/clock.h"
#include "process/digest.h"
#include "process/log.h"
#include "vulkan/vk_compat.h"

#define LAYER_NAME "VK_LAYER_PYLAYER_pipeline_cache"

/* For functions whose variables would be too much on the stack of the function that calls them. */
#define NOT_INLINED __attribute__((noinline))

static inline void count(uint64_t *counter, uint64_t amount)
{
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

#endif
