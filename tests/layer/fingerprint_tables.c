/*
 * shim/layer/run/seen.c, shader_modules.c and the spread lock by themselves, with more in them than a program brings
 * along: prints one JSON object, and ends with 1 where a module was confused with another, or a lock was kept.
 */
#define _GNU_SOURCE
#include "../../shim/layer/vulkan/create_info.c"
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/hooks/shaders.c"
#include "../../shim/layer/shaders/fingerprints.c"
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/vulkan/pnext.c"
#include "../../shim/layer/vulkan/pipeline_facts.c"
#include "../../shim/layer/vulkan/walk.c"
#include "../../shim/layer/run/seen.c"
#include "../../shim/layer/shaders/shaders.c"
#include "../../shim/layer/run/run.c"
#include "../../shim/layer/state/image.c"
#include "../../shim/layer/state/state.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <stdio.h>

DispatchTable device_table;
static Device device;

static uint64_t dropped(void)
{
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < THREAD_SLOTS; slot++)
        sum += device.run.counters[slot].totals.fingerprints_dropped;
    return sum;
}

#include "alone.h"

/* ---- fingerprints seen: four threads, each with those of the next one too ------------------------- */

#define THREADS 4
static uint64_t per_thread;

static void *note_some(void *argument)
{
    uint64_t first = (uint64_t)(uintptr_t)argument * per_thread;
    for (uint64_t i = first; i < first + 2 * per_thread; i++) {
        uint64_t number = i % (THREADS * per_thread);
        note_created(&device.run, digest64(&number, sizeof number, 1), 0);
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How many were kept; 0 where one is there twice. */
static uint64_t note_from_threads(uint64_t each)
{
    pthread_t threads[THREADS];
    per_thread = each;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, note_some, (void *)i))
            return 0;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t kept = fingerprints_read(&device.run.seen, NULL, 0);
    uint64_t *all = malloc(kept * sizeof *all);
    if (!all || fingerprints_read(&device.run.seen, all, kept) != kept)
        return 0;
    qsort(all, kept, sizeof *all, compare);
    for (uint64_t i = 1; i < kept; i++)
        if (all[i] == all[i - 1])
            kept = 0;
    free(all);
    return kept;
}

/* ---- shader modules: handles that come and go, and come again with other code -------------------- */

#define HANDLES 3000
static uint64_t next_handle;

static VkResult driver_creates(VkDevice handle, const VkShaderModuleCreateInfo *info,
                               const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    (void)handle;
    (void)info;
    (void)allocator;
    *module = (VkShaderModule)(uintptr_t)next_handle;
    return VK_SUCCESS;
}

static void driver_destroys(VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator)
{
    (void)handle;
    (void)module;
    (void)allocator;
}

static uint64_t expected_code(uint32_t code)
{
    return code ? digest64(&code, sizeof code, 0) : 0;
}

static bool modules_are_told_apart(void)
{
    static uint32_t codes[HANDLES]; /* 0: no such module now */
    void *key = NULL;
    VkDevice handle = (VkDevice)(void *)&key;
    uint64_t random = 1;
    for (uint32_t step = 1; step < 200000; step++) {
        random = digest64(&random, sizeof random, step);
        unsigned chosen = random % HANDLES;
        /* As addresses are: multiples of what an object takes. */
        next_handle = 0x7f0000000000ull + chosen * 192ull;
        VkShaderModule module = (VkShaderModule)(uintptr_t)next_handle;
        if (codes[chosen]) {
            layer_DestroyShaderModule(handle, module, NULL);
            codes[chosen] = 0;
        } else {
            VkShaderModuleCreateInfo info = {.codeSize = sizeof step, .pCode = &step};
            layer_CreateShaderModule(handle, &info, NULL, &module);
            codes[chosen] = step;
        }
        unsigned other = (random >> 32) % HANDLES;
        if (shared_map_find(&device.shaders.modules, next_handle) != expected_code(codes[chosen]) ||
            shared_map_find(&device.shaders.modules, 0x7f0000000000ull + other * 192ull) != expected_code(codes[other]))
            return false;
    }
    return true;
}

/* ---- a thread that was cancelled waits for a reader ----------------------------------------------- */

static void *write_cancelled(void *lock)
{
    pthread_cancel(pthread_self());
    spread_try_write(lock);
    return NULL;
}

/* Returns false if it kept the lock. */
static bool cancelled_writer_unlocks(void)
{
    static SpreadLock lock;
    pthread_t writer;
    spread_lock_init(&lock);
    if (!spread_lock_read(&lock, false) || pthread_create(&writer, NULL, write_cancelled, &lock))
        return false;
    pthread_join(writer, NULL);
    spread_unlock_read(&lock, false);
    return pthread_mutex_trylock(&lock.writer.mutex) == 0;
}

int main(void)
{
    run_open(&device.run, 1);
    shaders_open(&device.shaders, &device.driver, &device.run, &device.crash);
    device.run.carrier = PYLAYER_CARRIER_CELLS;
    device.driver.create_shader_module = driver_creates;
    device.driver.destroy_shader_module = driver_destroys;
    bool good = modules_are_told_apart() && cancelled_writer_unlocks();
    uint64_t few = note_from_threads(1000);
    uint64_t none_dropped = dropped();
    uint64_t many = note_from_threads(50000);
    uint64_t few_dropped = dropped();
    uint64_t most = note_from_threads(500000);
    printf("{\"kept\": [%llu, %llu, %llu], \"dropped\": [%llu, %llu, %llu]}\n", (unsigned long long)few,
           (unsigned long long)many, (unsigned long long)most, (unsigned long long)none_dropped,
           (unsigned long long)few_dropped, (unsigned long long)dropped());
    run_close(&device.run);
    shaders_close(&device.shaders);
    return !good;
}
