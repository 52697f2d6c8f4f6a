/* What the loader asks for, instances and physical devices. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct DriverInstance {
    VK_LOADER_DATA loader;
    DriverPhysical devices[MAX_DEVICES];
} DriverInstance;

static const DriverPhysical *physical_of(VkPhysicalDevice physical)
{
    return (const DriverPhysical *)(void *)physical;
}

static VkResult VKAPI_CALL enumerate_instance_extensions(const char *layer, uint32_t *count,
                                                         VkExtensionProperties *properties)
{
    static const VkExtensionProperties all[] = {{VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME, 2},
                                                {VK_KHR_SURFACE_EXTENSION_NAME, 25},
                                                {VK_EXT_HEADLESS_SURFACE_EXTENSION_NAME, 1}};
    const uint32_t have = sizeof all / sizeof *all;
    uint32_t room = properties && *count < have ? *count : have;
    *count = room;
    for (uint32_t i = 0; properties && i < room; i++)
        properties[i] = all[i];
    return room < have ? VK_INCOMPLETE : VK_SUCCESS;
}

static VkResult VKAPI_CALL enumerate_instance_version(uint32_t *version)
{
    *version = API;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                           VkInstance *instance)
{
    uint32_t api = info->pApplicationInfo ? info->pApplicationInfo->apiVersion : 0;
    watch_exit();
    VkResult result = act_or_error(DO_CREATE_INSTANCE);
    if (result != VK_SUCCESS)
        return result;
    DriverInstance *made = allocate(sizeof *made);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    set_loader_magic_value(made);
    for (uint32_t i = 0; i < settings.device_count; i++) {
        made->devices[i] = (DriverPhysical){.settings = &settings.devices[i], .index = i};
        made->devices[i].api = api < API ? api : API;
        set_loader_magic_value(&made->devices[i]);
    }
    *instance = (VkInstance)(void *)made;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    free((void *)instance);
}

static VkResult VKAPI_CALL enumerate_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
    DriverInstance *of = (DriverInstance *)(void *)instance;
    uint32_t room = *count, all = settings.device_count;
    *count = devices && room < all ? room : all;
    for (uint32_t i = 0; devices && i < *count; i++)
        devices[i] = (VkPhysicalDevice)(void *)&of->devices[i];
    return devices && room < all ? VK_INCOMPLETE : VK_SUCCESS;
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    const DeviceSettings *of = physical_of(physical)->settings;
    DriverDevice found = {.settings = of};
    VkResult result = check_device(physical_of(physical), info, &found);
    unsigned traits = (found.binaries ? TRAIT_BINARIES : 0) | (found.cache_control ? TRAIT_CACHE_CONTROL : 0) |
                      (has_unanswered(info) ? TRAIT_UNANSWERED : 0);
    Verdict verdict = act(DO_CREATE_DEVICE, traits);
    if (verdict.action == ACT_ERROR)
        result = verdict.result;
    note_device(info, result);
    if (result != VK_SUCCESS)
        return result;
    DriverDevice *made = allocate(sizeof *made);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    *made = found;
    set_loader_magic_value(made);
    set_loader_magic_value(&made->queue);
    *device = (VkDevice)(void *)made;
    return VK_SUCCESS;
}

static PFN_vkVoidFunction VKAPI_CALL get_command(VkInstance instance, const char *name);

const EntryPoint instance_commands[] = {
    ENTRY("vkGetInstanceProcAddr", get_command),
    ENTRY("vkEnumerateInstanceExtensionProperties", enumerate_instance_extensions),
    ENTRY("vkEnumerateInstanceVersion", enumerate_instance_version),
    ENTRY("vkCreateInstance", create_instance),
    ENTRY("vkDestroyInstance", destroy_instance),
    ENTRY("vkEnumeratePhysicalDevices", enumerate_devices),
    ENTRY("vkCreateDevice", create_device),
    {NULL, NULL},
};

PFN_vkVoidFunction find_command(const EntryPoint *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->function;
}

static PFN_vkVoidFunction VKAPI_CALL get_command(VkInstance instance, const char *name)
{
    const EntryPoint *const tables[] = {instance_commands, physical_commands, device_commands, cache_commands,
                                        pipeline_commands, binary_commands,   ray_commands,    swapchain_commands};
    PFN_vkVoidFunction found = NULL;
    for (size_t i = 0; !found && i < sizeof tables / sizeof *tables; i++)
        found = find_command(tables[i], name);
    return found;
}

/* ---- the interface of loader and driver ---- */

EXPORT VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);
EXPORT PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);

VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
    *version = *version < 5 ? *version : 5;
    return VK_SUCCESS;
}

PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
    return get_command(instance, name);
}
