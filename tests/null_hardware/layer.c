/* The layer itself: negotiation, the chains of instance and device, and which call goes where. */
#include "null_hardware.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_NAME "VK_LAYER_PYLAYER_TEST_null_hardware"

VkResult succeed(void)
{
    return VK_SUCCESS;
}

uint64_t new_handle(void)
{
    static atomic_uint_least64_t last;
    /* Far below any address, so that a handle that is followed as a pointer fails at once. */
    return 16 * (atomic_fetch_add(&last, 1) + 1);
}

VkResult create_handle(VkDevice device, const void *info, const VkAllocationCallbacks *allocator, uint64_t *handle)
{
    (void)device, (void)info, (void)allocator;
    *handle = new_handle();
    return VK_SUCCESS;
}

/* ---- instances and devices, known by the pointer that all their dispatchable objects begin with ---- */

typedef struct known {
    struct known *next;
    void *key;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr; /* of an instance */
    VkInstance instance;
    PFN_vkDestroyInstance DestroyInstance;
    PFN_vkEnumerateDeviceExtensionProperties EnumerateDeviceExtensionProperties;
    PFN_vkSetDeviceLoaderData SetDeviceLoaderData; /* of a device */
    driver_functions driver;
} known;

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static known *known_objects;

static void *key_of(const void *dispatchable)
{
    return *(void *const *)dispatchable;
}

static known *find_known(const void *dispatchable)
{
    void *key = key_of(dispatchable);
    pthread_mutex_lock(&known_lock);
    known *object = known_objects;
    while (object && object->key != key)
        object = object->next;
    pthread_mutex_unlock(&known_lock);
    return object;
}

static known *add_known(const void *dispatchable)
{
    known *object = calloc(1, sizeof *object);
    if (!object)
        abort(); /* a test layer need not survive this */
    object->key = key_of(dispatchable);
    pthread_mutex_lock(&known_lock);
    object->next = known_objects;
    known_objects = object;
    pthread_mutex_unlock(&known_lock);
    return object;
}

static void forget_known(void *key)
{
    pthread_mutex_lock(&known_lock);
    for (known **link = &known_objects; *link; link = &(*link)->next) {
        if ((*link)->key != key)
            continue;
        known *object = *link;
        *link = object->next;
        free(object);
        break;
    }
    pthread_mutex_unlock(&known_lock);
}

const driver_functions *driver_of(VkDevice device)
{
    return &find_known(device)->driver;
}

VkResult set_loader_data(VkDevice device, void *object)
{
    return find_known(device)->SetDeviceLoaderData(device, object);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator, VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = instance_node(info, VK_LAYER_LINK_INFO);
    if (!link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(VK_NULL_HANDLE, "vkCreateInstance");
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    log_instance(info, result);
    if (result != VK_SUCCESS)
        return result;
    known *object = add_known(*instance);
    object->instance = *instance;
    object->GetInstanceProcAddr = next;
    /* Asked for now, because once the instance is complete the loader answers with the first layer's functions. */
    object->DestroyInstance = (PFN_vkDestroyInstance)next(*instance, "vkDestroyInstance");
    object->EnumerateDeviceExtensionProperties =
        (PFN_vkEnumerateDeviceExtensionProperties)next(*instance, "vkEnumerateDeviceExtensionProperties");
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    if (!instance)
        return;
    void *key = key_of(instance);
    find_known(instance)->DestroyInstance(instance, allocator);
    forget_known(key);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = device_node(info, VK_LAYER_LINK_INFO);
    VkLayerDeviceCreateInfo *data = device_node(info, VK_LOADER_DATA_CALLBACK);
    if (!link || !link->u.pLayerInfo || !data)
        return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)next_instance(find_known(physical)->instance, "vkCreateDevice");
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(physical, info, allocator, device);
    log_device(info, result);
    if (result != VK_SUCCESS)
        return result;
    known *object = add_known(*device);
    object->SetDeviceLoaderData = data->u.pfnSetDeviceLoaderData;
    object->driver = (driver_functions){
        .GetDeviceProcAddr = next,
#define NEXT(name) .name = (PFN_vk##name)next(*device, "vk" #name)
        NEXT(CreatePipelineCache),
        NEXT(DestroyPipelineCache),
        NEXT(GetPipelineCacheData),
        NEXT(MergePipelineCaches),
        NEXT(CreateGraphicsPipelines),
        NEXT(CreateComputePipelines),
#undef NEXT
        .CreateRayTracingPipelines =
            (PFN_vkCreateRayTracingPipelinesKHR)next(*device, "vkCreateRayTracingPipelinesKHR"),
        .CreatePipelineBinaries = next(*device, "vkCreatePipelineBinariesKHR"),
        .GetPipelineKey = next(*device, "vkGetPipelineKeyKHR"),
    };
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice device, const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    PFN_vkDestroyDevice destroy = (PFN_vkDestroyDevice)driver_of(device)->GetDeviceProcAddr(device, "vkDestroyDevice");
    void *key = key_of(device);
    destroy(device, allocator);
    forget_known(key);
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
    return find_known(physical)->EnumerateDeviceExtensionProperties(physical, layer, count, properties);
}

