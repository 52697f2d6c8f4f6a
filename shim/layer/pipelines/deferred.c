/*
 * deferred.c - vkCreateRayTracingPipelinesKHR with a deferred operation, and the operation's completion.
 *
 * If the caches hold all pipelines of the call, they are created at once. If they hold none, the driver defers the call, so
 * that its threads and the application's share the work as they do without the layer. The driver's operation gets create
 * infos that live here until it is complete, and a cell. It cannot use a cache that others merge into, because no lock can
 * be held from one call to the end of another one. If the caches hold some, the rest is created at once, too.
 *
 * A pending operation becomes complete in a vkDeferredOperationJoinKHR, for one of the threads in it, and no sooner
 * (Vulkan, 'Requesting Deferral'). That thread, or one that asks for the result first, keeps what was compiled before
 * the application can know that the operation is complete. Other threads wait for it.
 */
#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"
#include "pipelines/deferred.h"

#include <stdlib.h>
#include <string.h>

#include "caches/cells.h"
#include "pipelines/create.h"
#include "pipelines/creations.h"
#include "crash/sentinel.h"
#include "pipelines/pass.h"
#include "mailbox/mailbox.h"
#include "shaders/fingerprints.h"

typedef struct DeferredOperation {
    struct DeferredOperation *next;
    uint64_t serial; /* the handle may be reused while a thread still returns from its last join */
    bool ending;
    PipelineCall call; /* the memory it points to is valid until the operation is complete */
    AppCache *app_cache;
    VkPipelineCache cell;
    uint64_t began_ns;
    uint64_t create_ns; /* sum over all threads; atomic */
    Element *elements;  /* of the call */
    VkRayTracingPipelineCreateInfoKHR *infos;
} DeferredOperation;

/* ---- operations ------------------------------------------------------------------------------ */

void deferred_open(DeferredOperations *all)
{
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
}

/* An operation that is still pending was never joined to completion, which is invalid
 * (VUID-vkDestroyDevice-device-05137). The driver may still use its memory, so it is not freed. */
void deferred_close(DeferredOperations *all)
{
    pthread_mutex_destroy(&all->mutex);
    pthread_cond_destroy(&all->changed);
}

static void add_pending(DeferredOperation *operation)
{
    DeferredOperations *all = &operation->call.device->deferred;
    pthread_mutex_lock(&all->mutex);
    operation->serial = ++all->last_serial;
    operation->next = all->pending;
    all->pending = operation;
    atomic_fetch_add(&all->pending_count, 1);
    pthread_mutex_unlock(&all->mutex);
}

static DeferredOperation **find_locked(DeferredOperations *all, uint64_t serial)
{
    DeferredOperation **link = &all->pending;
    while (*link && (*link)->serial != serial)
        link = &(*link)->next;
    return link;
}

static void remove_locked(DeferredOperations *all, DeferredOperation **link)
{
    *link = (*link)->next;
    atomic_fetch_sub(&all->pending_count, 1);
    pthread_cond_broadcast(&all->changed);
}

/* Returns 0 if the layer has no part in this operation. */
static uint64_t pending_serial(DeferredOperations *all, VkDeferredOperationKHR handle)
{
    if (atomic_load(&all->pending_count) == 0 || process_is_forked_child())
        return 0;
    pthread_mutex_lock(&all->mutex);
    const DeferredOperation *found = all->pending;
    while (found && found->call.deferred != handle)
        found = found->next;
    uint64_t serial = found ? found->serial : 0;
    pthread_mutex_unlock(&all->mutex);
    return serial;
}

static void free_operation(DeferredOperation *operation)
{
    for (uint32_t i = 0; operation->elements && i < operation->call.count; i++)
        element_release(&operation->elements[i]);
    free(operation->infos);
    free(operation->elements);
    free(operation);
}

/* ---- completion ------------------------------------------------------------------------------ */

