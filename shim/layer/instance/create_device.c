/*
 * create_device.c - vkCreateDevice gets a plan, stored or from policy, and enables what the plan needs. vkDestroyDevice
 * waits, up to a limit, until policy, if it runs, has written what is queued.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash/crash.h"
#include "device/devices.h"
#include "driver/dispatch.h"
#include "frames/frames.h"
#include "instance/features.h"
#include "mailbox/mailbox.h"
#include "policy/policy.h"
#include "process/process.h"
#include "store/run_file.h"

/* One in this many devices, chosen by chance, has policy compact journals and prune statistics at exit. */
#define PRUNED_BY 64

static atomic_ullong next_serial = 1;

/* Fills in what the device's identity is computed from, and *binary. A struct that the driver does not know stays
 * zero. */
static void describe_physical_device(PylayerDeviceInfo *out, const Instance *instance, VkPhysicalDevice physical,
                                     VkPhysicalDevicePipelineBinaryPropertiesKHR *binary)
{
    *binary = (VkPhysicalDevicePipelineBinaryPropertiesKHR){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = binary};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &driver};
    if (instance->get_properties2)
        instance->get_properties2(physical, &properties);
    else
        instance->get_properties(physical, &properties.properties);
    const VkPhysicalDeviceProperties *base = &properties.properties;
    out->instance = instance->info;
    out->api_version = base->apiVersion;
    out->vendor_id = base->vendorID;
    out->device_id = base->deviceID;
    out->driver_version = base->driverVersion;
    out->driver_id = (uint32_t)driver.driverID;
    memcpy(out->pipeline_cache_uuid, base->pipelineCacheUUID, PYLAYER_UUID_BYTES);
    snprintf(out->device_name, sizeof out->device_name, "%s", base->deviceName);
    snprintf(out->driver_name, sizeof out->driver_name, "%s", driver.driverName);
    snprintf(out->driver_info, sizeof out->driver_info, "%s", driver.driverInfo);
}

static void describe_device(PylayerDeviceInfo *out, const Instance *instance, VkPhysicalDevice physical,
                            const VkDeviceCreateInfo *info, FeatureSupport *support)
{
    VkPhysicalDevicePipelineBinaryPropertiesKHR *binary = &support->binary_properties;
    describe_physical_device(out, instance, physical, binary);
    features_query(instance, physical, info, out->api_version, support);
    const VkDevicePipelineBinaryInternalCacheControlKHR *control = support->internal_cache_control;
    out->cache_control_supported = support->supported[ADD_CACHE_CONTROL];
    out->cache_control_requested = support->requested[ADD_CACHE_CONTROL];
    out->feedback_supported = support->supported[ADD_FEEDBACK];
    out->binaries_supported = support->supported[ADD_BINARIES];
    out->binaries_requested = support->requested[ADD_BINARIES];
    out->internal_cache = !!binary->pipelineBinaryInternalCache;
    out->internal_cache_control = !!binary->pipelineBinaryInternalCacheControl;
    out->internal_cache_disabled = control && control->disableInternalCache;
}

static void ask_for_plan(Device *device, const VkDeviceCreateInfo *info, FeatureSupport *support)
{
    if (!mailbox_is_open())
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_PLAN_DEVICE, device->run.serial);
    if (!message)
        return;
    describe_device(&message->info, device->instance, device->physical, info, support);
    device->run.info = message->info;
    message->skip = device->instance->skip;
    decision_describe(message);
    /* Stored decisions are for processes that no skip rule excludes, so use none while only policy can tell whether one
     * excludes this process. */
    message->kept =
        message->skip == PYLAYER_SKIP_NO && decision_find(message, &device->store.kept, &device->state.wanted);
    if (message->kept) {
        /* At level info policy starts now, because somebody wants to see what it logs. */
        device->run.planned = mailbox_post(message, log_enabled(PYLAYER_LOG_INFO), UINT64_MAX);
        if (device->run.planned)
            device->run.plan = device->store.kept.plan;
        else
            device->store.kept = (PylayerDecision){0};
        return;
    }
    device->run.planned = mailbox_request(message, ANSWER_WAIT_NS);
    if (device->run.planned)
        device->run.plan = message->plan;
    device->state.wanted = message->record_now;
    if (!device->run.planned) {
        log_line(PYLAYER_LOG_WARN, "policy %sgave no plan for the device; the device runs without the layer",
                 process_links_late(0) ? "cannot start while the program loads a library, so it " : "");
        policy_flush_at_exit(); /* policy then stores the plan for the next run */
    }
    message_done(message);
}

