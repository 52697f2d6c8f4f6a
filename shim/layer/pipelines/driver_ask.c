/*
 * driver_ask.c - see driver_ask.h
 *
 * An answer costs as much as the driver's own cache does without the layer: on RADV 0.05 ms if it has the pipeline, and
 * 0.3 if it does not. The store takes 0.002. So a run asks once, and only if the store has many pipelines. It asks before
 * anything is read: Mesa puts what it is given into its own cache, with threads that lock it. A search after 512 pipelines
 * waited for these: 0.3 to 19 ms, in half of the runs more than 2 (2 cores).
 */
#include "device/device.h"
#include "pipelines/driver_ask.h"

#include <string.h>

#include "process/process.h"
#include "caches/stored.h"

/* Returns true if the store has a pipeline that this run has neither created nor read. */
static bool is_unread(Device *device, const Element *element)
{
    return element->fingerprint && element->kind <= PYLAYER_KIND_GRAPHICS &&
           !(fingerprint_known(&device->run.seen, element->fingerprint) &
             (SEEN_CREATED | SEEN_MERGED | SEEN_FETCHED | SEEN_ALONE)) &&
           stored_has(&device->caches, element->fingerprint);
}

/* Returns true if the user has switched off the driver's own cache, which then cannot lose anything. */
static bool is_switched_off(void)
{
    const char *mesa = environment_get("MESA_SHADER_CACHE_DISABLE"),
               *nvidia = environment_get("__GL_SHADER_DISK_CACHE");
    return (mesa && *mesa && !strchr("0fFnN", *mesa)) || (nvidia && *nvidia == '0');
}

/* The pipeline itself comes from the store, as all others do. Not inlined: the feedback is not on the stack of other
 * creations. */
NOT_INLINED static void ask(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    SavedFeedback saved;
    VkPipeline found = VK_NULL_HANDLE;
    if (!feedback_save(&saved, &batch->elements[index]))
        return;
    VkResult result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_BY_PROBE, &found, NULL);
    feedback_restore(&saved, &batch->elements[index]);
    batch->probed = PROBED_NOT;
    if (found != VK_NULL_HANDLE)
        device->driver.destroy_pipeline(device->driver.handle, found, batch->call->allocator);
    count(&totals->driver_asked, 1);
    count(&totals->driver_lacked, result == VK_PIPELINE_COMPILE_REQUIRED_EXT);
}

void driver_ask(Batch *batch, uint32_t index)
{
    Device *device = batch->call->device;
    if (!atomic_load_explicit(&device->store.may_ask, memory_order_relaxed) || device->binaries.driver_cache_off)
        return;
    if (is_unread(device, &batch->elements[index]) && atomic_exchange(&device->store.may_ask, false) &&
        !atomic_load(&device->crash.holds_stored) && !is_switched_off())
        ask(batch, index);
}
