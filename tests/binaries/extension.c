#include "extension.h"

#include <string.h>

enum { ALL_EXTENSIONS = 32 };

// What the hook adds to the demo's device create info.
typedef struct {
    const Wanted *wanted;
    const char *names[ALL_EXTENSIONS];
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries;
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5;
    VkDevicePipelineBinaryInternalCacheControlKHR control;
} Additions;

static void prepend(VkDeviceCreateInfo *info, void *structure)
{
    ((VkBaseOutStructure *)structure)->pNext = (VkBaseOutStructure *)(uintptr_t)info->pNext;
    info->pNext = structure;
}

static void add_name(VkDeviceCreateInfo *info, Additions *more, const char *name)
{
    if (info->enabledExtensionCount == ALL_EXTENSIONS)
        die("too many extensions");
    more->names[info->enabledExtensionCount++] = name;
}

static void extend(void *data, VkDeviceCreateInfo *info)
{
    Additions *more = data;
    memcpy(more->names, info->ppEnabledExtensionNames, info->enabledExtensionCount * sizeof *more->names);
    info->ppEnabledExtensionNames = more->names;
    if (more->wanted->binaries) {
        add_name(info, more, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
        add_name(info, more, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
        prepend(info, &more->binaries);
        prepend(info, &more->maintenance5);
    }
    if (more->wanted->binaries && more->wanted->disable_internal_cache)
        prepend(info, &more->control);
}

static void query_properties(Extension *extension, VkPhysicalDevice physical)
{
    extension->properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR;
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &extension->properties};
    vkGetPhysicalDeviceProperties2(physical, &properties);
}

void extension_create_device(Extension *extension, Context *context, const Options *options, const Wanted *wanted)
{
    Additions more = {
        .wanted = wanted,
        .binaries = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR,
                     .pipelineBinaries = VK_TRUE},
        .maintenance5 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR,
                         .maintenance5 = VK_TRUE},
        .control = {.sType = VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR,
                    .disableInternalCache = VK_TRUE},
    };
    context->extend_device = extend;
    context->extend_data = &more;
    context_create_device(context, options);
    context->extend_device = NULL;
    memset(extension, 0, sizeof *extension);
#define COMMAND(member, name) extension->member = (PFN_##name)vkGetDeviceProcAddr(context->device, #name)
    if (!wanted->binaries)
        return;
    COMMAND(get_key, vkGetPipelineKeyKHR);
    COMMAND(create_binaries, vkCreatePipelineBinariesKHR);
    COMMAND(destroy_binary, vkDestroyPipelineBinaryKHR);
    COMMAND(get_data, vkGetPipelineBinaryDataKHR);
    COMMAND(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef COMMAND
    if (!extension->get_key || !extension->create_binaries)
        die("%s has no %s", context->properties.deviceName, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
    query_properties(extension, context->physical);
}