static VkResult call_down(Device *device, VkLayerDeviceLink *mine, const VkDeviceCreateInfo *info,
                          const VkAllocationCallbacks *allocator, VkDevice *handle)
{
    PFN_vkCreateDevice create =
        (PFN_vkCreateDevice)mine->pfnNextGetInstanceProcAddr(device->instance->handle, "vkCreateDevice");
    /* The link is in the chain that is passed down, which may hold our copy of the loader's node. */
    VkLayerDeviceCreateInfo *link = pnext_find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    link->u.pLayerInfo = mine->pNext;
    return create ? create(device->physical, info, allocator, handle) : VK_ERROR_INITIALIZATION_FAILED;
}

static void take_features(Device *device, const DeviceRequest *request, const FeatureSupport *support)
{
    const VkPhysicalDevicePipelineBinaryPropertiesKHR *properties = &support->binary_properties;
    device->driver.cache_control = request->enabled[ADD_CACHE_CONTROL];
    device->driver.feedback = request->enabled[ADD_FEEDBACK];
    device->binaries.enabled = request->enabled[ADD_BINARIES];
    device->binaries.app_enabled = support->requested[ADD_BINARIES];
    device->binaries.app_extension = support->named[ADD_BINARIES];
    device->binaries.app_maintenance5 = support->core[ADD_MAINTENANCE5] || support->named[ADD_MAINTENANCE5];
    /* VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo needs both: VUID-...-pipelineBinaryInternalCache-09609,
     * -device-09610 */
    device->binaries.internal_cache = properties->pipelineBinaryInternalCache && !request->driver_cache_off;
}

static VkResult create_below(Device *device, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator,
                             const FeatureSupport *support, VkLayerDeviceLink *mine, VkDevice *handle)
{
    DeviceRequest request;
    VkDevice untouched = *handle;
    device_request_build(&request, info, support, &device->run.plan);
    VkResult result = call_down(device, mine, request.changed ? &request.info : info, allocator, handle);
    device_request_free(&request);
    if (result != VK_SUCCESS && request.changed) {
        log_line(PYLAYER_LOG_WARN,
                 "vkCreateDevice failed (%d) with the layer's changes; the layer calls it again without them", result);
        *handle = untouched;
        device_request_plain(&request, info, support);
        result = call_down(device, mine, info, allocator, handle);
    }
    take_features(device, &request, support);
    return result;
}

static void resolve(Device *device, PFN_vkGetDeviceProcAddr next)
{
    VkDevice handle = device->driver.handle;
    device->driver.get_device_proc_addr = next;
#define RESOLVE(group, member, type, name) device->driver.member = (type)next(handle, "vk" #name);
    DEVICE_COMMANDS(RESOLVE, RESOLVE)
#undef RESOLVE
    if (!device->instance->debug_utils)
        device->driver.set_object_name = NULL; /* the loader returns it in any case */
    device->binaries.enabled = device->binaries.enabled && device->driver.create_pipeline_binaries &&
                               device->driver.destroy_pipeline_binary && device->driver.get_pipeline_key &&
                               device->driver.get_pipeline_binary_data && device->driver.release_captured_pipeline_data;
}

