/*
 * loader.c - what the loader calls: negotiation, vkGetInstanceProcAddr, vkGetDeviceProcAddr.
 *
 * A command that is not in the tables below gets the next layer's pointer, so a call that the layer does not intercept
 * costs nothing.
 */
#include <string.h>

#include "device/device.h"
#include "driver/dispatch.h"
#include "instance/instance.h"

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance, const char *);
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice, const char *);

#define HOOK(name) {"vk" #name, (PFN_vkVoidFunction)layer_##name}

/* LLP_LAYER_15/16: a layer lists its own extensions. This one has none. The loader itself lists layers: it reads
 * manifests. */
static VKAPI_ATTR VkResult VKAPI_CALL layer_EnumerateInstanceExtensionProperties(const char *layer_name,
                                                                                 uint32_t *property_count,
                                                                                 VkExtensionProperties *properties)
{
    (void)properties;
    if (!layer_name || strcmp(layer_name, LAYER_NAME) != 0)
        return VK_ERROR_LAYER_NOT_PRESENT;
    *property_count = 0;
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

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} instance_hooks[] = {
    HOOK(GetInstanceProcAddr),
    HOOK(CreateInstance),
    HOOK(DestroyInstance),
    HOOK(CreateDevice),
    HOOK(EnumerateInstanceExtensionProperties),
    HOOK(EnumerateDeviceExtensionProperties),
};

typedef struct DeviceCommand {
    const char *name;
    PFN_vkVoidFunction hook; /* NULL: only called by the layer */
    enum CommandGroup group;
} DeviceCommand;

#define ROW_HOOKED(group, member, type, name) {"vk" #name, (PFN_vkVoidFunction)layer_##name, COMMANDS_##group},
#define ROW_CALLED(group, member, type, name) {"vk" #name, NULL, COMMANDS_##group},
static const DeviceCommand device_commands[] = {DEVICE_COMMANDS(ROW_HOOKED, ROW_CALLED)};

/* The layer may have enabled VK_KHR_maintenance5 and VK_KHR_pipeline_binary by itself. A program that did not
 * enable them gets none of their commands (LLP_LAYER_18). */
static const char *const maintenance5_commands[] = {
    "vkCmdBindIndexBuffer2KHR",
    "vkGetRenderingAreaGranularityKHR",
    "vkGetDeviceImageSubresourceLayoutKHR",
    "vkGetImageSubresourceLayout2KHR",
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const DeviceCommand *find_device_command(const char *name)
{
    for (size_t i = 0; i < COUNT(device_commands); i++)
        if (strcmp(device_commands[i].name, name) == 0)
            return &device_commands[i];
    return NULL;
}

static bool is_hooked(const Device *device, enum CommandGroup group)
{
    const PylayerPlan *plan = &device->run.plan;
    switch (group) {
    case COMMANDS_DEVICE:
        return true;
    case COMMANDS_CACHES:
        return mode_keeps(plan->mode) || plan->check_caches;
    case COMMANDS_PIPELINES:
        /* Also if the layer stores nothing: the driver may crash on the program's own cache data, and mostly does so in
         * these commands, so they need marks in the crash marker. */
        return plan->mode != PYLAYER_MODE_OFF || plan->tell_creations || (plan->check_caches && !plan->report_caches);
    case COMMANDS_STATE:
        return device->state.on;
    case COMMANDS_NAMES:
        return device->driver.set_object_name && plan->tell_creations;
    case COMMANDS_FRAMES:
        return device->run.sees_frames;
    case COMMANDS_BINARIES:
        return device->binaries.app_enabled && (plan->check_binaries || mode_keeps(plan->mode));
    }
    return false;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetInstanceProcAddr(VkInstance handle, const char *name)
{
    for (size_t i = 0; i < COUNT(instance_hooks); i++)
        if (strcmp(instance_hooks[i].name, name) == 0)
            return instance_hooks[i].function;
    Instance *instance = handle ? dispatch_find(&instance_table, dispatch_key(handle)) : NULL;
    if (!instance)
        return NULL;
    /* Commands of VK_KHR_get_physical_device_properties2 are returned even if only the layer enabled it, against
     * LLP_LAYER_18. The loader keeps one list of enabled extensions for above and below the layers, so its own
     * vkGetPhysicalDeviceProperties2 calls the pointer returned here. NULL would crash a Vulkan 1.0 program. */
    PFN_vkVoidFunction next = instance->get_instance_proc_addr(instance->handle, name);
    if (!next)
        return next;
    /* Device commands queried through the instance: the hook finds its device at each call. LLP_LAYER_18: return a
     * hook only if the next layer knows the command too. */
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    const DeviceCommand *command = find_device_command(name);
    bool hooked = command && command->hook && (instance->active || command->group == COMMANDS_DEVICE);
    return hooked ? command->hook : next;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL layer_GetDeviceProcAddr(VkDevice handle, const char *name)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (!device)
        return NULL;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)layer_GetDeviceProcAddr;
    PFN_vkVoidFunction next = device->driver.get_device_proc_addr(handle, name);
    if (!next)
        return NULL;
    const DeviceCommand *command = find_device_command(name);
    if (mode_keeps(device->run.plan.mode)) {
        bool is_binary_command = command && command->group == COMMANDS_BINARIES;
        if ((is_binary_command && !device->binaries.app_extension) ||
            (!device->binaries.app_maintenance5 && is_named(COUNT(maintenance5_commands), maintenance5_commands, name)))
            return NULL;
    }
    bool hooked = command && command->hook && is_hooked(device, command->group);
    return hooked ? command->hook : next;
}

/* The only exported name apart from those that the C runtime needs (LLP_LAYER_4/5). */
__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    if (!interface || interface->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
        interface->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = layer_GetInstanceProcAddr;
    interface->pfnGetDeviceProcAddr = layer_GetDeviceProcAddr;
    interface->pfnGetPhysicalDeviceProcAddr = NULL; /* the layer hooks no command that the loader does not know */
    return VK_SUCCESS;
}
