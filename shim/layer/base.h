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
#include "vk_compat.h"

#define LAYER_NAME "VK_LAYER_PYLAYER_pipeline_cache"

typedef struct Instance Instance;
typedef struct Device Device;

/* ---- log.c ---- */

void log_line(enum PylayerLogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(enum PylayerLogLevel level);
/* By a layer setting, by its name or "off"; PYLAYER_LOG goes before. */
void log_set_level(const char *name);

/* ---- digest.c ---- */

/* XXH3-64. A seed makes equal bytes of different meaning different, and chains pieces. */
uint64_t digest64(const void *data, size_t size, uint64_t seed);
/* XXH3-128 in canonical bytes, as Python's xxhash.xxh3_128_digest gives it. */
void digest128(const void *data, size_t size, uint8_t digest[PYLAYER_DIGEST_BYTES]);

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
