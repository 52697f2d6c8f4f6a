/*
 * features.c - what the layer adds to a VkDeviceCreateInfo: creation feedback, pipelineCreationCacheControl, and
 * pipelineBinaries with what it depends on. It adds only what the next layer offers
 * (VUID-vkCreateDevice-ppEnabledExtensionNames-01387).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instance/features.h"
#include "instance/instance.h"
#include "vulkan/pnext.h"

#define CACHE_CONTROL_EXTENSION "VK_EXT_pipeline_creation_cache_control"
#define FEEDBACK_EXTENSION "VK_EXT_pipeline_creation_feedback"

static bool requests_extension(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; info && i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

/* ---- features by struct ------------------------------------------------------------------------ */

/* A feature is a member of its extension's struct, or of the struct of the core version that includes it. If the
 * latter is chained, the former must not be (VUID-VkDeviceCreateInfo-pNext-06532, -10360). */
typedef struct Feature {
    VkStructureType core_struct; /* 0: not in core */
    size_t core_offset;
    VkStructureType own_struct;
} Feature;

#define OWN_OFFSET sizeof(VkBaseOutStructure) /* offset of the only VkBool32 in an extension's struct */

static const Feature cache_control_feature = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
    offsetof(VkPhysicalDeviceVulkan13Features, pipelineCreationCacheControl),
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
};
static const Feature binaries_feature = {
    .own_struct = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR,
};

/* VK_KHR_pipeline_binary depends on it, or on VK_KHR_extended_flags, which devices without maintenance5 would have. */
static const Feature maintenance5_feature = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES,
    offsetof(VkPhysicalDeviceVulkan14Features, maintenance5),
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR,
};

/* Returns the chained struct that contains a feature, and the feature's offset in it; NULL if none is chained. */
static const VkBaseInStructure *find_feature(const void *chain, const Feature *feature, size_t *offset)
{
    *offset = feature->core_offset;
    const VkBaseInStructure *found = feature->core_struct ? pnext_find(chain, feature->core_struct) : NULL;
    if (found)
        return found;
    *offset = OWN_OFFSET;
    return pnext_find(chain, feature->own_struct);
}

static bool enables_feature(const VkDeviceCreateInfo *info, const Feature *feature)
{
    size_t offset;
    const VkBaseInStructure *found = info ? find_feature(info->pNext, feature, &offset) : NULL;
    return found && *(const VkBool32 *)(const void *)((const char *)found + offset);
}

/* ---- what the device supports ------------------------------------------------------------------ */

typedef struct OfferedExtensions {
    bool cache_control, feedback, pipeline_binary, maintenance5;
} OfferedExtensions;

static OfferedExtensions offered_extensions(const Instance *instance, VkPhysicalDevice physical)
{
    OfferedExtensions offered = {false, false, false, false};
    /* Drivers have 150 to 250. The loader reads all manifests of layers in each of these calls (0.3 ms), so it is usually
     * one, without asking for the number first. */
    uint32_t extension_count = 512;
    VkExtensionProperties *properties = NULL;
    VkResult result = VK_INCOMPLETE;
    while (instance->enumerate_device_extensions && result == VK_INCOMPLETE && extension_count < 1u << 16) {
        free(properties);
        properties = calloc(extension_count, sizeof *properties);
        if (!properties)
            return offered;
        uint32_t room = extension_count;
        result = instance->enumerate_device_extensions(physical, NULL, &room, properties);
        extension_count = result == VK_INCOMPLETE ? 2 * extension_count : room;
    }
    for (uint32_t i = 0; result == VK_SUCCESS && i < extension_count; i++) {
        const char *name = properties[i].extensionName;
        offered.cache_control |= strcmp(name, CACHE_CONTROL_EXTENSION) == 0;
        offered.feedback |= strcmp(name, FEEDBACK_EXTENSION) == 0;
        offered.pipeline_binary |= strcmp(name, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME) == 0;
        offered.maintenance5 |= strcmp(name, VK_KHR_MAINTENANCE_5_EXTENSION_NAME) == 0;
    }
    free(properties);
    return offered;
}

