/* The layer itself: negotiation, the chains of instance and device, and which call goes where. */
#include "faults.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_NAME "VK_LAYER_PYLAYER_TEST_faults"

/* ---- instances and devices, known by the pointer that all their dispatchable objects begin with ---- */

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static instance_state *instances;
static device_state *devices;

static void *key_of(const void *dispatchable)
{
    return *(void *const *)dispatchable;
}

static instance_state *instance_of(const void *dispatchable)
{
    pthread_mutex_lock(&known_lock);
    instance_state *state = instances;
    while (state && state->key != key_of(dispatchable))
        state = state->next;
    pthread_mutex_unlock(&known_lock);
    return state;
}

device_state *device_of(VkDevice device)
{
    pthread_mutex_lock(&known_lock);
    device_state *state = devices;
    while (state && state->key != key_of(device))
        state = state->next;
    pthread_mutex_unlock(&known_lock);
    return state;
}

/* ---- the end of a process: a real driver's own exit handlers run at the same place ---- */

static atomic_bool ending;

static void at_exit(void)
{
    atomic_store(&ending, true);
    pthread_mutex_lock(&known_lock);
    for (device_state *state = devices; state; state = state->next)
        if (atomic_load(&state->calls))
            violation("exit() while a call to the driver is in progress");
    pthread_mutex_unlock(&known_lock);
}

device_state *begin_call(VkDevice device, const char *command)
{
    device_state *state = device_of(device);
    if (!state) {
        violation("%s on a device that does not exist", command);
        abort();
    }
    atomic_fetch_add(&state->calls, 1);
    if (atomic_load(&ending))
        violation("%s after the driver's exit handlers ran", command);
    return state;
}

void end_call(device_state *state)
{
    atomic_fetch_sub(&state->calls, 1);
}

/* ---- creation and destruction ---- */

