/*
 * instance.c - vkCreateInstance and vkDestroyInstance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "driver/dispatch.h"
#include "instance/instance.h"
#include "policy/policy.h"
#include "process/process.h"
#include "instance/skip.h"
#include "process/program_name.h"

#define PROPERTIES2_EXTENSION VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME

static void copy_name(char *to, const char *from)
{
    snprintf(to, PYLAYER_NAME_BYTES, "%s", from ? from : "");
}

/* *out: zeros. */
static void describe_program(PylayerInstanceInfo *out, const VkApplicationInfo *application)
{
    out->api_version = VK_API_VERSION_1_0;
    if (!application)
        return;
    if (application->apiVersion)
        out->api_version = application->apiVersion;
    out->application_version = application->applicationVersion;
    out->engine_version = application->engineVersion;
    copy_name(out->application_name, application->pApplicationName);
    copy_name(out->engine_name, application->pEngineName);
}

bool is_named(size_t count, const char *const *names, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/*
 * A Vulkan 1.0 instance reports the driver's identity and features only with VK_KHR_get_physical_device_properties2.
 * The device extensions depend on it too (VUID-vkCreateDevice-ppEnabledExtensionNames-01387). The loader itself
 * implements it.
 */
static bool wants_properties2(const VkInstanceCreateInfo *info, uint32_t api_version)
{
    return api_version < VK_API_VERSION_1_1 &&
           !is_named(info->enabledExtensionCount, info->ppEnabledExtensionNames, PROPERTIES2_EXTENSION);
}

static VkResult create_with_properties2(PFN_vkCreateInstance create, const VkInstanceCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkInstance *handle)
{
    const char **names = malloc((info->enabledExtensionCount + 1) * sizeof *names);
    if (!names)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (info->enabledExtensionCount)
        memcpy(names, info->ppEnabledExtensionNames, info->enabledExtensionCount * sizeof *names);
    VkInstanceCreateInfo changed = *info;
    names[changed.enabledExtensionCount++] = PROPERTIES2_EXTENSION;
    changed.ppEnabledExtensionNames = names;
    VkResult result = create(&changed, allocator, handle);
    free(names);
    return result;
}

static VkResult create_below(VkLayerInstanceCreateInfo *link, const VkInstanceCreateInfo *info,
                             const VkAllocationCallbacks *allocator, bool add_properties2, VkInstance *handle)
{
    VkLayerInstanceLink *mine = link->u.pLayerInfo;
    PFN_vkCreateInstance create =
        (PFN_vkCreateInstance)mine->pfnNextGetInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance");
    if (!create)
        return VK_ERROR_INITIALIZATION_FAILED;
    VkInstance untouched = *handle;
    link->u.pLayerInfo = mine->pNext; /* LLP_LAYER_12: before calling down */
    if (add_properties2) {
        VkResult result = create_with_properties2(create, info, allocator, handle);
        if (result == VK_SUCCESS)
            return result;
        /* Call again exactly as the application did. Reset the link, because the layers below advanced it too. */
        link->u.pLayerInfo = mine->pNext;
        *handle = untouched;
    }
    return create(info, allocator, handle);
}

static void resolve(Instance *instance, const VkLayerInstanceLink *link)
{
    PFN_vkGetInstanceProcAddr next = link->pfnNextGetInstanceProcAddr;
    VkInstance handle = instance->handle;
    instance->get_instance_proc_addr = next;
    instance->destroy_instance = (PFN_vkDestroyInstance)next(handle, "vkDestroyInstance");
    instance->get_properties = (PFN_vkGetPhysicalDeviceProperties)next(handle, "vkGetPhysicalDeviceProperties");
    instance->get_properties2 = (PFN_vkGetPhysicalDeviceProperties2)next(handle, "vkGetPhysicalDeviceProperties2");
    if (!instance->get_properties2 || instance->info.api_version < VK_API_VERSION_1_1)
        instance->get_properties2 =
            (PFN_vkGetPhysicalDeviceProperties2)next(handle, "vkGetPhysicalDeviceProperties2KHR");
    instance->get_features2 = (PFN_vkGetPhysicalDeviceFeatures2)next(handle, "vkGetPhysicalDeviceFeatures2");
    if (!instance->get_features2 || instance->info.api_version < VK_API_VERSION_1_1)
        instance->get_features2 = (PFN_vkGetPhysicalDeviceFeatures2)next(handle, "vkGetPhysicalDeviceFeatures2KHR");
    instance->enumerate_device_extensions =
        (PFN_vkEnumerateDeviceExtensionProperties)next(handle, "vkEnumerateDeviceExtensionProperties");
}

/*
 * The manifest makes the loader check this variable for the implicit layer. Nobody checks it for an explicit layer,
 * which VK_INSTANCE_LAYERS or the program itself may have requested. As with the loader, any value counts, even an
 * empty one. The layer stays in the chain: refusing would fail a program that named it (VK_ERROR_LAYER_NOT_PRESENT).
 */
static bool switched_off(void)
{
    if (!getenv("DISABLE_PYLAYER"))
        return false;
    log_line(PYLAYER_LOG_INFO, "DISABLE_PYLAYER is set; the layer does nothing in this process");
    return true;
}

/* Returns true if the layer may do something in this process. Fills in what the skip rules leave to policy. */
static bool is_active(Instance *instance)
{
    /* The loader activates installed layers in setuid programs too, because it reads VK_INSTANCE_LAYERS with plain
     * getenv. */
    bool elevated = getauxval(AT_SECURE) != 0, forked = process_is_forked_child();
    if (forked)
        log_line(PYLAYER_LOG_INFO,
                 "this process was forked from one that had an instance; the layer does nothing in it");
    if (elevated || forked || switched_off())
        return false;
    environment_remember();
    instance->info.program_id = program_id(instance->info.application_name);
    instance->skip = skip_decide(&instance->info);
    return instance->skip != PYLAYER_SKIP_YES && policy_prepare();
}

static void free_instance(Instance *instance)
{
    free(instance->object.data);
    free(instance);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkInstance *handle)
{
    VkLayerInstanceCreateInfo *link = pnext_find_link(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link || !link->u.pLayerInfo)
        return VK_ERROR_INITIALIZATION_FAILED;
    VkLayerInstanceLink *mine = link->u.pLayerInfo;
    Instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    describe_program(&instance->info, info->pApplicationInfo);
    instance->active = is_active(instance);
    bool add_properties2 = instance->active && wants_properties2(info, instance->info.api_version);
    const VkAllocationCallbacks *below = callbacks_below(instance, allocator);
    VkResult result = create_below(link, info, below, add_properties2, handle);
    if (result != VK_SUCCESS) {
        free_instance(instance);
        return result;
    }
    instance->handle = *handle;
    if (instance->active)
        instance->object = state_of_instance(info);
    instance->debug_utils =
        is_named(info->enabledExtensionCount, info->ppEnabledExtensionNames, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    resolve(instance, mine);
    if (!dispatch_insert(&instance_table, dispatch_key(*handle), instance)) {
        instance->destroy_instance(*handle, below);
        free_instance(instance);
        return VK_ERROR_TOO_MANY_OBJECTS;
    }
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance handle, const VkAllocationCallbacks *allocator)
{
    if (!handle)
        return;
    Instance *instance = dispatch_remove(&instance_table, dispatch_key(handle));
    if (!instance)
        return;
    instance->destroy_instance(handle, callbacks_below(instance, allocator));
    free_instance(instance);
}
