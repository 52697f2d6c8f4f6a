// The device with VK_KHR_pipeline_binary, and the extension's commands on it.
#ifndef BINARIES_EXTENSION_H
#define BINARIES_EXTENSION_H

#include "../pipeline_binary.h"
#include "context.h"

typedef struct {
    PFN_vkGetPipelineKeyKHR get_key;
    PFN_vkCreatePipelineBinariesKHR create_binaries;
    PFN_vkDestroyPipelineBinaryKHR destroy_binary;
    PFN_vkGetPipelineBinaryDataKHR get_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured;
    VkPhysicalDevicePipelineBinaryPropertiesKHR properties;
} Extension;

typedef struct {
    bool binaries;               // VK_KHR_pipeline_binary
    bool disable_internal_cache; // VkDevicePipelineBinaryInternalCacheControlKHR
} Wanted;

// Creates the device of the context with what is wanted, and looks up the commands.
void extension_create_device(Extension *extension, Context *context, const Options *options, const Wanted *wanted);

#endif
