/* What the driver says of its devices, and what of it may be enabled. */
#include "driver.h"

#include <stdio.h>
#include <string.h>

static const DeviceSettings *settings_of(VkPhysicalDevice physical)
{
    return ((const DriverPhysical *)(void *)physical)->settings;
}

typedef struct {
    const char *name;
    Part offered;
} Offer;

enum { OFFERS = 12 };

static void list_offers(const DeviceSettings *device, Offer offers[OFFERS])
{
    const Offer all[OFFERS] = {
        {VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME, device->cache_control},
        {VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME, PART_YES},
        {VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME, PART_YES},
        {VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, device->libraries},
        {VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME, device->libraries},
        {VK_KHR_MAINTENANCE_5_EXTENSION_NAME, device->maintenance5},
        {"VK_KHR_extended_flags", device->extended_flags},
        {"VK_SEC_pipeline_cache_incremental_mode", device->incremental_cache},
        {VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, device->binaries},
        {VK_NV_RAY_TRACING_EXTENSION_NAME, device->more_pipelines},
        {"VK_AMDX_shader_enqueue", device->more_pipelines},
        {"VK_ARM_data_graph", device->more_pipelines},
    };
    memcpy(offers, all, sizeof all);
}

static VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice physical, const char *layer, uint32_t *count,
                                                VkExtensionProperties *properties)
{
    (void)layer;
    Offer offers[OFFERS];
    uint32_t room = *count, have = 0;
    list_offers(settings_of(physical), offers);
    for (uint32_t i = 0; i < OFFERS; i++) {
        if (offers[i].offered == PART_NO)
            continue;
        if (properties && have == room)
            return VK_INCOMPLETE;
        if (properties)
            snprintf(properties[have].extensionName, sizeof properties[have].extensionName, "%s", offers[i].name);
        if (properties)
            properties[have].specVersion = 1;
        have++;
    }
    *count = have;
    return VK_SUCCESS;
}

/* ---- features ---- */

static VkBool32 has(Part offered)
{
    return offered == PART_YES || offered == PART_NULL;
}

/* Newer than any header that this is built with. */
enum { TYPE_EXTENDED_FLAGS = 1000668004, TYPE_INCREMENTAL_CACHE = 1000637000 };

/* The members that the driver knows of a struct, with what it has of them. */
static uint32_t known_features(const DeviceSettings *device, VkBaseOutStructure *node, VkBool32 *members[2],
                               VkBool32 supported[2])
{
    switch ((int)node->sType) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        members[0] = &((VkPhysicalDeviceVulkan13Features *)(void *)node)->pipelineCreationCacheControl;
        members[1] = &((VkPhysicalDeviceVulkan13Features *)(void *)node)->dynamicRendering;
        supported[0] = has(device->cache_control);
        supported[1] = VK_TRUE;
        return 2;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES:
        members[0] =
            &((VkPhysicalDevicePipelineCreationCacheControlFeatures *)(void *)node)->pipelineCreationCacheControl;
        supported[0] = has(device->cache_control);
        return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT:
        members[0] = &((VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT *)(void *)node)->graphicsPipelineLibrary;
        supported[0] = has(device->libraries);
        return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR:
        members[0] = &((VkPhysicalDeviceMaintenance5FeaturesKHR *)(void *)node)->maintenance5;
        supported[0] = has(device->maintenance5);
        return 1;
    case TYPE_EXTENDED_FLAGS:
    case TYPE_INCREMENTAL_CACHE: /* one member each, as the one above */
        members[0] = &((VkPhysicalDeviceMaintenance5FeaturesKHR *)(void *)node)->maintenance5;
        supported[0] = has(node->sType == (VkStructureType)TYPE_EXTENDED_FLAGS ? device->extended_flags
                                                                               : device->incremental_cache);
        return 1;
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR:
        members[0] = &((VkPhysicalDevicePipelineBinaryFeaturesKHR *)(void *)node)->pipelineBinaries;
        supported[0] = has(device->binaries);
        return 1;
    default:
        return 0;
    }
}

static void VKAPI_CALL get_features(VkPhysicalDevice physical, VkPhysicalDeviceFeatures *features)
{
    (void)physical;
    memset(features, 0, sizeof *features);
}

static void VKAPI_CALL get_features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features)
{
    memset(&features->features, 0, sizeof features->features);
    for (VkBaseOutStructure *node = features->pNext; node; node = node->pNext) {
        VkBool32 *members[2], supported[2];
        uint32_t known = known_features(settings_of(physical), node, members, supported);
        for (uint32_t i = 0; i < known; i++)
            *members[i] = supported[i];
    }
}

/* ---- properties ---- */

static void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    const DeviceSettings *device = settings_of(physical);
    memset(properties, 0, sizeof *properties);
    properties->apiVersion = device->api;
    properties->driverVersion = device->driver_version;
    properties->vendorID = device->vendor_id;
    properties->deviceID = device->device_id;
    properties->deviceType = (VkPhysicalDeviceType)device->device_type;
    snprintf(properties->deviceName, sizeof properties->deviceName, "Test device %u",
             ((const DriverPhysical *)(void *)physical)->index);
    memcpy(properties->pipelineCacheUUID, device->uuid, VK_UUID_SIZE);
}

static void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    const DeviceSettings *device = settings_of(physical);
    get_properties(physical, &properties->properties);
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
            binaries->pipelineBinaryPrefersInternalCache = VK_FALSE;
            binaries->pipelineBinaryPrecompiledInternalCache = VK_FALSE;
            binaries->pipelineBinaryCompressedData = VK_FALSE;
        }
    }
}

