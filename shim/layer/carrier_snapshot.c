/*
 * carrier_snapshot.c - the application's call as it made it, with the layer's cache where it passed none: for devices
 * without pipelineCreationCacheControl, where a miss cannot be seen.
 */
#include <string.h>

#include "batch.h"

VkResult carrier_snapshot_create(Batch *batch)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    bool from_layer = call->cache == VK_NULL_HANDLE;
    if (batch->suspects)
        return pipelines_pass_through(call);
    if (from_layer)
        loading_wait(device);
    else if (batch->app_cache && device->plan.seed_caches && !loading_is_under_way(device))
        cells_seed(device, batch->app_cache); /* when more was loaded since; not between the slices of a load */
    size_t stride = create_info_size(call->point);
    bool may_compile = false;
    for (uint32_t i = 0; i < call->count; i++) {
        may_compile |= !(batch->elements[i].flags & FAIL_ON_COMPILE);
        AnyCreateInfo changed;
        element_prepare(&batch->elements[i], call, i, 0, 0, &changed);
        memcpy(batch->infos + i * stride, &changed, stride);
        call->pipelines[i] = VK_NULL_HANDLE;
    }
    uint64_t duration = 0;
    VkResult result = batch_call(batch, from_layer ? device->merged : call->cache, may_compile, 0, call->count,
                                 batch->infos, call->pipelines, &duration);
    for (uint32_t i = 0; i < call->count; i++) {
        if (call->pipelines[i] != VK_NULL_HANDLE)
            batch_note_plain(batch, i, from_layer, i == 0 ? duration : 0);
        element_release(&batch->elements[i]);
    }
    return result;
}
