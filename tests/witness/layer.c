/* The layer itself: negotiation, the chains of instance and device, and which call goes where. */
#include "witness.h"

#include "../test_layer.h"

#include <stdlib.h>
#include <string.h>

/* Instances and devices are known by the pointer that all their dispatchable objects begin with. */
static void *key_of(const void *dispatchable)
{
    return *(void *const *)dispatchable;
}

typedef struct WatchedInstance {
    struct WatchedInstance *next;
    void *key;
    VkInstance handle;
    PFN_vkGetInstanceProcAddr get_proc_addr;
    PFN_vkDestroyInstance destroy;
} WatchedInstance;

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static WatchedInstance *instances;
static Watched *devices;

static WatchedInstance *instance_of(const void *dispatchable)
{
    pthread_mutex_lock(&known_lock);
    WatchedInstance *found = instances;
    while (found && found->key != key_of(dispatchable))
        found = found->next;
    pthread_mutex_unlock(&known_lock);
    return found;
}

Watched *watched_of(VkDevice device)
{
    pthread_mutex_lock(&known_lock);
    Watched *found = devices;
    while (found && found->key != key_of(device))
        found = found->next;
    pthread_mutex_unlock(&known_lock);
    return found;
}

static void *must(void *memory)
{
    if (!memory)
        abort(); /* a test layer need not survive this */
    return memory;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                           VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = instance_node(info, VK_LAYER_LINK_INFO);
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(VK_NULL_HANDLE, "vkCreateInstance");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    WatchedInstance *made = must(calloc(1, sizeof *made));
    made->key = key_of(*instance);
    made->handle = *instance;
    made->get_proc_addr = next;
    made->destroy = (PFN_vkDestroyInstance)next(*instance, "vkDestroyInstance");
    pthread_mutex_lock(&known_lock);
    made->next = instances;
    instances = made;
    pthread_mutex_unlock(&known_lock);
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    if (!instance)
        return;
    WatchedInstance *gone = instance_of(instance);
    pthread_mutex_lock(&known_lock);
    WatchedInstance **link = &instances;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&known_lock);
    gone->destroy(instance, allocator);
    free(gone);
}

static void find_next(Watched *device)
{
#define NEXT(member, name) device->member = (PFN_##name)device->get_proc_addr(device->handle, #name)
    NEXT(destroy, vkDestroyDevice);
    NEXT(create_cache, vkCreatePipelineCache);
    NEXT(get_cache_data, vkGetPipelineCacheData);
    NEXT(merge_caches, vkMergePipelineCaches);
    NEXT(create_graphics, vkCreateGraphicsPipelines);
    NEXT(create_compute, vkCreateComputePipelines);
    NEXT(create_rays, vkCreateRayTracingPipelinesKHR);
    NEXT(get_key, vkGetPipelineKeyKHR);
    NEXT(create_binaries, vkCreatePipelineBinariesKHR);
    NEXT(get_binary_data, vkGetPipelineBinaryDataKHR);
    NEXT(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef NEXT
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = device_node(info, VK_LAYER_LINK_INFO);
    WatchedInstance *instance = instance_of(physical);
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create =
        (PFN_vkCreateDevice)link->u.pLayerInfo->pfnNextGetInstanceProcAddr(instance->handle, "vkCreateDevice");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    count_call(DO_CREATE_DEVICE);
    VkResult result = create(physical, info, allocator, device);
    note_device(info, result);
    if (result != VK_SUCCESS)
        return result;
    Watched *made = must(calloc(1, sizeof *made));
    made->key = key_of(*device);
    made->handle = *device;
    made->get_proc_addr = next;
    find_next(made);
    pthread_mutex_lock(&known_lock);
    made->next = devices;
    devices = made;
    pthread_mutex_unlock(&known_lock);
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    Watched *gone = watched_of(device);
    count(COUNT_DEVICES_DESTROYED, 1);
    gone->destroy(device, allocator);
    pthread_mutex_lock(&known_lock);
    Watched **link = &devices;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&known_lock);
    free(gone);
}

/* ---- which function answers to a name ---- */

static PFN_vkVoidFunction find_in(const EntryPoint *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->function;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_device(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_of_device;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)destroy_device;
    PFN_vkVoidFunction next = watched_of(device)->get_proc_addr(device, name);
    PFN_vkVoidFunction own = next ? find_in(watched_commands, name) : NULL;
    return own ? own : next;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_instance(VkInstance instance, const char *name)
{
    static const EntryPoint always[] = {
        ENTRY("vkGetInstanceProcAddr", get_of_instance),
        ENTRY("vkCreateInstance", create_instance),
        ENTRY("vkDestroyInstance", destroy_instance),
        ENTRY("vkCreateDevice", create_device),
        ENTRY("vkDestroyDevice", destroy_device),
        ENTRY("vkGetDeviceProcAddr", get_of_device),
        {NULL, NULL},
    };
    PFN_vkVoidFunction own = find_in(always, name);
    if (own || !instance)
        return own;
    PFN_vkVoidFunction next = instance_of(instance)->get_proc_addr(instance, name);
    own = next ? find_in(watched_commands, name) : NULL;
    return own ? own : next;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    return negotiate(interface, get_of_instance, get_of_device);
}