static void device_end(Device *device)
{
    marker_remove(&device->crash);
    caches_close(&device->caches);
    stored_close(&device->store.stored);
    shaders_close(&device->shaders);
    state_close(&device->state);
    marker_close(&device->crash);
    frames_free(&device->run);
    fingerprints_close(&device->run.seen);
    free(device);
}

/* Returns NULL if memory is short. */
static Device *device_new(Instance *instance, VkPhysicalDevice physical)
{
    Device *device = aligned_alloc(_Alignof(Device), sizeof *device);
    if (!device)
        return NULL;
    memset(device, 0, sizeof *device);
    device->instance = instance;
    device->physical = physical;
    device->run.serial = atomic_fetch_add(&next_serial, 1);
    atomic_store(&device->run.counters, device->run.own_counters);
    const Driver *driver = &device->driver;
    Run *run = &device->run;
    device->store.driver = device->shaders.driver = device->caches.driver = device->binaries.driver = driver;
    device->store.run = device->shaders.run = device->state.run = device->caches.run = device->binaries.run = run;
    device->shaders.crash = device->caches.crash = device->binaries.crash = &device->crash;
    device->state.shaders = &device->shaders;
    device->caches.store = &device->store;
    return device;
}

/* Returns false if the plan asks nothing of the layer. */
static bool is_watched(const Device *device)
{
    return device->run.plan.mode != PYLAYER_MODE_OFF || device->run.plan.check_caches ||
           device->run.plan.tell_creations ||
           (device->run.plan.check_binaries && device->binaries.app_enabled && device->binaries.enabled);
}

/* Returns the plan's mode, or a lesser one that the device supports. Opens cells. */
static int select_mode(Device *device)
{
    int mode = device->run.plan.mode;
    if (mode == PYLAYER_MODE_BINARIES && !(device->binaries.enabled && binaries_global_key(&device->binaries) != 0))
        mode = PYLAYER_MODE_CELLS;
    /* Binaries need cache control too: a pipeline that cannot be stored as binaries is stored as a cell. */
    if (mode_keeps(mode) && !device->driver.cache_control)
        mode = PYLAYER_MODE_OFF;
    if (mode_keeps(mode) && !cells_open(&device->caches)) {
        log_line(PYLAYER_LOG_WARN,
                 "the driver refused an empty pipeline cache; the layer stores nothing for the device");
        mode = PYLAYER_MODE_OFF;
    }
    return mode;
}

static void open_mode(Device *device, const VkDeviceCreateInfo *info)
{
    const PylayerPlan *plan = &device->run.plan;
    Store *store = &device->store;
    device->run.sees_frames =
        (plan->mode != PYLAYER_MODE_OFF || plan->tell_creations) &&
        is_named(info->enabledExtensionCount, info->ppEnabledExtensionNames, VK_KHR_SWAPCHAIN_EXTENSION_NAME);
    if (features_shader_module_identifiers(info))
        identifiers_open(&device->driver);
    int mode = select_mode(device);
    atomic_store(&device->run.mode, mode); /* first: device_open_store writes it into the crash marker */
    store->wants_work = now_ns() / 1000 % PRUNED_BY == 0;
    bool open = mode_keeps(mode) && *store->kept.reason && device_open_store(device);
    bool keeps = mode_keeps(atomic_load(&device->run.mode)), answered = true;
    /* If the store has no file of this program, perhaps no run has recorded yet. */
    if (plan->record_state && keeps && (device->state.wanted || (open && store->stored.file_count == 0)))
        state_begin(&device->state, device->instance->object, info);
    PylayerMessage *message = message_new(PYLAYER_MSG_DEVICE_CREATED, device->run.serial);
    if (message)
        message->created = device_state(device);
    if (keeps && !open) {
        answered = mailbox_request(message, ANSWER_WAIT_NS); /* policy opens the store */
        message_done(message);
    } else {
        /* Two kinds of work start policy now: joining cells, which needs a device, and deleting old statistics if
         * processes died, because a program that is killed each time never gets to its end. */
        bool joins = store->found.journal_bytes >= STORE_JOIN_BYTES && !store->kept.marker_outside;
        bool work = joins || (store->found.ended.written && run_files_are_many());
        mailbox_post(message, keeps && work, UINT64_MAX);
    }
    if (!keeps || atomic_load(&store->stored.open))
        return;
    atomic_store(&device->run.mode, PYLAYER_MODE_OFF); /* the store may open later, for the program's own caches */
    if (!answered && mailbox_is_open()) {
        count(&counters_of(&device->run)->totals.answers_late, 1);
        log_line(PYLAYER_LOG_WARN, "policy did not open the store in time; the device runs without the layer");
    }
}

