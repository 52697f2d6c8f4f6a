/* features.h - what the layer adds to VkDeviceCreateInfo */
#ifndef PYLAYER_FEATURES_H
#define PYLAYER_FEATURES_H

#include "instance/instance.h"

/* A struct whose only member after sType and pNext is a feature. */
typedef struct OneFeature {
    VkStructureType sType;
    void *pNext;
    VkBool32 value;
} OneFeature;

typedef struct FeatureSupport {
    bool cache_control;           /* the driver has pipelineCreationCacheControl */
    bool cache_control_requested; /* the application enables it */
    bool cache_control_core;      /* Vulkan 1.3: needs no extension name */
    bool feedback;                /* VkPipelineCreationFeedback can be enabled */
    bool feedback_enabled;        /* by Vulkan 1.3 or by the application */
    bool pipeline_binary;         /* the driver has VK_KHR_pipeline_binary */
    bool binaries;                /* pipelineBinaries can be enabled, with what it depends on */
    bool binaries_requested;      /* the application enables it */
    bool binary_extension;        /* the application enables VK_KHR_pipeline_binary, with or without the feature */
    bool maintenance5_core;       /* Vulkan 1.4 */
    bool maintenance5_requested;  /* the application enables the extension or the feature */
    /* The struct with disableInternalCache in the application's chain; NULL if it is not there. */
    const VkDevicePipelineBinaryInternalCacheControlKHR *internal_cache_control;
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary_properties;
} FeatureSupport;

/* What the layer wants enabled on a device. */
typedef struct FeatureWishes {
    bool cache_control, binaries, driver_cache_off;
} FeatureWishes;

#define MAX_ADDED_EXTENSIONS 4

/* A VkDeviceCreateInfo made from the application's. What it points to is valid until device_request_free. */
typedef struct DeviceRequest {
    VkDeviceCreateInfo info;
    bool changed;       /* differs from the application's */
    bool cache_control; /* enabled by this request, or by the application itself */
    bool feedback;
    bool binaries;
    bool driver_cache_off;
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control_features;
    OneFeature maintenance5;
    VkPhysicalDevicePipelineBinaryFeaturesKHR binary_features;
    VkDevicePipelineBinaryInternalCacheControlKHR internal_cache_control;
    const char *added[MAX_ADDED_EXTENSIONS];
    uint32_t added_count;
    const char **extensions;
    VkBaseOutStructure *copies; /* the chain, copied up to the last struct that had to change */
} DeviceRequest;

/* Returns what the layer can enable, and what the application enables; info may be NULL, which enables nothing. */
FeatureSupport features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              uint32_t device_api_version);
/* Returns true if the application enables shaderModuleIdentifier. */
bool features_shader_module_identifiers(const VkDeviceCreateInfo *info);
/* Returns true if the application enables VK_KHR_swapchain. */
bool features_swapchain(const VkDeviceCreateInfo *info);
/* Returns true if the application enables pipelineCacheIncrementalMode (VK_SEC_pipeline_cache_incremental_mode).
 * vkGetPipelineCacheData then returns only what was added since the last call. */
bool features_partial_cache_data(const VkDeviceCreateInfo *info);
/* Adds creation feedback and what is wished for, each if it is supported. */
void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          FeatureWishes wishes);
/* Makes a request with nothing added. */
void device_request_plain(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support);
void device_request_free(DeviceRequest *request);

#endif