static void query_binaries(const Instance *instance, VkPhysicalDevice physical, FeatureSupport *support)
{
    support->binary_properties = (VkPhysicalDevicePipelineBinaryPropertiesKHR){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &support->binary_properties};
    if (instance->get_properties2)
        instance->get_properties2(physical, &properties);
    support->binary_properties.pNext = NULL;
}

bool features_shader_module_identifiers(const VkDeviceCreateInfo *info)
{
    const VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT *identifiers =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT);
    return identifiers && identifiers->shaderModuleIdentifier &&
           requests_extension(info, VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME);
}

bool features_swapchain(const VkDeviceCreateInfo *info)
{
    return requests_extension(info, VK_KHR_SWAPCHAIN_EXTENSION_NAME);
}

bool features_partial_cache_data(const VkDeviceCreateInfo *info)
{
    const VkPhysicalDevicePipelineCacheIncrementalModeFeaturesSEC *mode = (const void *)pnext_find(
        info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CACHE_INCREMENTAL_MODE_FEATURES_SEC);
    return mode && mode->pipelineCacheIncrementalMode;
}

FeatureSupport features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              uint32_t device_api_version)
{
    /* The effective version is the lower of what the application requested and what the device supports. */
    uint32_t api = instance->info.api_version < device_api_version ? instance->info.api_version : device_api_version;
    bool core = api >= VK_API_VERSION_1_3;
    OfferedExtensions offered = offered_extensions(instance, physical);
    FeatureSupport support = {
        .pipeline_binary = offered.pipeline_binary,
        .cache_control_requested = enables_feature(info, &cache_control_feature),
        .cache_control_core = core,
        .feedback = offered.feedback || core,
        .feedback_enabled = core || requests_extension(info, FEEDBACK_EXTENSION),
        .binary_extension = requests_extension(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME),
        .maintenance5_core = api >= VK_MAKE_API_VERSION(0, 1, 4, 0),
        .maintenance5_requested = requests_extension(info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME),
        .internal_cache_control =
            info ? (const void *)pnext_find(info->pNext,
                                            VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR)
                 : NULL,
    };
    support.binaries_requested = support.binary_extension && enables_feature(info, &binaries_feature);
    bool control_offered = offered.cache_control || core;
    /* VK_KHR_maintenance5 depends on Vulkan 1.3, or on 1.1 and VK_KHR_dynamic_rendering. An application that enables it
     * meets that. */
    bool maintenance5_offered =
        support.maintenance5_core || (offered.maintenance5 && (core || support.maintenance5_requested));
    bool binaries_offered = offered.pipeline_binary && maintenance5_offered;
    if ((control_offered || binaries_offered) && instance->get_features2) {
        VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
        OneFeature maintenance5 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR};
        VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, .pNext = &maintenance5};
        VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
        if (control_offered)
            features.pNext = &control;
        if (binaries_offered)
            *(control_offered ? &control.pNext : &features.pNext) = &binaries;
        instance->get_features2(physical, &features);
        support.cache_control = control.pipelineCreationCacheControl;
        support.binaries = binaries.pipelineBinaries && maintenance5.value;
    }
    if (support.pipeline_binary)
        query_binaries(instance, physical, &support);
    return support;
}

/* ---- what the layer adds ----------------------------------------------------------------------- */

/* A feature to set in a struct that the application chained. */
typedef struct Edit {
    const void *node;
    size_t offset;
} Edit;

#define MAX_EDITS 4

typedef struct Edits {
    Edit edits[MAX_EDITS];
    uint32_t count;
    VkBaseOutStructure *own[MAX_EDITS]; /* own structs, put in front of the chain */
    uint32_t own_count;
    unsigned given_up; /* bit mask of Cost */
} Edits;

