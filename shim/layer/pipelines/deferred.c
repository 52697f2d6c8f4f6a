/*
 * deferred.c - vkCreateRayTracingPipelinesKHR with a deferred operation, and the operation's completion.
 *
 * If the caches hold all pipelines of the call, they are created at once. Otherwise the driver defers the call, so that
 * its threads and the application's share the work as they do without the layer. The driver's operation gets create
 * infos that live here until it is complete, and a cell. It cannot use a cache that others merge into, because no lock
 * can be held from one call to the end of another one.
 *
 * A pending operation becomes complete in a vkDeferredOperationJoinKHR, for one of the threads in it, and no sooner
 * (Vulkan, 'Requesting Deferral'). That thread, or one that asks for the result first, keeps what was compiled before
 * the application can know that the operation is complete. Other threads wait for it.
 */
#include <stdlib.h>
#include <string.h>

#include "driver/dispatch.h"
#include "frames/frames.h"
#include "pipelines/pipelines.h"
#include "process/process.h"

typedef struct DeferredOperation {
    struct DeferredOperation *next;
    unsigned
        threads; /* in a command with it: the handle may be reused while a thread still returns from its last join */
    bool ending, ended;
    PipelineCall call; /* the memory it points to is valid until the operation is complete */
    AppCache *app_cache;
    VkPipelineCache cell;
    uint32_t found; /* pipelines that were found, counted, and destroyed, because others were not */
    uint64_t began_ns;
    uint64_t create_ns; /* sum over all threads */
    Element *elements;  /* of the call */
    VkRayTracingPipelineCreateInfoKHR *infos;
} DeferredOperation;

/* Operations that create pipelines and are not complete yet, of all devices. */
static DeferredOperation *pending;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void free_operation(DeferredOperation *operation)
{
    for (uint32_t i = 0; operation->elements && i < operation->call.count; i++)
        element_release(&operation->elements[i]);
    free(operation->infos);
    free(operation->elements);
    free(operation);
}

/* ---- completion ------------------------------------------------------------------------------ */

/* Notes the pipelines that the driver created, and describes the cell that holds what was compiled for them: by the
 * first, and by the others' fingerprints, if all are known and few, because a later run may create any of them by
 * itself. Returns their number. */
static uint32_t note_all(const DeferredOperation *operation, PylayerCell *about)
{
    const PipelineCall *call = &operation->call;
    Device *device = call->device;
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    uint32_t created = 0;
    bool named = true;
    for (uint32_t i = 0; i < call->count; i++) {
        const Element *element = &operation->elements[i];
        if (call->pipelines[i] == VK_NULL_HANDLE) {
            count(element->flags & FAIL_ON_COMPILE ? &totals->compile_required : &totals->failed, 1);
            continue;
        }
        note_created(&device->run, element->fingerprint, 0);
        if (element->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR)
            fingerprint_note_library(&device->shaders, call->pipelines[i], element->fingerprint);
        if (device->state.on)
            state_note_pipeline(&device->state, call, i, element, operation->create_ns / call->count);
        element_clear_application_hit(element);
        named &= element->fingerprint != 0 && created <= PYLAYER_CELL_OTHERS;
        if (created == 0)
            creation_describe(about, call, i, element, operation->create_ns);
        else if (named)
            about->others[created - 1] = element->fingerprint;
        created++;
    }
    about->start_ns = operation->began_ns;
    about->pipelines = call->count;
    if (!named)
        memset(about->others, 0, sizeof about->others);
    return created;
}

/* Called when the driver is done with the operation. */
static void finish(const DeferredOperation *operation)
{
    Device *device = operation->call.device;
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    PylayerCell about = {0};
    uint32_t created = note_all(operation, &about);
    uint32_t compiled = created > operation->found ? created - operation->found : 0;
    count(&totals->pipelines, compiled);
    count(&totals->deferred, created);
    if (created == 0) {
        device->driver.destroy_pipeline_cache(device->driver.handle, operation->cell, NULL);
        return;
    }
    count(&totals->compile_ns, about.create_ns);
    bool kept = cell_finish(&device->caches, operation->cell, operation->app_cache, 0, &about);
    for (uint32_t i = 0; kept && i < operation->call.count; i++)
        if (operation->call.pipelines[i] != VK_NULL_HANDLE)
            fingerprints_note_merged(&device->run.seen, operation->elements[i].fingerprint, 0);
    count(kept ? &totals->compiled : &totals->uncacheable, compiled);
}