static void watch_exit(void)
{
    atexit(at_exit);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    VkLayerInstanceCreateInfo *link = instance_node(info, VK_LAYER_LINK_INFO);
    if (!link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(VK_NULL_HANDLE, "vkCreateInstance");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    pthread_once(&once, watch_exit);
    instance_state *state = calloc(1, sizeof *state);
    if (!state)
        abort(); /* a test layer need not survive this */
    state->key = key_of(*instance);
    state->handle = *instance;
    uint32_t api = info->pApplicationInfo ? info->pApplicationInfo->apiVersion : 0;
    state->api = api ? api : VK_API_VERSION_1_0;
    state->get_proc_addr = next;
#define NEXT(member, name) state->member = (PFN_##name)next(*instance, #name)
    NEXT(destroy, vkDestroyInstance);
    NEXT(get_properties, vkGetPhysicalDeviceProperties);
    NEXT(get_features2, vkGetPhysicalDeviceFeatures2);
    NEXT(get_properties2, vkGetPhysicalDeviceProperties2);
    state->get_features2_khr = (PFN_vkGetPhysicalDeviceFeatures2)next(*instance, "vkGetPhysicalDeviceFeatures2KHR");
    state->get_properties2_khr =
        (PFN_vkGetPhysicalDeviceProperties2)next(*instance, "vkGetPhysicalDeviceProperties2KHR");
    state->enumerate_extensions =
        (PFN_vkEnumerateDeviceExtensionProperties)next(*instance, "vkEnumerateDeviceExtensionProperties");
#undef NEXT
    pthread_mutex_lock(&known_lock);
    state->next = instances;
    instances = state;
    pthread_mutex_unlock(&known_lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    if (!instance)
        return;
    instance_state *state = instance_of(instance);
    pthread_mutex_lock(&known_lock);
    instance_state **link = &instances;
    while (*link != state)
        link = &(*link)->next;
    *link = state->next;
    pthread_mutex_unlock(&known_lock);
    state->destroy(instance, allocator);
    free(state);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = device_node(info, VK_LAYER_LINK_INFO);
    if (!link || !link->u.pLayerInfo) {
        violation("vkCreateDevice without a link to the next layer");
        return VK_ERROR_INITIALIZATION_FAILED;
    }
    instance_state *instance = instance_of(physical);
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create =
        (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(instance->handle, "vkCreateDevice");
    device_state *state = calloc(1, sizeof *state);
    if (!state)
        abort();
    /* Before the refusal, as drivers below a layer may do: whoever tries again has to put it back. */
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = check_device(instance, physical, info, state);
    if (result == VK_SUCCESS)
        result = create(physical, info, allocator, device);
    if (result != VK_SUCCESS) {
        free(state);
        return result;
    }
    state->key = key_of(*device);
    state->handle = *device;
    state->get_proc_addr = next;
#define NEXT(member, name) state->member = (PFN_##name)next(*device, #name)
    NEXT(destroy, vkDestroyDevice);
    NEXT(create_cache, vkCreatePipelineCache);
    NEXT(destroy_cache, vkDestroyPipelineCache);
    NEXT(get_cache_data, vkGetPipelineCacheData);
    NEXT(merge_caches, vkMergePipelineCaches);
    NEXT(create_graphics, vkCreateGraphicsPipelines);
    NEXT(create_compute, vkCreateComputePipelines);
    NEXT(create_ray_tracing, vkCreateRayTracingPipelinesKHR);
    NEXT(destroy_pipeline, vkDestroyPipeline);
    NEXT(join, vkDeferredOperationJoinKHR);
    NEXT(get_result, vkGetDeferredOperationResultKHR);
    NEXT(get_max_concurrency, vkGetDeferredOperationMaxConcurrencyKHR);
    NEXT(destroy_operation, vkDestroyDeferredOperationKHR);
    NEXT(create_module, vkCreateShaderModule);
    NEXT(destroy_module, vkDestroyShaderModule);
    NEXT(get_key, vkGetPipelineKeyKHR);
    NEXT(create_binaries, vkCreatePipelineBinariesKHR);
    NEXT(destroy_binary, vkDestroyPipelineBinaryKHR);
    NEXT(get_binary_data, vkGetPipelineBinaryDataKHR);
    NEXT(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef NEXT
    pthread_mutex_lock(&known_lock);
    state->next = devices;
    devices = state;
    pthread_mutex_unlock(&known_lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    device_state *state = device_of(device);
    if (!state) {
        violation("vkDestroyDevice of a device that does not exist");
        return;
    }
    if (atomic_load(&state->calls))
        violation("vkDestroyDevice while a call to the device is in progress");
    deferred_device_end(device);
    objects_of_device_end(device);
    note_binary_counters(state);
    pthread_mutex_lock(&known_lock);
    device_state **link = &devices;
    while (*link != state)
        link = &(*link)->next;
    *link = state->next;
    pthread_mutex_unlock(&known_lock);
    state->destroy(device, allocator);
    free(state);
}

/* ---- enumeration: this layer has no extensions of its own ---- */

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateInstanceExtensionProperties(const char *layer, uint32_t *count,
                                                                                 VkExtensionProperties *properties)
{
    (void)properties;
    if (!layer || strcmp(layer, LAYER_NAME) != 0)
        return VK_ERROR_LAYER_NOT_PRESENT;
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateDeviceExtensionProperties(VkPhysicalDevice physical,
                                                                               const char *layer, uint32_t *count,
                                                                               VkExtensionProperties *properties)
{
    if (layer && strcmp(layer, LAYER_NAME) == 0) {
        *count = 0;
        return VK_SUCCESS;
    }
    return enumerate_extensions(instance_of(physical), physical, layer, count, properties);
}

static VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceFeatures2(VkPhysicalDevice physical,
                                                                   VkPhysicalDeviceFeatures2 *features)
{
    report_features(instance_of(physical)->get_features2, physical, features);
}

static VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceFeatures2KHR(VkPhysicalDevice physical,
                                                                      VkPhysicalDeviceFeatures2 *features)
{
    report_features(instance_of(physical)->get_features2_khr, physical, features);
}

static VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceProperties2(VkPhysicalDevice physical,
                                                                     VkPhysicalDeviceProperties2 *properties)
{
    report_properties(instance_of(physical)->get_properties2, physical, properties);
}

static VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceProperties2KHR(VkPhysicalDevice physical,
                                                                        VkPhysicalDeviceProperties2 *properties)
{
    report_properties(instance_of(physical)->get_properties2_khr, physical, properties);
}

/* ---- which function answers to a name ---- */

static PFN_vkVoidFunction find_in(const entry_point *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table->function;
    return NULL;
}

static PFN_vkVoidFunction find_device_function(const char *name)
{
    PFN_vkVoidFunction function = find_in(cache_entry_points, name);
    if (!function)
        function = find_in(pipeline_entry_points, name);
    if (!function)
        function = find_in(deferred_entry_points, name);
    return function ? function : find_in(binary_entry_points, name);
}

static PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)layer_DestroyDevice;
    PFN_vkVoidFunction next = device_of(device)->get_proc_addr(device, name);
    if (faults.no_binaries && find_in(binary_entry_points, name))
        return NULL;
    PFN_vkVoidFunction own = next ? find_device_function(name) : NULL;
    return own ? own : next;
}

static PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    static const entry_point always[] = {
        ENTRY("vkGetInstanceProcAddr", layer_GetInstanceProcAddr),
        ENTRY("vkCreateInstance", layer_CreateInstance),
        ENTRY("vkEnumerateInstanceExtensionProperties", layer_EnumerateInstanceExtensionProperties),
        ENTRY("vkDestroyInstance", layer_DestroyInstance),
        ENTRY("vkCreateDevice", layer_CreateDevice),
        ENTRY("vkDestroyDevice", layer_DestroyDevice),
        ENTRY("vkGetDeviceProcAddr", layer_GetDeviceProcAddr),
        ENTRY("vkEnumerateDeviceExtensionProperties", layer_EnumerateDeviceExtensionProperties),
        {NULL, NULL}};
    static const entry_point where_next_has_them[] = {
        ENTRY("vkGetPhysicalDeviceFeatures2", layer_GetPhysicalDeviceFeatures2),
        ENTRY("vkGetPhysicalDeviceFeatures2KHR", layer_GetPhysicalDeviceFeatures2KHR),
        ENTRY("vkGetPhysicalDeviceProperties2", layer_GetPhysicalDeviceProperties2),
        ENTRY("vkGetPhysicalDeviceProperties2KHR", layer_GetPhysicalDeviceProperties2KHR),
        {NULL, NULL}};
    PFN_vkVoidFunction own = find_in(always, name);
    if (own || !instance)
        return own;
    PFN_vkVoidFunction next = instance_of(instance)->get_proc_addr(instance, name);
    own = next ? find_in(where_next_has_them, name) : NULL;
    if (next && !own)
        own = find_device_function(name);
    return own ? own : next;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    return negotiate(interface, layer_GetInstanceProcAddr, layer_GetDeviceProcAddr);
}