/* What the layer cannot do because a struct of unknown size precedes the one to change. */
enum Cost { NO_CACHE_CONTROL, NO_BINARIES, COST_COUNT };

static const char *const costs[COST_COUNT] = {
    [NO_CACHE_CONTROL] = "pipelineCreationCacheControl is not enabled",
    [NO_BINARIES] = "pipelineBinaries is not enabled",
};

static void say_given_up(const VkBaseInStructure *unknown, unsigned given_up)
{
    char text[160] = "";
    for (unsigned i = 0, length = 0; i < COST_COUNT; i++)
        if (given_up >> i & 1)
            length += (unsigned)snprintf(text + length, sizeof text - length, "%s%s", length ? ", " : "", costs[i]);
    log_line(PYLAYER_LOG_WARN,
             "the pNext chain of VkDeviceCreateInfo has a structure that the layer does not know (sType %u): %s",
             (unsigned)unknown->sType, text);
}

/* The value is the only member after sType and pNext. */
static void put_in_front(Edits *edits, VkStructureType type, void *own, VkBool32 *value)
{
    VkBaseOutStructure *head = own;
    head->sType = type;
    *value = VK_TRUE;
    edits->own[edits->own_count++] = head;
}

/* Sets the feature in the chained struct that has it, otherwise in a struct of our own. */
static void set_feature(Edits *edits, const VkDeviceCreateInfo *info, const Feature *feature, void *own,
                        VkBool32 *value)
{
    size_t offset;
    const VkBaseInStructure *found = find_feature(info->pNext, feature, &offset);
    if (found)
        edits->edits[edits->count++] = (Edit){found, offset};
    else
        put_in_front(edits, feature->own_struct, own, value);
}

/* Returns false if the feature is off and set_feature cannot set it. */
static bool can_set(const VkDeviceCreateInfo *info, const Feature *feature)
{
    size_t offset;
    const VkBaseInStructure *found = find_feature(info->pNext, feature, &offset);
    return !found || enables_feature(info, feature) || !pnext_unknown_until(info->pNext, found);
}

/* Makes the edits in a copy of the chain up to the last edited struct. Returns false if memory is short. */
static bool edit_chain(DeviceRequest *request, const Edits *edits)
{
    const VkBaseInStructure *last = NULL;
    for (const VkBaseInStructure *node = request->info.pNext; node; node = node->pNext)
        for (uint32_t i = 0; i < edits->count; i++)
            if (edits->edits[i].node == node)
                last = node;
    if (!last)
        return true;
    const VkBaseInStructure *original = request->info.pNext;
    request->copies = pnext_copy_until(original, last);
    if (!request->copies)
        return false;
    request->info.pNext = request->copies;
    VkBaseOutStructure *copy = request->copies;
    for (bool end = false; !end; original = original->pNext, copy = copy->pNext) {
        end = original == last;
        for (uint32_t i = 0; i < edits->count; i++)
            if (edits->edits[i].node == original)
                *(VkBool32 *)(void *)((char *)copy + edits->edits[i].offset) = VK_TRUE;
    }
    return true;
}

static bool apply_edits(DeviceRequest *request, const Edits *edits)
{
    if (!edit_chain(request, edits))
        return false;
    for (uint32_t i = 0; i < edits->own_count; i++) {
        edits->own[i]->pNext = (void *)(uintptr_t)request->info.pNext;
        request->info.pNext = edits->own[i];
    }
    return true;
}

static void add_extension(DeviceRequest *request, const VkDeviceCreateInfo *info, const char *name)
{
    if (!requests_extension(info, name))
        request->added[request->added_count++] = name;
}