static void remove_locked(const DeferredOperation *operation)
{
    DeferredOperation **link = &pending;
    while (*link && *link != operation)
        link = &(*link)->next;
    if (*link)
        *link = operation->next;
}

/* Returns NULL if the layer has no part in this operation. Otherwise the caller calls leave. */
static DeferredOperation *enter(const Device *device, VkDeferredOperationKHR handle)
{
    if (process_is_forked_child())
        return NULL;
    pthread_mutex_lock(&mutex);
    DeferredOperation *found = pending;
    while (found && !(found->call.device == device && found->call.deferred == handle))
        found = found->next;
    if (found)
        found->threads++;
    pthread_mutex_unlock(&mutex);
    return found;
}

/* complete: the driver is done with the operation. This thread or another one has finished it when this returns. */
static void leave(DeferredOperation *operation, uint64_t duration_ns, bool complete)
{
    if (!operation)
        return;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    if (!operation->ending) /* finish reads it without the mutex */
        operation->create_ns += duration_ns;
    if (complete && !operation->ending) {
        operation->ending = true;
        pthread_mutex_unlock(&mutex);
        finish(operation);
        pthread_mutex_lock(&mutex);
        remove_locked(operation);
        operation->ended = true;
        pthread_cond_broadcast(&changed);
    }
    while (complete && !operation->ended)
        pthread_cond_wait(&changed, &mutex);
    bool last = --operation->threads == 0 && operation->ended;
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    if (last)
        free_operation(operation);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* Returns NULL if memory is short, or if a pipeline of the call cannot be kept in a cell. EARLY_RETURN:
 * VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587 forbids it. */
static DeferredOperation *operation_new(const PipelineCall *call)
{
    const AddedCalls *calls = &call->device->crash.added_calls;
    DeferredOperation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return NULL;
    operation->call = *call;
    operation->elements = calloc(call->count, sizeof *operation->elements);
    operation->infos = calloc(call->count, sizeof *operation->infos);
    bool fine = operation->elements && operation->infos;
    for (uint32_t i = 0; fine && i < call->count; i++) {
        Element *element = &operation->elements[i];
        element_read(element, call, i);
        element->fingerprint = fingerprint_of(&call->device->shaders, call, i, element->kind);
        fine = !element_is_untouchable(element) && !(element->flags & EARLY_RETURN) &&
               !call_is_off(calls, PYLAYER_MARK_PROBE, element->kind) &&
               !call_is_off(calls, PYLAYER_MARK_CELL, element->kind) && element_flags_can_change(element, call, i);
    }
    if (fine)
        return operation;
    free_operation(operation);
    return NULL;
}

/*
 * All pipelines exist. 'A deferred operation is created complete with an initial result value of VK_SUCCESS', and that
 * is what the application has to find. Some programs cannot handle VK_OPERATION_NOT_DEFERRED_KHR (RADV never returns
 * it, for Portal with RTX). So it is returned only for an operation whose last use ended with another result.
 */
static VkResult answer_finished(const PipelineCall *call)
{
    Device *device = call->device;
    count(&counters_of(&device->run)->totals.deferred, call->count);
    VkResult result = device->driver.get_deferred_operation_result(device->driver.handle, call->deferred);
    return result == VK_SUCCESS ? VK_OPERATION_DEFERRED_KHR : VK_OPERATION_NOT_DEFERRED_KHR;
}

/* Returns false for a pipeline that is, or may be, made of module identifiers: the driver cannot compile it
 * (VUID-VkPipelineShaderStageModuleIdentifierCreateInfoEXT-pNext-06851,
 * VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855). */
static bool can_compile(const PipelineCall *call, uint32_t index)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    bool can = !pipeline_is_linked(call, info);
    for (uint32_t i = 0; i < info->ray_tracing.stageCount; i++)
        can &= identifier_of_stage(&info->ray_tracing.pStages[i]) == 0;
    return can;
}

