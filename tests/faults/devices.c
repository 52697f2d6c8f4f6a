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

/* A struct of a chain that the driver does not know: what is in it stays. */
typedef struct {
    void *structure;
    size_t size;
    char before[64];
} untouched;

static untouched keep(const void *chain, int type, size_t size)
{
    untouched kept = {.structure = (void *)(uintptr_t)find_in_chain(chain, type), .size = size};
    if (kept.structure)
        memcpy(kept.before, kept.structure, size);
    return kept;
}

static void restore(const untouched *kept)
{
    if (kept->structure)
        memcpy(kept->structure, kept->before, kept->size);
}

static VkBool32 *maintenance5_in(const void *chain)
{
    const void *single = find_in_chain(chain, TYPE_MAINTENANCE_5_FEATURES);
    return single ? &((VkPhysicalDeviceMaintenance5FeaturesKHR *)(uintptr_t)single)->maintenance5 : NULL;
}

static VkBool32 *pipeline_binaries_in(const void *chain)
{
    const void *found = find_in_chain(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR);
    return found ? &((VkPhysicalDevicePipelineBinaryFeaturesKHR *)(uintptr_t)found)->pipelineBinaries : NULL;
}

void report_features(get_features2_function get, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features)
{
    check_chain(features->pNext, "vkGetPhysicalDeviceFeatures2");
    untouched binaries = keep(features->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR,
                              sizeof(VkPhysicalDevicePipelineBinaryFeaturesKHR));
    untouched maintenance5 =
        keep(features->pNext, TYPE_MAINTENANCE_5_FEATURES, sizeof(VkPhysicalDeviceMaintenance5FeaturesKHR));
    get(physical, features);
    VkBool32 *cache_control = cache_control_in(features->pNext);
    if (cache_control && faults.no_cache_control)
        *cache_control = VK_FALSE;
    VkBool32 *pipeline_binaries = pipeline_binaries_in(features->pNext);
    if (pipeline_binaries && faults.no_pipeline_binaries_feature)
        *pipeline_binaries = VK_FALSE;
    if (faults.no_binaries)
        restore(&binaries);
    if (faults.no_maintenance5)
        restore(&maintenance5);
}

static void say_instead(long wanted, VkBool32 *property)
{
    if (wanted >= 0)
        *property = wanted != 0;
}

void report_properties(get_properties2_function get, VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    const int type = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR;
    check_chain(properties->pNext, "vkGetPhysicalDeviceProperties2");
    untouched hidden = keep(properties->pNext, type, sizeof(VkPhysicalDevicePipelineBinaryPropertiesKHR));
    get(physical, properties);
    VkPhysicalDevicePipelineBinaryPropertiesKHR *binaries = hidden.structure;
    if (!binaries)
        return;
    say_instead(faults.internal_cache, &binaries->pipelineBinaryInternalCache);
    say_instead(faults.internal_cache_control, &binaries->pipelineBinaryInternalCacheControl);
    say_instead(faults.prefers_internal_cache, &binaries->pipelineBinaryPrefersInternalCache);
    say_instead(faults.precompiled_internal_cache, &binaries->pipelineBinaryPrecompiledInternalCache);
    say_instead(faults.compressed_binaries, &binaries->pipelineBinaryCompressedData);
    if (faults.no_binaries)
        restore(&hidden);
}

static bool is_hidden(const char *extension)
{
    return (faults.no_cache_control && strcmp(extension, CACHE_CONTROL) == 0) ||
           (faults.no_binaries && strcmp(extension, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME) == 0) ||
           (faults.no_maintenance5 && strcmp(extension, VK_KHR_MAINTENANCE_5_EXTENSION_NAME) == 0);
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
    for (uint32_t i = 0; i < *count; i++)
        if (is_hidden(all[i].extensionName))
            all[i--] = all[--*count];
    return all;
}

VkResult enumerate_extensions(instance_state *instance, VkPhysicalDevice physical, const char *layer, uint32_t *count,
                              VkExtensionProperties *properties)
{
    if (!faults.no_cache_control && !faults.no_binaries && !faults.no_maintenance5)
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

/* VUID-VkDevicePipelineBinaryInternalCacheControlKHR-disableInternalCache-09602, and that a feature needs its extension. */
static void check_binaries(instance_state *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                           device_state *state)
{
    VkPhysicalDevicePipelineBinaryPropertiesKHR properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &properties};
    if (instance->get_properties2 && instance->api >= VK_API_VERSION_1_1)
        report_properties(instance->get_properties2, physical, &all);
    const VkDevicePipelineBinaryInternalCacheControlKHR *control =
        find_in_chain(info->pNext, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    const VkBool32 *wanted = pipeline_binaries_in(info->pNext), *maintenance5 = maintenance5_in(info->pNext);
    state->binaries = wanted && *wanted;
    state->internal_cache = properties.pipelineBinaryInternalCache;
    state->internal_cache_disabled = control && control->disableInternalCache;
    if (wanted && !has_name(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME))
        violation("vkCreateDevice with the pipeline binary struct and without the extension");
    if (maintenance5 && !has_name(info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME) &&
        instance->api < VK_MAKE_API_VERSION(0, 1, 4, 0))
        violation("vkCreateDevice with the maintenance5 struct and without the extension");
    /* The flags of VkPipelineCreateFlags2CreateInfo come with maintenance5. */
    if (state->binaries && !(maintenance5 && *maintenance5) && !find_in_chain(info->pNext, TYPE_VULKAN_1_4_FEATURES))
        violation("vkCreateDevice with pipelineBinaries and without maintenance5");
    if (state->binaries && faults.no_pipeline_binaries_feature)
        violation("vkCreateDevice with pipelineBinaries, which the driver does not report");
    if (control && !has_name(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME))
        violation("vkCreateDevice with the internal cache control struct and without the extension");
    if (state->internal_cache_disabled && !properties.pipelineBinaryInternalCacheControl)
        violation("vkCreateDevice with disableInternalCache, which the driver does not offer");
}

static void describe(const VkDeviceCreateInfo *info, const device_state *state, VkResult refused)
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
    note("vkCreateDevice cache_control=%d binaries=%d internal_cache_disabled=%d refused=%d chain=%s extensions=%s",
         state->cache_control, state->binaries, state->internal_cache_disabled, refused, chain, names);
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
    check_binaries(instance, physical, info, state);
    if (wanted && !core && !has_name(info, CACHE_CONTROL))
        violation("vkCreateDevice with the cache control struct and without the extension");
    if (state->cache_control && !driver_has_cache_control(instance, physical))
        violation("vkCreateDevice with pipelineCreationCacheControl, which the driver does not report");
    VkResult refused = VK_SUCCESS;
    if (state->cache_control && (faults.no_cache_control || faults.device_refuses_cache_control))
        refused = VK_ERROR_FEATURE_NOT_PRESENT;
    if (state->binaries && (faults.no_binaries || faults.device_refuses_binaries))
        refused = VK_ERROR_FEATURE_NOT_PRESENT;
    if (faults.device_refused)
        refused = VK_ERROR_INITIALIZATION_FAILED;
    describe(info, state, refused);
    return refused;
}
