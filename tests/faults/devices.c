/* What is reported of a device, and what may be enabled on it. */
#include "faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_CONTROL "VK_EXT_pipeline_creation_cache_control"
#define FEEDBACK "VK_EXT_pipeline_creation_feedback"

static VkBool32 *cache_control_in(const void *chain)
{
    const void *core = find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    const void *single =
        find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES);
    if (core)
        return &((VkPhysicalDeviceVulkan13Features *)(uintptr_t)core)->pipelineCreationCacheControl;
    if (single)
        return &((VkPhysicalDevicePipelineCreationCacheControlFeatures *)(uintptr_t)single)
                    ->pipelineCreationCacheControl;
    return NULL;
}

void hide_features(VkPhysicalDeviceFeatures2 *features)
{
    check_chain(features->pNext, "vkGetPhysicalDeviceFeatures2");
    VkBool32 *cache_control = cache_control_in(features->pNext);
    if (cache_control && faults.no_cache_control)
        *cache_control = VK_FALSE;
}

static VkExtensionProperties *offered(instance_state *instance, VkPhysicalDevice physical, const char *layer,
                                      uint32_t *count, VkResult *result)
{
    *count = 0;
    *result = instance->enumerate_extensions(physical, layer, count, NULL);
    VkExtensionProperties *all = calloc(*count + 1, sizeof *all);
    if (!all)
        abort();
    if (*result == VK_SUCCESS)
        *result = instance->enumerate_extensions(physical, layer, count, all);
    for (uint32_t i = 0; faults.no_cache_control && i < *count; i++)
        if (strcmp(all[i].extensionName, CACHE_CONTROL) == 0)
            all[i--] = all[--*count];
    return all;
}

VkResult enumerate_extensions(instance_state *instance, VkPhysicalDevice physical, const char *layer, uint32_t *count,
                              VkExtensionProperties *properties)
{
    if (!faults.no_cache_control)
        return instance->enumerate_extensions(physical, layer, count, properties);
    uint32_t have;
    VkResult result;
    VkExtensionProperties *all = offered(instance, physical, layer, &have, &result);
    if (result == VK_SUCCESS && properties) {
        if (*count < have)
            result = VK_INCOMPLETE;
        else
            *count = have;
        memcpy(properties, all, *count * sizeof *all);
    } else if (result == VK_SUCCESS) {
        *count = have;
    }
    free(all);
    return result;
}

static bool has_name(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

static void check_extensions(instance_state *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info)
{
    uint32_t count;
    VkResult result;
    VkExtensionProperties *all = offered(instance, physical, NULL, &count, &result);
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        const char *name = info->ppEnabledExtensionNames[i];
        bool listed = false;
        for (uint32_t j = 0; j < count; j++)
            listed |= strcmp(all[j].extensionName, name) == 0;
        if (!listed)
            violation("vkCreateDevice with %s, which the driver does not list", name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(info->ppEnabledExtensionNames[j], name) == 0)
                violation("vkCreateDevice with %s twice", name);
    }
    free(all);
}

static bool driver_has_cache_control(instance_state *instance, VkPhysicalDevice physical)
{
    VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &control};
    PFN_vkGetPhysicalDeviceFeatures2 ask =
        instance->api >= VK_API_VERSION_1_1 ? instance->get_features2 : instance->get_features2_khr;
    if (!ask || faults.no_cache_control)
        return false;
    ask(physical, &features);
    return control.pipelineCreationCacheControl;
}

/* VUID-VkDeviceCreateInfo-pNext-06532, -10360 and -00373: what must not stand beside what. */
static void check_features(const VkDeviceCreateInfo *info)
{
    const void *chain = info->pNext;
    if (find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) &&
        find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES))
        violation("vkCreateDevice with VkPhysicalDeviceVulkan13Features and the cache control struct");
    if (find_in_chain(chain, TYPE_VULKAN_1_4_FEATURES) && find_in_chain(chain, TYPE_MAINTENANCE_5_FEATURES))
        violation("vkCreateDevice with VkPhysicalDeviceVulkan14Features and the maintenance5 struct");
    if (info->pEnabledFeatures && find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2))
        violation("vkCreateDevice with pEnabledFeatures and VkPhysicalDeviceFeatures2");
}

static void describe(const VkDeviceCreateInfo *info, bool cache_control, VkResult refused)
{
    char chain[512] = "", names[1024] = "";
    size_t used = 0;
    for (const VkBaseInStructure *node = info->pNext; node && used < sizeof chain - 16; node = node->pNext)
        if (node->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
            used += (size_t)snprintf(chain + used, sizeof chain - used, "%s%d", used ? "," : "", (int)node->sType);
    used = 0;
    for (uint32_t i = 0; i < info->enabledExtensionCount && used < sizeof names - 300; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? "," : "", info->ppEnabledExtensionNames[i]);
    note("vkCreateDevice cache_control=%d refused=%d chain=%s extensions=%s", cache_control, refused, chain, names);
}

VkResult check_device(instance_state *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                      device_state *state)
{
    VkPhysicalDeviceProperties properties;
    instance->get_properties(physical, &properties);
    bool core = properties.apiVersion >= VK_API_VERSION_1_3 && instance->api >= VK_API_VERSION_1_3;
    const VkBool32 *wanted = cache_control_in(info->pNext);
    state->cache_control = wanted && *wanted;
    state->feedback = core || has_name(info, FEEDBACK);
    check_chain(info->pNext, "vkCreateDevice");
    check_extensions(instance, physical, info);
    check_features(info);
    if (wanted && !core && !has_name(info, CACHE_CONTROL))
        violation("vkCreateDevice with the cache control struct and without the extension");
    if (state->cache_control && !driver_has_cache_control(instance, physical))
        violation("vkCreateDevice with pipelineCreationCacheControl, which the driver does not report");
    VkResult refused = VK_SUCCESS;
    if (state->cache_control && (faults.no_cache_control || faults.device_refuses_cache_control))
        refused = VK_ERROR_FEATURE_NOT_PRESENT;
    if (faults.device_refused)
        refused = VK_ERROR_INITIALIZATION_FAILED;
    describe(info, state->cache_control, refused);
    return refused;
}