/* Returns false, and leaves none created, if not all pipelines were found. Then the driver creates all of them in the
 * operation's cell, which is empty. So those that were found may be compiled there, even with FAIL_ON_COMPILE. */
static bool all_are_found(DeferredOperation *operation)
{
    const PipelineCall *call = &operation->call;
    PipelineCall probe = *call;
    probe.deferred = VK_NULL_HANDLE;
    probe.probe = true;
    if (pipelines_create(&probe) == VK_SUCCESS)
        return true;
    for (uint32_t i = 0; i < call->count; i++) {
        const bool found = call->pipelines[i] != VK_NULL_HANDLE;
        const Change change = {.clear = found && can_compile(call, i) ? FAIL_ON_COMPILE : 0, .feedback = true};
        AnyCreateInfo info;
        if (found)
            call->driver->destroy_pipeline(call->driver->handle, call->pipelines[i], call->allocator);
        call->pipelines[i] = VK_NULL_HANDLE;
        operation->found += found;
        element_build(&operation->elements[i], call, i, change, &info);
        operation->infos[i] = info.ray_tracing;
    }
    return false;
}

static VkResult start(DeferredOperation *operation)
{
    const PipelineCall *call = &operation->call;
    const Driver *driver = call->driver;
    operation->app_cache = app_cache_find(&call->device->caches, call->cache);
    operation->began_ns = now_ns();
    VkResult result = call_driver(call, operation->cell, call->count, operation->infos, call->pipelines);
    operation->create_ns = now_ns() - operation->began_ns;
    frames_end_pipelines(operation->began_ns);
    /* Some drivers return VK_OPERATION_DEFERRED_KHR although all work is done. */
    if (result == VK_OPERATION_DEFERRED_KHR &&
        driver->get_deferred_operation_result(driver->handle, call->deferred) == VK_NOT_READY) {
        pthread_mutex_lock(&mutex);
        operation->next = pending;
        pending = operation;
        pthread_mutex_unlock(&mutex);
        return result;
    }
    finish(operation);
    free_operation(operation);
    return result;
}

VkResult deferred_create(const PipelineCall *call)
{
    Device *device = call->device;
    bool passes = needs_internal_cache(call) || !device->driver.get_deferred_operation_result;
    DeferredOperation *operation = passes ? NULL : operation_new(call);
    if (!operation)
        return pass_pipelines(call);
    if (all_are_found(operation)) {
        free_operation(operation);
        return answer_finished(call);
    }
    operation->cell = cell_create(&device->caches, &operation->elements[0]);
    if (operation->cell == VK_NULL_HANDLE) {
        free_operation(operation);
        return pass_pipelines(call);
    }
    return start(operation);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL layer_DeferredOperationJoinKHR(VkDevice handle, VkDeferredOperationKHR deferred)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    DeferredOperation *operation = enter(device, deferred);
    uint64_t begin = operation ? now_ns() : 0;
    VkResult result = device->driver.deferred_operation_join(handle, deferred);
    leave(operation, operation ? now_ns() - begin : 0, result == VK_SUCCESS);
    frames_end_pipelines(begin);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetDeferredOperationResultKHR(VkDevice handle, VkDeferredOperationKHR deferred)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    DeferredOperation *operation = enter(device, deferred);
    VkResult result = device->driver.get_deferred_operation_result(handle, deferred);
    leave(operation, 0, result != VK_NOT_READY);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDeferredOperationKHR(VkDevice handle, VkDeferredOperationKHR deferred,
                                                             const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    /* A pending one is invalid (VUID-vkDestroyDeferredOperationKHR-operation-03436). The driver may still use the
     * memory, so it is not freed. Neither is that of an operation whose device is destroyed
     * (VUID-vkDestroyDevice-device-05137). */
    DeferredOperation *operation = enter(device, deferred);
    if (operation) {
        pthread_mutex_lock(&mutex);
        remove_locked(operation);
        pthread_mutex_unlock(&mutex);
        leave(operation, 0, device->driver.get_deferred_operation_result(handle, deferred) != VK_NOT_READY);
    }
    device->driver.destroy_deferred_operation(handle, deferred, allocator);
}