/* ---- which function answers to a name ---- */

static PFN_vkVoidFunction find_in(const entry_point *table, const char *name)
{
    size_t length = strlen(name);
    size_t core = length;
    if (length > 3 && (strcmp(name + length - 3, "KHR") == 0 || strcmp(name + length - 3, "EXT") == 0))
        core -= 3;
    for (; table->name; table++) {
        size_t known_length = strlen(table->name);
        if ((known_length == length || known_length == core) && strncmp(table->name, name, known_length) == 0)
            return table->function;
    }
    return NULL;
}

static PFN_vkVoidFunction find_fake(const char *name)
{
    static const char *const ignored[] = {
        /* Commands are recorded nowhere. */
        "vkCmd",
        /* Names and labels: the driver would write to the object behind the handle, which may be one of ours. */
        "vkSetDebugUtilsObject", "vkDebugMarkerSetObject", "vkQueueBeginDebugUtilsLabel", "vkQueueEndDebugUtilsLabel",
        "vkQueueInsertDebugUtilsLabel"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (strncmp(name, ignored[i], strlen(ignored[i])) == 0)
            return (PFN_vkVoidFunction)succeed;
    const entry_point *const tables[] = {memory_entry_points, execution_entry_points, surface_entry_points};
    PFN_vkVoidFunction function = NULL;
    for (size_t i = 0; !function && i < sizeof tables / sizeof *tables; i++)
        function = find_in(tables[i], name);
    if (!function && log_enabled())
        function = find_in(log_entry_points, name);
    return function;
}

static PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)layer_DestroyDevice;
    PFN_vkVoidFunction next = driver_of(device)->GetDeviceProcAddr(device, name);
    /* What the driver does not have, because an extension is not enabled, must not appear through this layer. */
    PFN_vkVoidFunction fake = next ? find_fake(name) : NULL;
    return fake ? fake : next;
}

static PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    static const entry_point own[] = {
        ENTRY("vkGetInstanceProcAddr", layer_GetInstanceProcAddr),
        ENTRY("vkCreateInstance", layer_CreateInstance),
        ENTRY("vkEnumerateInstanceExtensionProperties", layer_EnumerateInstanceExtensionProperties),
        ENTRY("vkDestroyInstance", layer_DestroyInstance),
        ENTRY("vkCreateDevice", layer_CreateDevice),
        ENTRY("vkDestroyDevice", layer_DestroyDevice),
        ENTRY("vkGetDeviceProcAddr", layer_GetDeviceProcAddr),
        ENTRY("vkEnumerateDeviceExtensionProperties", layer_EnumerateDeviceExtensionProperties),
        {NULL, NULL}};
    for (const entry_point *entry = own; entry->name; entry++)
        if (strcmp(entry->name, name) == 0)
            return entry->function;
    if (!instance)
        return NULL;
    PFN_vkVoidFunction next = find_known(instance)->GetInstanceProcAddr(instance, name);
    PFN_vkVoidFunction fake = next ? find_fake(name) : NULL;
    return fake ? fake : next;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    return negotiate(interface, layer_GetInstanceProcAddr, layer_GetDeviceProcAddr);
}
