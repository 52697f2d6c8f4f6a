/*
 * features.c - what the layer adds to a VkDeviceCreateInfo: creation feedback, pipelineCreationCacheControl, and
 * pipelineBinaries with what it depends on. It adds only what the next layer offers
 * (VUID-vkCreateDevice-ppEnabledExtensionNames-01387).
 */
#include <stdlib.h>
#include <string.h>

#include "instance/features.h"

/* Of VkPhysicalDeviceVulkan14Features::maintenance5, which older headers do not have: 15 others precede it. */
#define MAINTENANCE5_OFFSET (sizeof(VkBaseOutStructure) + 15 * sizeof(VkBool32))

/* A feature is a member of its extension's struct, of which it is the only VkBool32, or of the struct of the core
 * version that includes it. If the latter is chained, the former must not be (VUID-VkDeviceCreateInfo-pNext-06532,
 * -10360). */
static const struct {
    const char *extension, *feature;
    uint32_t core; /* the version that includes it */
    VkStructureType core_struct;
    size_t core_offset;
    VkStructureType own_struct;
} additions[ADDITIONS] = {
    [ADD_FEEDBACK] = {"VK_EXT_pipeline_creation_feedback", NULL, VK_API_VERSION_1_3, 0, 0, 0},
    [ADD_CACHE_CONTROL] = {"VK_EXT_pipeline_creation_cache_control", "pipelineCreationCacheControl", VK_API_VERSION_1_3,
                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                           offsetof(VkPhysicalDeviceVulkan13Features, pipelineCreationCacheControl),
                           VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES},
    [ADD_BINARIES] = {VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, "pipelineBinaries", UINT32_MAX, 0, 0,
                      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR},
    /* VK_KHR_pipeline_binary depends on it, or on VK_KHR_extended_flags, which devices without maintenance5
     * would have. */
    [ADD_MAINTENANCE5] = {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, "pipelineBinaries", VK_MAKE_API_VERSION(0, 1, 4, 0),
                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES, MAINTENANCE5_OFFSET,
                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR},
};

#ifdef VK_VERSION_1_4
_Static_assert(offsetof(VkPhysicalDeviceVulkan14Features, maintenance5) == MAINTENANCE5_OFFSET, "as in the headers");
#endif

static bool requests_extension(const VkDeviceCreateInfo *info, const char *name)
{
    return is_named(info->enabledExtensionCount, info->ppEnabledExtensionNames, name);
}

/* Returns the chained struct that contains a feature, and where in it the feature is; NULL if none is chained. */
static const VkBaseInStructure *find_feature(const void *chain, enum Addition which, const VkBool32 **value)
{
    const VkBaseInStructure *found =
        additions[which].core_struct ? pnext_find(chain, additions[which].core_struct) : NULL;
    size_t offset = found ? additions[which].core_offset : offsetof(OneFeature, value);
    if (!found)
        found = pnext_find(chain, additions[which].own_struct);
    *value = found ? (const VkBool32 *)(const void *)((const char *)found + offset) : NULL;
    return found;
}

static bool enables_feature(const VkDeviceCreateInfo *info, enum Addition which)
{
    const VkBool32 *value;
    return find_feature(info->pNext, which, &value) && *value;
}

/* ---- what the device supports ------------------------------------------------------------------ */

/* Drivers have 150 to 250. The loader reads all manifests of layers in each of these calls (0.3 ms), so it is one,
 * without asking for the number first. */
#define MOST_EXTENSIONS 1024u

static void find_offered(const Instance *instance, VkPhysicalDevice physical, bool offered[ADDITIONS])
{
    uint32_t found = MOST_EXTENSIONS;
    VkExtensionProperties *properties = calloc(found, sizeof *properties);
    if (!properties || !instance->enumerate_device_extensions ||
        instance->enumerate_device_extensions(physical, NULL, &found, properties) < 0)
        found = 0;
    for (uint32_t i = 0; i < found && i < MOST_EXTENSIONS; i++)
        for (int which = 0; which < ADDITIONS; which++)
            offered[which] |= strcmp(properties[i].extensionName, additions[which].extension) == 0;
    free(properties);
}

