/*
 * features.c - what the layer adds to a VkDeviceCreateInfo: pipelineCreationCacheControl, and the two
 * extension names below Vulkan 1.3. Nothing is added that the next layer does not offer
 * (VUID-vkCreateDevice-ppEnabledExtensionNames-01387).
 */
#include <stdlib.h>
#include <string.h>

#include "pnext.h"

#define CACHE_CONTROL_EXTENSION "VK_EXT_pipeline_creation_cache_control"
#define FEEDBACK_EXTENSION "VK_EXT_pipeline_creation_feedback"

static bool requests_extension(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

typedef struct OfferedExtensions {
    bool cache_control, feedback, pipeline_binary;
} OfferedExtensions;

static OfferedExtensions offered_extensions(const Instance *instance, VkPhysicalDevice physical)
{
    OfferedExtensions offered = {false, false, false};
    uint32_t extension_count = 0;
    if (!instance->enumerate_device_extensions ||
        instance->enumerate_device_extensions(physical, NULL, &extension_count, NULL) != VK_SUCCESS)
        return offered;
    VkExtensionProperties *properties = calloc(extension_count ? extension_count : 1, sizeof *properties);
    if (!properties)
        return offered;
    VkResult result = instance->enumerate_device_extensions(physical, NULL, &extension_count, properties);
    for (uint32_t i = 0; result >= 0 && i < extension_count; i++) {
        offered.cache_control |= strcmp(properties[i].extensionName, CACHE_CONTROL_EXTENSION) == 0;
        offered.feedback |= strcmp(properties[i].extensionName, FEEDBACK_EXTENSION) == 0;
        offered.pipeline_binary |= strcmp(properties[i].extensionName, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME) == 0;
    }
    free(properties);
    return offered;
}

static bool application_enables_cache_control(const VkDeviceCreateInfo *info)
{
    const VkPhysicalDeviceVulkan13Features *core =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    if (core)
        return core->pipelineCreationCacheControl;
    const VkPhysicalDevicePipelineCreationCacheControlFeatures *extension = (const void *)pnext_find(
        info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES);
    return extension && extension->pipelineCreationCacheControl;
}

bool features_pipeline_binaries(const VkDeviceCreateInfo *info)
{
    const VkPhysicalDevicePipelineBinaryFeaturesKHR *binaries =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR);
    return binaries && binaries->pipelineBinaries && requests_extension(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
}

FeatureSupport features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              uint32_t device_api_version)
{
    /* The version in force is the lower of what the application asked for and what the device has. */
    uint32_t api = instance->info.api_version < device_api_version ? instance->info.api_version : device_api_version;
    bool core = api >= VK_API_VERSION_1_3;
    OfferedExtensions offered = offered_extensions(instance, physical);
    offered.cache_control |= core;
    offered.feedback |= core;
    FeatureSupport support = {
        .pipeline_binary = offered.pipeline_binary,
        .cache_control_requested = application_enables_cache_control(info),
        .cache_control_core = core,
        .feedback = offered.feedback,
        .feedback_enabled = core || requests_extension(info, FEEDBACK_EXTENSION),
    };
    if (offered.cache_control && instance->get_features2) {
        VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
        VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &control};
        instance->get_features2(physical, &features);
        support.cache_control = control.pipelineCreationCacheControl;
    }
    return support;
}

static bool add_extensions(DeviceRequest *request, bool cache_control, bool feedback)
{
    uint32_t present = request->info.enabledExtensionCount;
    request->extensions = malloc((present + 2) * sizeof *request->extensions);
    if (!request->extensions)
        return false;
    if (present)
        memcpy(request->extensions, request->info.ppEnabledExtensionNames, present * sizeof *request->extensions);
    if (cache_control && !requests_extension(&request->info, CACHE_CONTROL_EXTENSION))
        request->extensions[request->info.enabledExtensionCount++] = CACHE_CONTROL_EXTENSION;
    if (feedback)
        request->extensions[request->info.enabledExtensionCount++] = FEEDBACK_EXTENSION;
    request->info.ppEnabledExtensionNames = request->extensions;
    request->changed = true;
    return true;
}

/*
 * Sets the feature in the struct the application chained, in a copy of the chain up to there.
 * VUID-VkDeviceCreateInfo-pNext-06532: beside Vulkan13Features the extension's own struct is forbidden.
 */
static bool set_in_chained_struct(DeviceRequest *request, const VkBaseInStructure *chained)
{
    request->copies = pnext_copy_until(request->info.pNext, chained, pnext_device_struct_size, &request->last_copy);
    if (!request->copies)
        return false;
    if (chained->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES)
        ((VkPhysicalDeviceVulkan13Features *)request->last_copy)->pipelineCreationCacheControl = VK_TRUE;
    else
        ((VkPhysicalDevicePipelineCreationCacheControlFeatures *)request->last_copy)->pipelineCreationCacheControl =
            VK_TRUE;
    request->info.pNext = request->copies;
    return true;
}

static bool add_cache_control(DeviceRequest *request)
{
    const void *chain = request->info.pNext;
    const VkBaseInStructure *chained = pnext_find(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    if (!chained)
        chained = pnext_find(chain, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES);
    if (chained)
        return set_in_chained_struct(request, chained);
    request->features = (VkPhysicalDevicePipelineCreationCacheControlFeatures){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
        .pNext = (void *)(uintptr_t)chain,
        .pipelineCreationCacheControl = VK_TRUE,
    };
    request->info.pNext = &request->features;
    return true;
}

void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          bool want_cache_control)
{
    *request = (DeviceRequest){.info = *info, .cache_control = support->cache_control_requested};
    if (want_cache_control && support->cache_control && !support->cache_control_requested)
        request->cache_control = request->changed = add_cache_control(request);
    bool name_cache_control = request->changed && !support->cache_control_core;
    bool name_feedback = support->feedback && !support->feedback_enabled;
    request->feedback = support->feedback;
    if ((name_cache_control || name_feedback) && !add_extensions(request, name_cache_control, name_feedback)) {
        device_request_free(request);
        *request = (DeviceRequest){
            .info = *info, .cache_control = support->cache_control_requested, .feedback = support->feedback_enabled};
    }
}

void device_request_free(DeviceRequest *request)
{
    free(request->extensions);
    pnext_free_copies(request->copies, request->last_copy);
    request->extensions = NULL;
    request->copies = NULL;
}
