/* What the driver says of its devices, and what of it may be enabled. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

static const DeviceSettings *settings_of(VkPhysicalDevice physical)
{
    return ((const DriverPhysical *)(void *)physical)->settings;
}

/* What is at this place of a device's settings. */
static Part part_of(const DeviceSettings *device, size_t at)
{
    return *(const Part *)(const void *)((const char *)device + at);
}
#define PART(name) offsetof(DeviceSettings, name)

static const struct {
    const char *name;
    size_t part;
} offers[] = {
    {VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME, PART(cache_control)},
    {VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME, PART(always)},
    {VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME, PART(always)},
    {VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, PART(always)},
    {VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME, PART(always)},
    {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, PART(maintenance5)},
    {"VK_KHR_maintenance8", PART(always)},
    {VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, PART(binaries)},
    {VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME, PART(always)},
    {VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME, PART(always)},
    {VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME, PART(always)},
    {VK_KHR_SPIRV_1_4_EXTENSION_NAME, PART(always)},
    {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, PART(always)},
    {VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, PART(always)},
    {VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME, PART(always)},
    {VK_NV_RAY_TRACING_EXTENSION_NAME, PART(more_pipelines)},
    {"VK_AMDX_shader_enqueue", PART(more_pipelines)},
    {"VK_ARM_data_graph", PART(more_pipelines)},
    {VK_KHR_SWAPCHAIN_EXTENSION_NAME, PART(always)},
};
enum { OFFERS = sizeof offers / sizeof *offers };

static VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice physical, const char *layer, uint32_t *count,
                                                VkExtensionProperties *properties)
{
    uint32_t room = *count, have = 0;
    for (uint32_t i = 0; i < OFFERS; i++) {
        if (part_of(settings_of(physical), offers[i].part) == PART_NO)
            continue;
        if (properties && have == room)
            return VK_INCOMPLETE;
        if (properties) {
            snprintf(properties[have].extensionName, sizeof properties[have].extensionName, "%s", offers[i].name);
            properties[have].specVersion = 1;
        }
        have++;
    }
    *count = have;
    return VK_SUCCESS;
}

/* ---- features ---- */

/* Newer than any header that this is built with. Each has one member, as maintenance5 has. */
enum { TYPE_MAINTENANCE8 = 1000574000 };
#define ONE_MEMBER offsetof(VkPhysicalDeviceMaintenance5FeaturesKHR, maintenance5)

