/* pass.c - see pipelines.h */
#include "frames/frames.h"
#include "pipelines/pipelines.h"
#include "process/process.h"

PassedUse pass_begin(Device *device, VkPipelineCache cache, uint32_t pipeline_count, bool deferred, bool blocked)
{
    /* The child of a fork shares its parent's counters, and no lock may be taken there. */
    bool forked = process_is_forked_child();
    if (!forked)
        count(&counters_of(&device->run)->totals.passed, pipeline_count);
    /* The layer may merge into this cache for other calls, so the use is counted. */
    AppCache *app_cache = forked ? NULL : app_cache_find(&device->caches, cache);
    /* The driver gets no cache if its stored data would reach a blocked pipeline, or if a merge into it hangs. */
    if (app_cache && (blocked || !spread_lock_read(&app_cache->lock, true))) {
        app_cache = NULL;
        cache = VK_NULL_HANDLE;
    }
    if (app_cache && deferred)
        atomic_fetch_add(&app_cache->deferred_uses, 1);
    return (PassedUse){app_cache, cache,
                       mark_pipelines(&device->crash, NULL, 1, app_cache_data_id(app_cache), false, true),
                       frames_begin_pipelines()};
}

void pass_end(const PassedUse *use)
{
    mark_end(use->mark);
    frames_end_pipelines(use->began_ns);
    if (use->app_cache)
        spread_unlock_read(&use->app_cache->lock, true);
}

/* Returns true if a process died while it created one of the call's pipelines (Element::blocked). */
static bool has_blocked(const PipelineCall *call)
{
    if (!blocks_something(&call->device->crash))
        return false;
    for (uint32_t i = 0; i < call->count; i++) {
        Element element;
        element_read(&element, call, i);
        if (blocks_pipeline(&call->device->crash, fingerprint_of(&call->device->shaders, call, i, element.kind),
                            element.kind))
            return true;
    }
    return false;
}

/* Returns true if the driver has done all work of a deferred call when it returns, as most drivers have. */
static bool is_done(const PipelineCall *call, VkResult result)
{
    const Driver *driver = call->driver;
    return result != VK_OPERATION_DEFERRED_KHR ||
           (driver->get_deferred_operation_result &&
            driver->get_deferred_operation_result(driver->handle, call->deferred) != VK_NOT_READY);
}

VkResult pass_pipelines(const PipelineCall *call)
{
    if (call->probe)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    Device *device = call->device;
    bool forked = process_is_forked_child();
    bool told = device->run.plan.tell_creations && !forked;
    PassedUse use = pass_begin(device, call->cache, call->count, call->deferred != VK_NULL_HANDLE,
                               call->cache != VK_NULL_HANDLE && !forked && has_blocked(call));
    uint64_t start = told ? now_ns() : 0;
    VkResult result = call_driver(call, use.cache, call->count, call->infos, call->pipelines);
    uint64_t duration = told ? now_ns() - start : 0;
    pass_end(&use);
    if (use.app_cache && call->deferred != VK_NULL_HANDLE && is_done(call, result))
        atomic_fetch_sub(&use.app_cache->deferred_uses, 1);
    creation_tell_passed(call, result, duration);
    return result;
}