/* Asks the driver for the features whose structs it may know. */
static void ask_for_features(const Instance *instance, VkPhysicalDevice physical, const bool known[ADDITIONS],
                             bool has[ADDITIONS])
{
    OneFeature asked[ADDITIONS];
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    for (int which = 0; which < ADDITIONS; which++) {
        asked[which] = (OneFeature){additions[which].own_struct, features.pNext, VK_FALSE};
        if (known[which])
            features.pNext = &asked[which];
    }
    if (features.pNext && instance->get_features2)
        instance->get_features2(physical, &features);
    for (int which = 0; which < ADDITIONS; which++)
        has[which] = asked[which].value;
}

bool features_shader_module_identifiers(const VkDeviceCreateInfo *info)
{
    const VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT *identifiers =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT);
    return identifiers && identifiers->shaderModuleIdentifier &&
           requests_extension(info, VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME);
}

void features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                    uint32_t device_api_version, FeatureSupport *support)
{
    /* The effective version is the lower of what the application requested and what the device supports. */
    uint32_t api = instance->info.api_version < device_api_version ? instance->info.api_version : device_api_version;
    support->internal_cache_control =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    bool offered[ADDITIONS] = {false}, known[ADDITIONS] = {false}, has[ADDITIONS];
    find_offered(instance, physical, offered);
    for (int which = 0; which < ADDITIONS; which++) {
        support->core[which] = api >= additions[which].core;
        support->named[which] = requests_extension(info, additions[which].extension);
        support->requested[which] = which != ADD_FEEDBACK && enables_feature(info, (enum Addition)which);
    }
    support->requested[ADD_FEEDBACK] = support->core[ADD_FEEDBACK] || support->named[ADD_FEEDBACK];
    support->requested[ADD_BINARIES] &= support->named[ADD_BINARIES];
    known[ADD_CACHE_CONTROL] = offered[ADD_CACHE_CONTROL] || support->core[ADD_CACHE_CONTROL];
    /* VK_KHR_maintenance5 depends on Vulkan 1.3, or on 1.1 and VK_KHR_dynamic_rendering. An application that enables it
     * meets that. */
    known[ADD_BINARIES] = known[ADD_MAINTENANCE5] =
        offered[ADD_BINARIES] &&
        (support->core[ADD_MAINTENANCE5] ||
         (offered[ADD_MAINTENANCE5] && (api >= VK_API_VERSION_1_3 || support->named[ADD_MAINTENANCE5])));
    ask_for_features(instance, physical, known, has);
    support->supported[ADD_FEEDBACK] = offered[ADD_FEEDBACK] || support->core[ADD_FEEDBACK];
    support->supported[ADD_CACHE_CONTROL] = has[ADD_CACHE_CONTROL];
    support->supported[ADD_BINARIES] = has[ADD_BINARIES] && has[ADD_MAINTENANCE5];
}

/* ---- what the layer adds ----------------------------------------------------------------------- */

/* Returns false, and says so, if the feature is off in a struct that cannot be copied, because one of unknown size
 * precedes it. */
static bool can_set(const VkDeviceCreateInfo *info, enum Addition which)
{
    const VkBool32 *value;
    const VkBaseInStructure *found = find_feature(info->pNext, which, &value);
    const VkBaseInStructure *unknown = found && !*value ? pnext_unknown_until(info->pNext, found) : NULL;
    if (unknown)
        log_line(PYLAYER_LOG_WARN,
                 "the pNext chain of VkDeviceCreateInfo has a structure that the layer does not know (sType %u): "
                 "%s is not enabled",
                 (unsigned)unknown->sType, additions[which].feature);
    return !unknown;
}

static void put_in_front(DeviceRequest *request, OneFeature *own, VkStructureType type)
{
    *own = (OneFeature){type, (void *)(uintptr_t)request->info.pNext, VK_TRUE};
    request->info.pNext = own;
}

/* Sets each feature in a copy of the chained struct that has it, otherwise in a struct of our own. Returns false if
 * memory is short. */