/* The features that the driver knows: a member of a struct, and which part of the settings it is. */
static const struct {
    int type;
    size_t member, part;
} known_features[] = {
#define FEATURE(type, structure, member, part)                                                                         \
    {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, offsetof(VkPhysicalDevice##structure, member), part}
    FEATURE(VULKAN_1_3_FEATURES, Vulkan13Features, pipelineCreationCacheControl, PART(cache_control)),
    FEATURE(VULKAN_1_3_FEATURES, Vulkan13Features, dynamicRendering, PART(always)),
    FEATURE(VULKAN_1_1_FEATURES, Vulkan11Features, multiview, PART(always)),
    FEATURE(MULTIVIEW_FEATURES, MultiviewFeatures, multiview, PART(always)),
    FEATURE(PIPELINE_CREATION_CACHE_CONTROL_FEATURES, PipelineCreationCacheControlFeatures,
            pipelineCreationCacheControl, PART(cache_control)),
    FEATURE(GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT, GraphicsPipelineLibraryFeaturesEXT, graphicsPipelineLibrary,
            PART(always)),
    FEATURE(RAY_TRACING_PIPELINE_FEATURES_KHR, RayTracingPipelineFeaturesKHR, rayTracingPipeline, PART(always)),
    FEATURE(RAY_TRACING_PIPELINE_FEATURES_KHR, RayTracingPipelineFeaturesKHR,
            rayTracingPipelineShaderGroupHandleCaptureReplay, PART(always)),
    FEATURE(RAY_TRACING_PIPELINE_FEATURES_KHR, RayTracingPipelineFeaturesKHR, rayTraversalPrimitiveCulling,
            PART(always)),
    FEATURE(ACCELERATION_STRUCTURE_FEATURES_KHR, AccelerationStructureFeaturesKHR, accelerationStructure, PART(always)),
    FEATURE(BUFFER_DEVICE_ADDRESS_FEATURES, BufferDeviceAddressFeatures, bufferDeviceAddress, PART(always)),
    FEATURE(MAINTENANCE_5_FEATURES_KHR, Maintenance5FeaturesKHR, maintenance5, PART(maintenance5)),
    FEATURE(PIPELINE_BINARY_FEATURES_KHR, PipelineBinaryFeaturesKHR, pipelineBinaries, PART(binaries)),
    {TYPE_MAINTENANCE8, ONE_MEMBER, PART(always)},
};
enum { KNOWN_FEATURES = sizeof known_features / sizeof *known_features };

/* Each structure of a chain, and each feature that the driver knows of it. */
#define EACH_FEATURE(node, i, chain)                                                                                   \
    for (VkBaseOutStructure *node = (void *)(uintptr_t)(chain); node; node = node->pNext)                              \
        for (size_t i = 0; i < KNOWN_FEATURES; i++)                                                                    \
            if (known_features[i].type == (int)node->sType)

static VkBool32 *member_of(const VkBaseOutStructure *node, size_t feature)
{
    return (VkBool32 *)(void *)((uintptr_t)node + known_features[feature].member);
}

static bool is_supported(const DeviceSettings *device, size_t feature)
{
    Part offered = part_of(device, known_features[feature].part);
    return offered == PART_YES || offered == PART_NULL;
}

/* True where a struct of the chain enables the feature that this part of the settings is. */
static bool enables_feature(const VkDeviceCreateInfo *info, size_t part)
{
    bool enabled = false;
    EACH_FEATURE(node, i, info->pNext)
    enabled |= known_features[i].part == part && *member_of(node, i);
    return enabled;
}

bool has_unanswered(const VkDeviceCreateInfo *info)
{
    for (const VkBaseOutStructure *node = (void *)(uintptr_t)info->pNext; node; node = node->pNext) {
        bool known = node->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO;
        for (size_t i = 0; i < KNOWN_FEATURES; i++)
            known |= known_features[i].type == (int)node->sType;
        if (!known)
            return true;
    }
    return false;
}

static void VKAPI_CALL get_features(VkPhysicalDevice physical, VkPhysicalDeviceFeatures *features)
{
    memset(features, 0, sizeof *features);
}

static void VKAPI_CALL get_features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features)
{
    memset(&features->features, 0, sizeof features->features);
    check_chain(features->pNext, "vkGetPhysicalDeviceFeatures2");
    EACH_FEATURE(node, i, features->pNext)
    *member_of(node, i) = is_supported(settings_of(physical), i);
}

/* ---- properties ---- */

static void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    const DeviceSettings *device = settings_of(physical);
    memset(properties, 0, sizeof *properties);
    properties->apiVersion = API;
    properties->driverVersion = device->driver_version;
    properties->vendorID = device->vendor_id;
    properties->deviceID = device->device_id;
    properties->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    snprintf(properties->deviceName, sizeof properties->deviceName, "Test device %u",
             ((const DriverPhysical *)(void *)physical)->index);
    memcpy(properties->pipelineCacheUUID, device->uuid, VK_UUID_SIZE);
}

static void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    const DeviceSettings *device = settings_of(physical);
    get_properties(physical, &properties->properties);
    check_chain(properties->pNext, "vkGetPhysicalDeviceProperties2");
    for (VkBaseOutStructure *node = properties->pNext; node; node = node->pNext) {
        if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES) {
            VkPhysicalDeviceDriverProperties *driver = (void *)node;
            driver->driverID = (VkDriverId)device->driver_id;
            memcpy(driver->driverName, device->driver_name, sizeof driver->driverName);
            memcpy(driver->driverInfo, device->driver_info, sizeof driver->driverInfo);
            driver->conformanceVersion = (VkConformanceVersion){0, 0, 0, 0};
        }
        if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR &&
            device->binaries != PART_NO) {
            VkPhysicalDevicePipelineBinaryPropertiesKHR *binaries = (void *)node;
            binaries->pipelineBinaryInternalCache = device->internal_cache;
            binaries->pipelineBinaryInternalCacheControl = device->internal_cache && device->internal_cache_control;
            binaries->pipelineBinaryPrefersInternalCache = device->prefers_internal_cache;
        }
        if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_PROPERTIES_KHR) {
            VkPhysicalDeviceRayTracingPipelinePropertiesKHR *rays = (void *)node;
            rays->shaderGroupHandleSize = rays->shaderGroupHandleCaptureReplaySize = 32;
            rays->maxRayRecursionDepth = 31;
        }
    }
}

static void VKAPI_CALL get_queue_families(VkPhysicalDevice physical, uint32_t *count,
                                          VkQueueFamilyProperties *properties)
{
    if (properties && *count)
        *properties =
            (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT, .queueCount = 32};
    *count = properties && *count == 0 ? 0 : 1;
}

static void VKAPI_CALL get_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *properties)
{
    *properties = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = 1,
        .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0}},
        .memoryHeapCount = 1,
        .memoryHeaps = {{1ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}},
    };
}

static void VKAPI_CALL get_format(VkPhysicalDevice physical, VkFormat format, VkFormatProperties *properties)
{
    *properties = (VkFormatProperties){0};
}

/* The loader wants the command, and nobody calls it. */
static VkResult VKAPI_CALL not_supported(void)
{
    return VK_ERROR_FORMAT_NOT_SUPPORTED;
}