static bool name_extensions(DeviceRequest *request)
{
    uint32_t present = request->info.enabledExtensionCount;
    request->extensions = malloc((present + request->added_count) * sizeof *request->extensions);
    if (!request->extensions)
        return false;
    if (present)
        memcpy(request->extensions, request->info.ppEnabledExtensionNames, present * sizeof *request->extensions);
    memcpy(request->extensions + present, request->added, request->added_count * sizeof *request->added);
    request->info.enabledExtensionCount = present + request->added_count;
    request->info.ppEnabledExtensionNames = request->extensions;
    return true;
}

static void add_cache_control(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                              Edits *edits)
{
    if (!can_set(info, &cache_control_feature)) {
        edits->given_up |= 1u << NO_CACHE_CONTROL;
        return;
    }
    request->cache_control = true;
    set_feature(edits, info, &cache_control_feature, &request->cache_control_features,
                &request->cache_control_features.pipelineCreationCacheControl);
    if (!support->cache_control_core)
        add_extension(request, info, CACHE_CONTROL_EXTENSION);
}

/* The extension alone, without its feature, allows VkDevicePipelineBinaryInternalCacheControlKHR. */
static void add_binary_extension(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support)
{
    for (uint32_t i = 0; i < request->added_count; i++)
        if (strcmp(request->added[i], VK_KHR_PIPELINE_BINARY_EXTENSION_NAME) == 0)
            return;
    add_extension(request, info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
    if (!support->maintenance5_core)
        add_extension(request, info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
}

static void add_binaries(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                         Edits *edits)
{
    if (!can_set(info, &binaries_feature) || !can_set(info, &maintenance5_feature)) {
        edits->given_up |= 1u << NO_BINARIES;
        return;
    }
    request->binaries = true;
    set_feature(edits, info, &binaries_feature, &request->binary_features, &request->binary_features.pipelineBinaries);
    if (!enables_feature(info, &maintenance5_feature))
        set_feature(edits, info, &maintenance5_feature, &request->maintenance5, &request->maintenance5.value);
    add_binary_extension(request, info, support);
}

void device_request_plain(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support)
{
    const VkDevicePipelineBinaryInternalCacheControlKHR *control = support->internal_cache_control;
    *request = (DeviceRequest){.info = *info,
                               .cache_control = support->cache_control_requested,
                               .feedback = support->feedback_enabled,
                               .binaries = support->binaries_requested,
                               .driver_cache_off = control && control->disableInternalCache};
}

void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          FeatureWishes wishes)
{
    Edits edits = {.count = 0};
    device_request_plain(request, info, support);
    const VkDevicePipelineBinaryInternalCacheControlKHR *control = support->internal_cache_control;
    bool driver_has_control = support->binary_properties.pipelineBinaryInternalCacheControl;
    if (support->feedback) {
        request->feedback = true;
        if (!support->feedback_enabled)
            add_extension(request, info, FEEDBACK_EXTENSION);
    }
    if (wishes.cache_control && support->cache_control && !support->cache_control_requested)
        add_cache_control(request, info, support, &edits);
    /* A pipeline that cannot be a binary is kept as a cell, and cells need cache control. */
    if (wishes.binaries && request->cache_control && support->binaries && !support->binaries_requested)
        add_binaries(request, info, support, &edits);
    if (wishes.driver_cache_off && support->binaries && driver_has_control && !control) {
        request->driver_cache_off = true;
        add_binary_extension(request, info, support);
        put_in_front(&edits, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR,
                     &request->internal_cache_control, &request->internal_cache_control.disableInternalCache);
    }
    if (edits.given_up)
        say_given_up(pnext_unknown_until(info->pNext, NULL), edits.given_up);
    request->changed = edits.count || edits.own_count || request->added_count;
    if ((request->added_count && !name_extensions(request)) || !apply_edits(request, &edits)) {
        device_request_free(request);
        device_request_plain(request, info, support);
    }
}

void device_request_free(DeviceRequest *request)
{
    free(request->extensions);
    free(request->copies);
    request->extensions = NULL;
    request->copies = NULL;
}