static bool set_features(DeviceRequest *request, const bool set[ADDITIONS])
{
    const VkBaseInStructure *last = NULL;
    const VkBool32 *value;
    for (const VkBaseInStructure *node = request->info.pNext; node; node = node->pNext)
        for (int which = 0; which < ADDITIONS; which++)
            if (set[which] && find_feature(request->info.pNext, (enum Addition)which, &value) == node)
                last = node;
    if (last && !(request->copies = pnext_copy_until(request->info.pNext, last)))
        return false;
    if (last)
        request->info.pNext = request->copies;
    for (int which = 0; which < ADDITIONS; which++)
        if (set[which] && find_feature(request->info.pNext, (enum Addition)which, &value))
            *(VkBool32 *)(uintptr_t)value = VK_TRUE;
        else if (set[which])
            put_in_front(request, &request->own[which], additions[which].own_struct);
    return true;
}

/* Names the extensions, after the application's. There is room. */
static void add_extensions(DeviceRequest *request, const FeatureSupport *support, const bool needed[ADDITIONS])
{
    const VkDeviceCreateInfo *info = &request->info;
    if (info->enabledExtensionCount)
        memcpy(request->extensions, info->ppEnabledExtensionNames,
               info->enabledExtensionCount * sizeof *request->extensions);
    request->info.ppEnabledExtensionNames = request->extensions;
    for (int which = 0; which < ADDITIONS; which++)
        if (needed[which] && !support->core[which] && !support->named[which])
            request->extensions[request->info.enabledExtensionCount++] = additions[which].extension;
}

void device_request_plain(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support)
{
    const VkDevicePipelineBinaryInternalCacheControlKHR *control = support->internal_cache_control;
    *request = (DeviceRequest){.info = *info, .driver_cache_off = control && control->disableInternalCache};
    memcpy(request->enabled, support->requested, sizeof request->enabled);
}

void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          const PylayerPlan *plan)
{
    bool set[ADDITIONS] = {false}, needed[ADDITIONS], keeps = mode_keeps(plan->mode);
    device_request_plain(request, info, support);
    request->extensions = malloc((info->enabledExtensionCount + ADDITIONS) * sizeof *request->extensions);
    if (!request->extensions)
        return;
    set[ADD_CACHE_CONTROL] = keeps && support->supported[ADD_CACHE_CONTROL] && !support->requested[ADD_CACHE_CONTROL] &&
                             can_set(info, ADD_CACHE_CONTROL);
    /* A pipeline that cannot be a binary is kept as a cell, and cells need cache control. */
    set[ADD_BINARIES] = plan->mode == PYLAYER_MODE_BINARIES &&
                        (set[ADD_CACHE_CONTROL] || support->requested[ADD_CACHE_CONTROL]) &&
                        support->supported[ADD_BINARIES] && !support->requested[ADD_BINARIES] &&
                        can_set(info, ADD_BINARIES) && can_set(info, ADD_MAINTENANCE5);
    set[ADD_MAINTENANCE5] = set[ADD_BINARIES] && !support->requested[ADD_MAINTENANCE5];
    bool off = keeps && plan->driver_cache_off && support->supported[ADD_BINARIES] &&
               !support->internal_cache_control && support->binary_properties.pipelineBinaryInternalCacheControl;
    if (!set_features(request, set)) {
        device_request_free(request);
        device_request_plain(request, info, support);
        return;
    }
    if (off)
        put_in_front(request, &request->internal_cache_control,
                     VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    memcpy(needed, set, sizeof needed);
    needed[ADD_FEEDBACK] = keeps && support->supported[ADD_FEEDBACK];
    /* The extension alone, without its feature, allows VkDevicePipelineBinaryInternalCacheControlKHR. */
    needed[ADD_BINARIES] = needed[ADD_MAINTENANCE5] = set[ADD_BINARIES] || off;
    add_extensions(request, support, needed);
    for (int which = 0; which < ADDITIONS; which++)
        request->enabled[which] |= set[which];
    request->enabled[ADD_FEEDBACK] |= needed[ADD_FEEDBACK];
    request->driver_cache_off |= off;
    request->changed =
        request->info.pNext != info->pNext || request->info.enabledExtensionCount != info->enabledExtensionCount;
}

void device_request_free(DeviceRequest *request)
{
    free(request->extensions);
    free(request->copies);
    request->extensions = NULL;
    request->copies = NULL;
}