/* Notes the pipelines that the driver created. Returns their number. */
static uint32_t note_all(DeferredOperation *operation)
{
    Device *device = operation->call.device;
    uint32_t created = 0;
    for (uint32_t i = 0; i < operation->call.count; i++) {
        const Element *element = &operation->elements[i];
        VkPipeline pipeline = operation->call.pipelines[i];
        if (pipeline == VK_NULL_HANDLE) {
            count(element->flags & FAIL_ON_COMPILE ? &counters_of(&device->run)->totals.compile_required
                                                   : &counters_of(&device->run)->totals.failed,
                  1);
            continue;
        }
        created++;
        note_created(&device->run, element->fingerprint, 0);
        if (element->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR)
            fingerprint_note_library(&device->shaders, pipeline, element->fingerprint);
        if (device->state.on)
            state_note_pipeline(&device->state, &operation->call, i, element,
                                __atomic_load_n(&operation->create_ns, __ATOMIC_RELAXED) / operation->call.count);
        element_clear_application_hit(element);
    }
    count(&counters_of(&device->run)->totals.pipelines, created);
    mailbox_stir();
    count(&counters_of(&device->run)->totals.deferred, created);
    return created;
}

/* A later run may create any of the pipelines by itself. */
static void name_others(PylayerCell *about, const DeferredOperation *operation)
{
    uint64_t others[PYLAYER_CELL_OTHERS];
    uint32_t created = 0;
    for (uint32_t i = 0; i < operation->call.count; i++) {
        if (operation->call.pipelines[i] == VK_NULL_HANDLE)
            continue;
        if (created > PYLAYER_CELL_OTHERS || operation->elements[i].fingerprint == 0)
            return;
        if (created > 0)
            others[created - 1] = operation->elements[i].fingerprint;
        created++;
    }
    memcpy(about->others, others, (created - 1) * sizeof *others);
}

/* One cell holds all that the operation created. The first pipeline that was created describes it. */
static PylayerCell about_cell(const DeferredOperation *operation)
{
    uint32_t first = 0;
    while (operation->call.pipelines[first] == VK_NULL_HANDLE)
        first++;
    PylayerCell about = {0};
    creation_describe(&about, &operation->call, first, &operation->elements[first],
                      __atomic_load_n(&operation->create_ns, __ATOMIC_RELAXED));
    about.start_ns = operation->began_ns;
    about.pipelines = operation->call.count;
    name_others(&about, operation);
    return about;
}

/* Called when the driver is done with the operation. */
static void finish(DeferredOperation *operation)
{
    Device *device = operation->call.device;
    uint32_t created = note_all(operation);
    if (created == 0) {
        device->driver.destroy_pipeline_cache(device->driver.handle, operation->cell, NULL);
        return;
    }
    PylayerCell about = about_cell(operation);
    count(&counters_of(&device->run)->totals.compile_ns, about.create_ns);
    bool kept = cell_finish(&device->caches, operation->cell, operation->app_cache, &about);
    for (uint32_t i = 0; kept && i < operation->call.count; i++)
        if (operation->call.pipelines[i] != VK_NULL_HANDLE)
            fingerprints_note_merged(&device->run.seen, operation->elements[i].fingerprint, 0);
    count(kept ? &counters_of(&device->run)->totals.compiled : &counters_of(&device->run)->totals.uncacheable, created);
}

/* Returns when this thread or another one has finished the operation. */
static void complete(DeferredOperations *all, uint64_t serial)
{
    pthread_mutex_lock(&all->mutex);
    DeferredOperation *operation = *find_locked(all, serial);
    if (operation && !operation->ending) {
        operation->ending = true;
        pthread_mutex_unlock(&all->mutex);
        finish(operation);
        pthread_mutex_lock(&all->mutex);
        remove_locked(all, find_locked(all, serial));
        pthread_mutex_unlock(&all->mutex);
        free_operation(operation);
        return;
    }
    int cancellation = cancellation_off();
    while (*find_locked(all, serial))
        pthread_cond_wait(&all->changed, &all->mutex);
    pthread_mutex_unlock(&all->mutex);
    cancellation_restore(cancellation);
}