static void VKAPI_CALL get_queue_families(VkPhysicalDevice physical, uint32_t *count,
                                          VkQueueFamilyProperties *properties)
{
    (void)physical;
    if (properties && *count)
        *properties =
            (VkQueueFamilyProperties){.queueFlags = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT, .queueCount = 1};
    *count = properties && *count == 0 ? 0 : 1;
}

static void VKAPI_CALL get_queue_families2(VkPhysicalDevice physical, uint32_t *count,
                                           VkQueueFamilyProperties2 *properties)
{
    get_queue_families(physical, count, properties && *count ? &properties->queueFamilyProperties : NULL);
}

static void VKAPI_CALL get_memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *properties)
{
    (void)physical;
    *properties = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = 1,
        .memoryTypes = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, 0}},
        .memoryHeapCount = 1,
        .memoryHeaps = {{1ull << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}},
    };
}

static void VKAPI_CALL get_memory2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *properties)
{
    get_memory(physical, &properties->memoryProperties);
}

static void VKAPI_CALL get_format(VkPhysicalDevice physical, VkFormat format, VkFormatProperties *properties)
{
    (void)physical, (void)format;
    *properties = (VkFormatProperties){0};
}

static VkResult VKAPI_CALL get_image_format(VkPhysicalDevice physical, VkFormat format, VkImageType type,
                                            VkImageTiling tiling, VkImageUsageFlags usage, VkImageCreateFlags flags,
                                            VkImageFormatProperties *properties)
{
    (void)physical, (void)format, (void)type, (void)tiling, (void)usage, (void)flags, (void)properties;
    return VK_ERROR_FORMAT_NOT_SUPPORTED;
}

static void VKAPI_CALL get_sparse_format(VkPhysicalDevice physical, VkFormat format, VkImageType type,
                                         VkSampleCountFlagBits samples, VkImageUsageFlags usage, VkImageTiling tiling,
                                         uint32_t *count, VkSparseImageFormatProperties *properties)
{
    (void)physical, (void)format, (void)type, (void)samples, (void)usage, (void)tiling, (void)properties;
    *count = 0;
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
    ENTRY("vkGetPhysicalDeviceQueueFamilyProperties2", get_queue_families2),
    ENTRY("vkGetPhysicalDeviceMemoryProperties", get_memory),
    ENTRY("vkGetPhysicalDeviceMemoryProperties2", get_memory2),
    ENTRY("vkGetPhysicalDeviceFormatProperties", get_format),
    ENTRY("vkGetPhysicalDeviceImageFormatProperties", get_image_format),
    ENTRY("vkGetPhysicalDeviceSparseImageFormatProperties", get_sparse_format),
    {NULL, NULL},
};

/* ---- what may be enabled ---- */

static bool offers_extension(const DeviceSettings *device, const char *name)
{
    Offer offers[OFFERS];
    list_offers(device, offers);
    for (uint32_t i = 0; i < OFFERS; i++)
        if (offers[i].offered != PART_NO && strcmp(offers[i].name, name) == 0)
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

/* VUID-VkDeviceCreateInfo-sType-unique */
static bool is_there_again(const VkBaseOutStructure *node)
{
    for (const VkBaseOutStructure *other = node->pNext; other; other = other->pNext)
        if (other->sType == node->sType && node->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
            return true;
    return false;
}

VkResult check_device(const DeviceSettings *device, const VkDeviceCreateInfo *info, DriverDevice *out)
{
    out->internal_cache = device->internal_cache;
    out->more_pipelines = enables_extension(info, VK_NV_RAY_TRACING_EXTENSION_NAME);
    check_chain(info->pNext, "vkCreateDevice");
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (!offers_extension(device, info->ppEnabledExtensionNames[i]))
            return VK_ERROR_EXTENSION_NOT_PRESENT;
    for (VkBaseOutStructure *node = (void *)(uintptr_t)info->pNext; node; node = node->pNext) {
        VkBool32 *members[2], supported[2];
        uint32_t known = known_features(device, node, members, supported);
        for (uint32_t i = 0; i < known; i++)
            if (*members[i] && !supported[i])
                return VK_ERROR_FEATURE_NOT_PRESENT;
        bool on = known && *members[0];
        if (is_there_again(node))
            violation("vkCreateDevice with a structure that is chained twice");
        switch ((int)node->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES:
            out->cache_control |= on;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR:
            out->maintenance5 |= on && enables_extension(info, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
            break;
        case TYPE_EXTENDED_FLAGS:
            out->extended_flags |= on && enables_extension(info, "VK_KHR_extended_flags");
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR:
            out->binaries |= on && enables_extension(info, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
            break;
        case VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR:
            if (((VkDevicePipelineBinaryInternalCacheControlKHR *)(void *)node)->disableInternalCache) {
                out->internal_cache = false;
                if (!device->internal_cache || !device->internal_cache_control)
                    violation("vkCreateDevice with disableInternalCache, which the driver lacks"); /* VUID 09602 */
            }
            break;
        default:
            break;
        }
    }
    if (out->binaries && !out->maintenance5 && !out->extended_flags)
        violation("vkCreateDevice with VK_KHR_pipeline_binary and nothing that it depends on"); /* VUID 01387 */
    return VK_SUCCESS;
}
