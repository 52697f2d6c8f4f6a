/*
 * features.c - what the layer adds to a VkDeviceCreateInfo: creation feedback, pipelineCreationCacheControl, and
 * pipelineBinaries with the maintenance5 that it depends on. Nothing is added that the next layer does not offer
 * (VUID-vkCreateDevice-ppEnabledExtensionNames-01387).
 */
#include <stdlib.h>
#include <string.h>

#include "pnext.h"

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

/* A feature stands in the struct of its extension or in that of the core version that took it in; where the latter is
 * chained the former must not be (VUID-VkDeviceCreateInfo-pNext-06532, -10360). */
typedef struct Feature {
    VkStructureType core_struct; /* 0: none */
    size_t core_offset;
    VkStructureType own_struct;
} Feature;

#define OWN_OFFSET sizeof(VkBaseOutStructure) /* of the one VkBool32 of an extension's struct */

static const Feature cache_control_feature = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
    offsetof(VkPhysicalDeviceVulkan13Features, pipelineCreationCacheControl),
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
};
static const Feature maintenance5_feature = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES,
    offsetof(VkPhysicalDeviceVulkan14Features, maintenance5),
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR,
};
static const Feature binaries_feature = {
    .own_struct = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR,
};

/* The chained struct in which a feature stands, and where in it; NULL: none is chained. */
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

/* ---- what there is ----------------------------------------------------------------------------- */

typedef struct OfferedExtensions {
    bool cache_control, feedback, pipeline_binary, maintenance5;
} OfferedExtensions;

static OfferedExtensions offered_extensions(const Instance *instance, VkPhysicalDevice physical)
{
    OfferedExtensions offered = {false, false, false, false};
    uint32_t extension_count = 0;
    if (!instance->enumerate_device_extensions ||
        instance->enumerate_device_extensions(physical, NULL, &extension_count, NULL) != VK_SUCCESS)
        return offered;
    VkExtensionProperties *properties = calloc(extension_count ? extension_count : 1, sizeof *properties);
    if (!properties)
        return offered;
    VkResult result = instance->enumerate_device_extensions(physical, NULL, &extension_count, properties);
    for (uint32_t i = 0; result >= 0 && i < extension_count; i++) {
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

FeatureSupport features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              uint32_t device_api_version)
{
    /* The version in force is the lower of what the application asked for and what the device has. */
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
    /* VK_KHR_maintenance5 depends on Vulkan 1.3, or on 1.1 and VK_KHR_dynamic_rendering: an application that enables it
     * has seen to that. */
    bool binaries_offered = offered.pipeline_binary && (support.maintenance5_core || offered.maintenance5) &&
                            (core || support.maintenance5_requested);
    if ((control_offered || binaries_offered) && instance->get_features2) {
        VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
        VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5 = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR};
        VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, .pNext = &maintenance5};
        VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
        if (control_offered)
            features.pNext = &control;
        if (binaries_offered)
            *(control_offered ? &control.pNext : &features.pNext) = &binaries;
        instance->get_features2(physical, &features);
        support.cache_control = control.pipelineCreationCacheControl;
        support.binaries = binaries.pipelineBinaries && maintenance5.maintenance5;
    }
    if (support.pipeline_binary)
        query_binaries(instance, physical, &support);
    return support;
}

/* ---- what is added ----------------------------------------------------------------------------- */

/* A change to a struct that the application chained: a member set, or the struct taken out. */
typedef struct Edit {
    const void *node;
    size_t offset; /* 0: taken out */
} Edit;

#define MAX_EDITS 4

typedef struct Edits {
    Edit edits[MAX_EDITS];
    uint32_t count;
    VkBaseOutStructure *own[MAX_EDITS]; /* go in front */
    uint32_t own_count;
} Edits;

/* The value is the only member behind sType and pNext. */
static void put_in_front(Edits *edits, VkStructureType type, void *own, VkBool32 *value)
{
    VkBaseOutStructure *head = own;
    head->sType = type;
    *value = VK_TRUE;
    edits->own[edits->own_count++] = head;
}

/* Sets the feature where it is chained, else in its own struct. */
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

/* Takes a struct out of the copies. */
static void remove_copy(DeviceRequest *request, VkBaseOutStructure *previous, VkBaseOutStructure *copy)
{
    if (previous)
        previous->pNext = copy->pNext;
    else
        request->info.pNext = copy->pNext;
    if (request->copies == copy)
        request->copies = copy == request->last_copy ? NULL : copy->pNext;
    if (request->last_copy == copy)
        request->last_copy = previous;
    free(copy);
}

/* Makes the edits in a copy of the chain up to the last of them. False: the chain cannot be copied. */
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
    request->copies = pnext_copy_until(original, last, &request->last_copy);
    if (!request->copies)
        return false;
    request->info.pNext = request->copies;
    VkBaseOutStructure *previous = NULL, *copy = request->copies;
    for (bool end = false; !end; original = original->pNext) {
        end = original == last;
        VkBaseOutStructure *next = copy->pNext;
        bool removed = false;
        for (uint32_t i = 0; i < edits->count; i++) {
            if (edits->edits[i].node != original)
                continue;
            if (edits->edits[i].offset)
                *(VkBool32 *)(void *)((char *)copy + edits->edits[i].offset) = VK_TRUE;
            else
                removed = true;
        }
        if (removed)
            remove_copy(request, previous, copy);
        else
            previous = copy;
        copy = next;
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
    request->cache_control = true;
    set_feature(edits, info, &cache_control_feature, &request->cache_control_features,
                &request->cache_control_features.pipelineCreationCacheControl);
    if (!support->cache_control_core)
        add_extension(request, info, CACHE_CONTROL_EXTENSION);
}

/* The extension by itself is enough to say VkDevicePipelineBinaryInternalCacheControlKHR. */
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
    request->binaries = true;
    set_feature(edits, info, &binaries_feature, &request->binary_features, &request->binary_features.pipelineBinaries);
    if (!enables_feature(info, &maintenance5_feature))
        set_feature(edits, info, &maintenance5_feature, &request->maintenance5_features,
                    &request->maintenance5_features.maintenance5);
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
    /* The application was told that it may say this, but the driver does not know it
     * (VUID-VkDevicePipelineBinaryInternalCacheControlKHR-disableInternalCache-09602). */
    if (control && !driver_has_control) {
        edits.edits[edits.count++] = (Edit){control, 0};
        request->driver_cache_off = false;
    }
    if (support->feedback) {
        request->feedback = true;
        if (!support->feedback_enabled)
            add_extension(request, info, FEEDBACK_EXTENSION);
    }
    if (wishes.cache_control && support->cache_control && !support->cache_control_requested)
        add_cache_control(request, info, support, &edits);
    if (wishes.binaries && support->binaries && !support->binaries_requested)
        add_binaries(request, info, support, &edits);
    if (wishes.driver_cache_off && support->binaries && driver_has_control && !control) {
        request->driver_cache_off = true;
        add_binary_extension(request, info, support);
        put_in_front(&edits, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR,
                     &request->internal_cache_control, &request->internal_cache_control.disableInternalCache);
    }
    request->changed = edits.count || edits.own_count || request->added_count;
    if ((request->added_count && !name_extensions(request)) || !apply_edits(request, &edits)) {
        device_request_free(request);
        device_request_plain(request, info, support);
    }
}

void device_request_free(DeviceRequest *request)
{
    free(request->extensions);
    pnext_free_copies(request->copies, request->last_copy);
    request->extensions = NULL;
    request->copies = NULL;
}
