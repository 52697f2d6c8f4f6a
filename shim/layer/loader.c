/*
 * loader.c - the loader's way in: negotiation, vkGetInstanceProcAddr, vkGetDeviceProcAddr.
 *
 * What is not in the tables below is answered with the next layer's pointer, so that a call which the
 * layer does not intercept costs nothing.
 */
#include <string.h>

#include "layer.h"
#include "pipeline_binaries.h"
#include "properties.h"

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance, const char *);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice, const char *);

typedef struct Hook {
    const char *name;
    PFN_vkVoidFunction function;
} Hook;

#define HOOK(name) {"vk" #name, (PFN_vkVoidFunction)layer_##name}

static const VkLayerProperties layer_properties = {
    .layerName = LAYER_NAME,
    .specVersion = VK_MAKE_API_VERSION(0, 1, 4, 0),
    .implementationVersion = 1,
    .description = "Pipeline caching that survives: validated, transparent, visible",
};

/* LLP_LAYER_15/16: a layer lists itself and its extensions; this one has no device extension. */
static VkResult list_one_layer(uint32_t *property_count, VkLayerProperties *properties)
{
    if (!properties) {
        *property_count = 1;
        return VK_SUCCESS;
    }
    if (*property_count < 1)
        return VK_INCOMPLETE;
    *property_count = 1;
    properties[0] = layer_properties;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateInstanceLayerProperties(uint32_t *property_count,
                                                                             VkLayerProperties *properties)
{
    return list_one_layer(property_count, properties);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateDeviceLayerProperties(VkPhysicalDevice physical,
                                                                           uint32_t *property_count,
                                                                           VkLayerProperties *properties)
{
    (void)physical;
    return list_one_layer(property_count, properties);
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateInstanceExtensionProperties(const char *layer_name,
                                                                                 uint32_t *property_count,
                                                                                 VkExtensionProperties *properties)
{
    static const VkExtensionProperties settings = {VK_EXT_LAYER_SETTINGS_EXTENSION_NAME,
                                                   VK_EXT_LAYER_SETTINGS_SPEC_VERSION};
    if (!layer_name || strcmp(layer_name, LAYER_NAME) != 0)
        return VK_ERROR_LAYER_NOT_PRESENT;
    uint32_t room = *property_count;
    *property_count = properties && room < 1 ? 0 : 1;
    if (!properties)
        return VK_SUCCESS;
    if (room < 1)
        return VK_INCOMPLETE;
    properties[0] = settings;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateDeviceExtensionProperties(VkPhysicalDevice physical,
                                                                               const char *layer_name,
                                                                               uint32_t *property_count,
                                                                               VkExtensionProperties *properties)
{
    if (layer_name && strcmp(layer_name, LAYER_NAME) == 0) {
        *property_count = 0;
        return VK_SUCCESS;
    }
    Instance *instance = dispatch_find(&instance_table, dispatch_key(physical));
    if (!instance || !instance->enumerate_device_extensions)
        return VK_ERROR_INITIALIZATION_FAILED;
    return instance->enumerate_device_extensions(physical, layer_name, property_count, properties);
}

static const Hook instance_hooks[] = {
    HOOK(GetInstanceProcAddr),
    HOOK(CreateInstance),
    HOOK(DestroyInstance),
    HOOK(CreateDevice),
    HOOK(EnumerateInstanceLayerProperties),
    HOOK(EnumerateInstanceExtensionProperties),
    HOOK(EnumerateDeviceLayerProperties),
    HOOK(EnumerateDeviceExtensionProperties),
};

/* Intercepted where policy runs, and the next layer has the command. */
static const Hook properties_hooks[] = {
    {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)layer_GetPhysicalDeviceProperties2},
    {"vkGetPhysicalDeviceProperties2KHR", (PFN_vkVoidFunction)layer_GetPhysicalDeviceProperties2},
};

/* Intercepted on every device. */
static const Hook device_hooks[] = {
    HOOK(GetDeviceProcAddr),
    HOOK(DestroyDevice),
};

/* Intercepted where the device has a carrier, or its application caches are checked. */
static const Hook cache_hooks[] = {
    HOOK(CreatePipelineCache),         HOOK(DestroyPipelineCache),        HOOK(GetPipelineCacheData),
    HOOK(MergePipelineCaches),         HOOK(CreateRayTracingPipelinesNV), HOOK(CreateExecutionGraphPipelinesAMDX),
    HOOK(CreateDataGraphPipelinesARM),
};

/* Intercepted where the device has a carrier, or policy wants to know what is created. */
static const Hook pipeline_hooks[] = {
    HOOK(CreateGraphicsPipelines),       HOOK(CreateComputePipelines),
    HOOK(CreateRayTracingPipelinesKHR),  HOOK(CreateShaderModule),
    HOOK(DestroyShaderModule),           HOOK(DeferredOperationJoinKHR),
    HOOK(GetDeferredOperationResultKHR), HOOK(DestroyDeferredOperationKHR),
};

/* Intercepted where the application has pipeline binaries. */
static const Hook binary_hooks[] = {
    HOOK(CreatePipelineBinariesKHR),
    HOOK(GetPipelineBinaryDataKHR),
};

/* Commands of what the layer may have enabled by itself: an application that did not has none of them (LLP_LAYER_18). */
static const char *const binary_commands[] = {
    "vkCreatePipelineBinariesKHR", "vkDestroyPipelineBinaryKHR",       "vkGetPipelineKeyKHR",
    "vkGetPipelineBinaryDataKHR",  "vkReleaseCapturedPipelineDataKHR",
};
static const char *const maintenance5_commands[] = {
    "vkCmdBindIndexBuffer2KHR",
    "vkGetRenderingAreaGranularityKHR",
    "vkGetDeviceImageSubresourceLayoutKHR",
    "vkGetImageSubresourceLayout2KHR",
};

static bool is_one_of(const char *const *names, size_t name_count, const char *name)
{
    for (size_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

#define IS_ONE_OF(names, name) is_one_of(names, sizeof(names) / sizeof(names)[0], name)

static PFN_vkVoidFunction find_hook(const Hook *hooks, size_t hook_count, const char *name)
{
    for (size_t i = 0; i < hook_count; i++)
        if (strcmp(hooks[i].name, name) == 0)
            return hooks[i].function;
    return NULL;
}

#define FIND(hooks, name) find_hook(hooks, sizeof(hooks) / sizeof(hooks)[0], name)

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance handle, const char *name)
{
    PFN_vkVoidFunction hook = FIND(instance_hooks, name);
    if (hook)
        return hook;
    Instance *instance = handle ? dispatch_find(&instance_table, dispatch_key(handle)) : NULL;
    if (!instance)
        return NULL;
    /* Commands of VK_KHR_get_physical_device_properties2 are answered even where the layer alone enabled it, against
     * LLP_LAYER_18. The loader keeps one list of enabled extensions for above and below the layers, so its
     * vkGetPhysicalDeviceProperties2 then calls what is answered here. NULL would crash a program of Vulkan 1.0. */
    PFN_vkVoidFunction next = instance->get_instance_proc_addr(instance->handle, name);
    if (!next)
        return next;
    hook = instance->active && instance->get_properties2 ? FIND(properties_hooks, name) : NULL;
    if (hook)
        return hook;
    /* Device commands asked of the instance: the hook finds its device at each call. LLP_LAYER_18: only
     * what the next layer knows too. */
    hook = FIND(device_hooks, name);
    if (hook || !instance->active)
        return hook ? hook : next;
    hook = FIND(cache_hooks, name);
    if (!hook)
        hook = FIND(pipeline_hooks, name);
    if (!hook)
        hook = FIND(binary_hooks, name);
    return hook ? hook : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice handle, const char *name)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (!device)
        return NULL;
    PFN_vkVoidFunction hook = FIND(device_hooks, name);
    if (hook)
        return hook;
    PFN_vkVoidFunction next = device->get_device_proc_addr(handle, name);
    if (!next)
        return NULL;
    bool keeps = carrier_keeps(device->plan.carrier);
    if (keeps && ((!device->app_binary_extension && IS_ONE_OF(binary_commands, name)) ||
                  (!device->app_maintenance5 && IS_ONE_OF(maintenance5_commands, name))))
        return NULL;
    if (keeps || device->plan.check_caches)
        hook = FIND(cache_hooks, name);
    /* Without a carrier too, the application's data may be what a driver crashes on, and mostly here: the sentinel. */
    bool mends = device->plan.check_caches && !device->plan.report_caches;
    if (!hook && (mends || device->plan.carrier != PYLAYER_CARRIER_OFF || device->plan.tell_creations))
        hook = FIND(pipeline_hooks, name);
    if (!hook && device->app_binaries && (device->plan.check_binaries || keeps))
        hook = FIND(binary_hooks, name);
    return hook ? hook : next;
}

/* Physical-device commands unknown to the loader: none of them are ours. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetPhysicalDeviceProcAddr(VkInstance handle, const char *name)
{
    Instance *instance = handle ? dispatch_find(&instance_table, dispatch_key(handle)) : NULL;
    if (!instance || !instance->get_physical_device_proc_addr)
        return NULL;
    return instance->get_physical_device_proc_addr(instance->handle, name);
}

/* The only exported name besides what the C runtime needs (LLP_LAYER_4/5). */
__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    if (!interface || interface->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
        interface->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = layer_GetInstanceProcAddr;
    interface->pfnGetDeviceProcAddr = layer_GetDeviceProcAddr;
    interface->pfnGetPhysicalDeviceProcAddr = layer_GetPhysicalDeviceProcAddr;
    return VK_SUCCESS;
}