/* Tells policy that the device has ended, so that policy forgets it. Does not wait. */
static void tell_end(const Device *device)
{
    if (device->run.planned && !process_is_forked_child() && !mailbox_withdraw(device->run.serial, false))
        mailbox_post(message_new(PYLAYER_MSG_FLUSH, device->run.serial), false, UINT64_MAX);
}

/* Frees a device that vkCreateDevice does not return. Returns the result. */
static VkResult end_unmade(Device *device, VkResult result)
{
    tell_end(device);
    device_end(device);
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                  const VkAllocationCallbacks *allocator, VkDevice *handle)
{
    Instance *instance = dispatch_find(&instance_table, dispatch_key(physical));
    VkLayerDeviceCreateInfo *link = pnext_find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!instance || !link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    VkLayerDeviceLink *mine = link->u.pLayerInfo;
    Device *device = device_new(instance, physical);
    if (!device)
        return VK_ERROR_OUT_OF_HOST_MEMORY;

    FeatureSupport support = {0};
    if (instance->active)
        ask_for_plan(device, info, &support);
    const VkAllocationCallbacks *below = callbacks_below(instance, allocator);
    VkResult result = create_below(device, info, below, &support, mine, handle);
    if (result != VK_SUCCESS)
        return end_unmade(device, result);
    device->driver.handle = *handle;
    device->run.begun_ns = now_ns();
    resolve(device, mine->pfnNextGetDeviceProcAddr);
    if (!dispatch_insert(&device_table, dispatch_key(*handle), device)) {
        device->driver.destroy_device(*handle, below);
        return end_unmade(device, VK_ERROR_TOO_MANY_OBJECTS);
    }
    if (is_watched(device)) {
        devices_add(device);
        open_mode(device, info);
        policy_flush_at_exit();
    }
    return VK_SUCCESS;
}

static void wait_for_policy(Device *device)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_FLUSH, device->run.serial);
    bool done = mailbox_request(message, FLUSH_WAIT_NS);
    if (!done)
        log_line(PYLAYER_LOG_WARN, "policy did not finish writing before vkDestroyDevice went on");
    /* Policy may still store what is queued, but the counters end with the device: write them now. */
    if (!done || process_links_late(0))
        run_file_write(&device->store);
    message_done(message);
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice handle, const VkAllocationCallbacks *allocator)
{
    if (!handle)
        return;
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (!device)
        return;
    if (is_watched(device) && !process_is_forked_child()) {
        atomic_store(&device->caches.ending, true);
        if (!device_ends_quietly(device))
            wait_for_policy(device);
        if (!devices_remove(device)) {
            log_line(PYLAYER_LOG_WARN, "the driver has been joining stored pipelines for seconds, or a disk hangs; "
                                       "vkDestroyDevice returns without destroying the device");
            dispatch_remove(&device_table, dispatch_key(handle));
            return;
        }
    } else {
        tell_end(device);
    }
    cells_close(&device->caches);
    binaries_destroy(&device->binaries);
    dispatch_remove(&device_table, dispatch_key(handle));
    device->driver.destroy_device(handle, callbacks_below(device->instance, allocator));
    device_end(device);
}
