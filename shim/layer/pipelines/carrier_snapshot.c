/*
 * carrier_snapshot.c - passes the application's call, with the layer's cache if the application passed none. For
 * devices without pipelineCreationCacheControl, where a miss cannot be detected.
 */
#include "device/device.h"
#include "caches/cells.h"
#include "pipelines/carrier_snapshot.h"

/* Creates without any cache: stored data is in the layer's cache, and may be in the application's. */
static VkResult create_again(Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    uint64_t duration = 0;
    VkResult result =
        batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_AS_ASKED, &call->pipelines[index], &duration);
    if (result == VK_SUCCESS) {
        batch_note_plain(batch, index, false, duration);
        creation_tell_plain(batch, duration);
    }
    return result;
}

/* For a call with a suspect. Not with the application's cache either: earlier calls had stored data merged into it. */
static VkResult create_without_caches(Batch *batch)
{
    PipelineCall *call = batch->call;
    if (call->probe_after_load)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    for (uint32_t i = 0; i < call->count; i++)
        call->pipelines[i] = VK_NULL_HANDLE;
    batch_create_each(batch, create_again);
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return batch->result;
}

/* Returns true if a creation failed and the cache may be the cause. */
static bool is_worth_another_try(const PipelineCall *call, VkResult result)
{
    if (result == VK_ERROR_DEVICE_LOST || result == VK_PIPELINE_COMPILE_REQUIRED_EXT)
        return false;
    for (uint32_t i = 0; i < call->count; i++)
        if (call->pipelines[i] == VK_NULL_HANDLE)
            return true;
    return false;
}

VkResult carrier_snapshot_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    bool from_layer = call->cache == VK_NULL_HANDLE;
    if (from_layer)
        batch_wait_for_load(batch);
    else
        batch_find_suspects(batch);
    if (batch->suspects)
        return create_without_caches(batch);
    if (batch->app_cache && !loading_is_under_way(&device->caches))
        cells_seed(&device->caches, batch->app_cache); /* not in a load: each 8 records would cause a merge */
    uint64_t duration = 0;
    VkResult result = batch_create_together(batch, from_layer ? device->caches.merged : call->cache, &duration);
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            batch_note_plain(batch, i, from_layer, i == 0 ? duration : 0);
    }
    creation_tell_plain(batch, duration);
    if (is_worth_another_try(call, result)) {
        batch_create_each(batch, create_again);
        result = batch->result;
    }
    for (uint32_t i = 0; i < call->count; i++)
        element_release(&batch->elements[i]);
    return result;
}