/* The application destroys a pending operation, which is invalid (VUID-vkDestroyDeferredOperationKHR-operation-03436).
 * The driver may still use the memory, so it is not freed. */
static void abandon(DeferredOperations *all, uint64_t serial)
{
    pthread_mutex_lock(&all->mutex);
    DeferredOperation **link = find_locked(all, serial);
    if (*link && !(*link)->ending)
        remove_locked(all, link);
    pthread_mutex_unlock(&all->mutex);
}

static void add_time(DeferredOperations *all, uint64_t serial, uint64_t duration_ns)
{
    pthread_mutex_lock(&all->mutex);
    DeferredOperation *operation = *find_locked(all, serial);
    if (operation)
        count(&operation->create_ns, duration_ns);
    pthread_mutex_unlock(&all->mutex);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* EARLY_RETURN: VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587 forbids it. */
static bool is_untouchable(const PipelineCall *call)
{
    bool untouchable = needs_internal_cache(call);
    for (uint32_t i = 0; i < call->count; i++) {
        Element element;
        element_read(&element, call, i);
        untouchable |= element_is_untouchable(&element) || element.flags & EARLY_RETURN;
    }
    return untouchable;
}

/* Returns false if a pipeline of the call cannot be kept in a cell, or if the caches have one. */
static bool may_share_a_cell(const PipelineCall *call)
{
    const AddedCalls *calls = &call->device->crash.added_calls;
    bool may_share = true;
    for (uint32_t i = 0; i < call->count; i++) {
        Element element;
        element_read(&element, call, i);
        may_share &= call->pipelines[i] == VK_NULL_HANDLE && !call_is_off(calls, PYLAYER_MARK_PROBE, element.kind) &&
                     !call_is_off(calls, PYLAYER_MARK_CELL, element.kind) &&
                     element_flags_can_change(&element, call, i);
    }
    return may_share;
}

/* The cell is VK_NULL_HANDLE if the driver refuses it. Returns NULL if memory is short. */
static DeferredOperation *operation_new(const PipelineCall *call)
{
    DeferredOperation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return NULL;
    operation->call = *call;
    operation->elements = calloc(call->count, sizeof *operation->elements);
    operation->infos = calloc(call->count, sizeof *operation->infos);
    if (!operation->elements || !operation->infos) {
        free_operation(operation);
        return NULL;
    }
    for (uint32_t i = 0; i < call->count; i++) {
        Element *element = &operation->elements[i];
        AnyCreateInfo info;
        element_read(element, call, i);
        element->fingerprint = fingerprint_of(&call->device->shaders, call, i, element->kind);
        element_build(element, call, i, (Change){.feedback = true}, &info);
        operation->infos[i] = info.ray_tracing;
    }
    operation->app_cache = app_cache_find(&call->device->caches, call->cache);
    operation->cell = cell_create(&call->device->caches, &operation->elements[0], false);
    return operation;
}

/*
 * All pipelines exist. 'A deferred operation is created complete with an initial result value of VK_SUCCESS', and that
 * is what the application has to find. Some programs cannot handle VK_OPERATION_NOT_DEFERRED_KHR (RADV never returns
 * it, for Portal with RTX). So it is returned only for an operation whose last use ended with another result.
 */
static VkResult answer_finished(const PipelineCall *call)
{
    Device *device = call->device;
    VkResult result = device->driver.get_deferred_operation_result(device->driver.handle, call->deferred);
    return result == VK_SUCCESS ? VK_OPERATION_DEFERRED_KHR : VK_OPERATION_NOT_DEFERRED_KHR;
}

/* Creates what is missing of a call that is not deferred. Executing at once is always allowed ('Requesting Deferral'). */
static VkResult create_now(const PipelineCall *call)
{
    PipelineCall now = *call;
    now.deferred = VK_NULL_HANDLE;
    now.extent = CREATE_MISSING;
    VkResult result = pipelines_create(&now);
    for (uint32_t i = 0; i < call->count; i++)
        count(&counters_of(&call->device->run)->totals.deferred, call->pipelines[i] != VK_NULL_HANDLE);
    return result == VK_SUCCESS ? answer_finished(call) : result;
}

/* The driver failed. If it fails at once, too, the application gets that failure. */
static VkResult create_again(DeferredOperation *operation)
{
    PipelineCall call = operation->call;
    Driver *driver = &call.device->driver;
    free_operation(operation);
    for (uint32_t i = 0; i < call.count; i++) {
        if (call.pipelines[i] != VK_NULL_HANDLE)
            driver->destroy_pipeline(driver->handle, call.pipelines[i], call.allocator);
        call.pipelines[i] = VK_NULL_HANDLE;
    }
    return create_now(&call);
}

/* Some drivers return VK_OPERATION_DEFERRED_KHR although all work is done. */
static bool is_pending(const PipelineCall *call)
{
    const Device *device = call->device;
    return device->driver.get_deferred_operation_result(device->driver.handle, call->deferred) == VK_NOT_READY;
}

static VkResult start(DeferredOperation *operation)
{
    const PipelineCall *call = &operation->call;
    Device *device = call->device;
    if (operation->cell == VK_NULL_HANDLE)
        return create_again(operation);
    uint64_t begin = operation->began_ns = now_ns();
    VkResult result =
        device->driver.create_ray_tracing_pipelines(device->driver.handle, call->deferred, operation->cell, call->count,
                                                    operation->infos, call->allocator, call->pipelines);
    count(&operation->create_ns, now_ns() - begin);
    if (result == VK_OPERATION_DEFERRED_KHR && is_pending(call)) {
        add_pending(operation);
        return result;
    }
    if (result < 0) {
        device->driver.destroy_pipeline_cache(device->driver.handle, operation->cell, NULL);
        return create_again(operation);
    }
    finish(operation);
    free_operation(operation);
    return result;
}

VkResult deferred_create(const PipelineCall *call)
{
    Device *device = call->device;
    loading_wait(&device->caches); /* verdicts are not known before */
    if (is_untouchable(call) || !device->driver.get_deferred_operation_result)
        return pass_pipelines(call);
    PipelineCall probe = *call;
    probe.deferred = VK_NULL_HANDLE;
    probe.extent = CREATE_FOUND;
    if (pipelines_create(&probe) == VK_SUCCESS) {
        count(&counters_of(&device->run)->totals.deferred, call->count);
        return answer_finished(call);
    }
    DeferredOperation *operation = may_share_a_cell(call) ? operation_new(call) : NULL;
    return operation ? start(operation) : create_now(call);
}

/* ---- hooks ----------------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL layer_DeferredOperationJoinKHR(VkDevice handle, VkDeferredOperationKHR operation)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    uint64_t serial = pending_serial(&device->deferred, operation);
    uint64_t begin = serial ? now_ns() : 0;
    VkResult result = device->driver.deferred_operation_join(handle, operation);
    if (serial)
        add_time(&device->deferred, serial, now_ns() - begin);
    if (serial && result == VK_SUCCESS)
        complete(&device->deferred, serial);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetDeferredOperationResultKHR(VkDevice handle, VkDeferredOperationKHR operation)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    uint64_t serial = pending_serial(&device->deferred, operation);
    VkResult result = device->driver.get_deferred_operation_result(handle, operation);
    if (serial && result != VK_NOT_READY)
        complete(&device->deferred, serial);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDeferredOperationKHR(VkDevice handle, VkDeferredOperationKHR operation,
                                                             const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    uint64_t serial = pending_serial(&device->deferred, operation);
    if (serial && device->driver.get_deferred_operation_result(handle, operation) == VK_NOT_READY)
        abandon(&device->deferred, serial);
    else if (serial)
        complete(&device->deferred, serial);
    device->driver.destroy_deferred_operation(handle, operation, allocator);
}