const EntryPoint physical_commands[] = {
    ENTRY("vkEnumerateDeviceExtensionProperties", enumerate_extensions),
    ENTRY("vkGetPhysicalDeviceFeatures", get_features),
    ENTRY("vkGetPhysicalDeviceFeatures2", get_features2),
    ENTRY("vkGetPhysicalDeviceFeatures2KHR", get_features2),
    ENTRY("vkGetPhysicalDeviceProperties", get_properties),
    ENTRY("vkGetPhysicalDeviceProperties2", get_properties2),
    ENTRY("vkGetPhysicalDeviceProperties2KHR", get_properties2),
    ENTRY("vkGetPhysicalDeviceQueueFamilyProperties", get_queue_families),
    ENTRY("vkGetPhysicalDeviceMemoryProperties", get_memory),
    ENTRY("vkGetPhysicalDeviceFormatProperties", get_format),
    ENTRY("vkGetPhysicalDeviceImageFormatProperties", not_supported),
    ENTRY("vkGetPhysicalDeviceSparseImageFormatProperties", not_supported),
    {NULL, NULL},
};

/* ---- what may be enabled ---- */

static bool offers_extension(const DeviceSettings *device, const char *name)
{
    for (uint32_t i = 0; i < OFFERS; i++)
        if (part_of(device, offers[i].part) != PART_NO && strcmp(offers[i].name, name) == 0)
            return true;
    return false;
}

static bool enables_extension(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return true;
    return false;
}

static VkResult check_what_is_there(const DeviceSettings *device, const VkDeviceCreateInfo *info)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        if (!offers_extension(device, info->ppEnabledExtensionNames[i]))
            return VK_ERROR_EXTENSION_NOT_PRESENT;
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(info->ppEnabledExtensionNames[i], info->ppEnabledExtensionNames[j]) == 0)
                violation("vkCreateDevice with %s twice", info->ppEnabledExtensionNames[i]);
    }
    EACH_FEATURE(node, i, info->pNext)
    if (*member_of(node, i) && !is_supported(device, i))
        return VK_ERROR_FEATURE_NOT_PRESENT;
    return VK_SUCCESS;
}

/* What must not stand beside what, and what not without what. */
static void check_rules(const VkDeviceCreateInfo *info, bool core)
{
    const void *control =
        in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES);
    const void *core_features = in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    const void *binaries = in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR);
    const void *internal = in_chain(info->pNext, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    if (control && core_features) /* VUID 06532 */
        violation("vkCreateDevice with VkPhysicalDeviceVulkan13Features and the cache control struct");
    if (info->pEnabledFeatures && in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2)) /* 00373 */
        violation("vkCreateDevice with pEnabledFeatures and VkPhysicalDeviceFeatures2");
    if (control && !core && !enables_extension(info, VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME))
        violation("vkCreateDevice with the cache control struct and without the extension");
    if ((binaries || internal) && !enables_extension(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME))
        violation("vkCreateDevice with a struct of pipeline binaries and without the extension");
    if (in_chain(info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR) &&
        !enables_extension(info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME))
        violation("vkCreateDevice with the maintenance5 struct and without the extension");
}

static void check_internal_cache(const DeviceSettings *device, const VkDeviceCreateInfo *info, DriverDevice *out)
{
    const VkDevicePipelineBinaryInternalCacheControlKHR *control =
        in_chain(info->pNext, VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR);
    out->internal_cache = device->internal_cache;
    if (!control || !control->disableInternalCache)
        return;
    out->internal_cache = false;
    if (!device->internal_cache || !device->internal_cache_control)
        violation("vkCreateDevice with disableInternalCache, which the driver lacks"); /* VUID 09602 */
}

VkResult check_device(const DriverPhysical *physical, const VkDeviceCreateInfo *info, DriverDevice *out)
{
    const DeviceSettings *device = physical->settings;
    bool core = physical->api >= VK_API_VERSION_1_3;
    check_chain(info->pNext, "vkCreateDevice");
    VkResult result = check_what_is_there(device, info);
    if (result != VK_SUCCESS)
        return result;
    check_rules(info, core);
    check_internal_cache(device, info, out);
    out->feedback = core || enables_extension(info, VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME);
    out->more_pipelines = enables_extension(info, VK_NV_RAY_TRACING_EXTENSION_NAME);
    out->swapchain = enables_extension(info, VK_KHR_SWAPCHAIN_EXTENSION_NAME);
    out->ray_tracing = enables_extension(info, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME);
    out->cache_control = enables_feature(info, PART(cache_control));
    out->maintenance5 =
        enables_feature(info, PART(maintenance5)) && enables_extension(info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
    out->binaries =
        enables_feature(info, PART(binaries)) && enables_extension(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
    if (out->binaries && !out->maintenance5)
        violation("vkCreateDevice with VK_KHR_pipeline_binary and nothing that it depends on"); /* VUID 01387 */
    return VK_SUCCESS;
}
