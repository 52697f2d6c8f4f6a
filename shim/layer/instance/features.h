/* features.h - what the layer adds to VkDeviceCreateInfo */
#ifndef PYLAYER_FEATURES_H
#define PYLAYER_FEATURES_H

#include "instance/instance.h"

/* What can be added, each with its extension, unless it is in core. */
enum Addition { ADD_FEEDBACK, ADD_CACHE_CONTROL, ADD_BINARIES, ADD_MAINTENANCE5, ADDITIONS };

typedef struct FeatureSupport {
    bool core[ADDITIONS];      /* needs no extension name */
    bool named[ADDITIONS];     /* the application names the extension, with or without the feature */
    bool requested[ADDITIONS]; /* the application enables it */
    bool supported[ADDITIONS]; /* it can be enabled, with what it depends on */
    /* The struct with disableInternalCache in the application's chain; NULL if it is not there. */
    const VkDevicePipelineBinaryInternalCacheControlKHR *internal_cache_control;
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary_properties; /* 0 without VK_KHR_pipeline_binary */
} FeatureSupport;

/* A struct whose only member after sType and pNext is a feature. */
typedef struct OneFeature {
    VkStructureType sType;
    void *pNext;
    VkBool32 value;
} OneFeature;

/* A VkDeviceCreateInfo made from the application's. What it points to is valid until device_request_free. */
typedef struct DeviceRequest {
    VkDeviceCreateInfo info;
    bool changed;            /* differs from the application's */
    bool enabled[ADDITIONS]; /* by this request, or by the application itself */
    bool driver_cache_off;
    OneFeature own[ADDITIONS], internal_cache_control;
    const char **extensions;
    VkBaseOutStructure *copies; /* the chain, copied up to the last struct that had to change */
} DeviceRequest;

/* Fills in what the layer can enable, and what the application enables: all but binary_properties. */
void features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                    uint32_t device_api_version, FeatureSupport *support);
/* Returns true if the application enables shaderModuleIdentifier. */
bool features_shader_module_identifiers(const VkDeviceCreateInfo *info);
/* Adds what the plan needs, each if it is supported: creation feedback and pipelineCreationCacheControl if the mode
 * keeps pipelines, and pipelineBinaries if they are to be binaries. */
void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          const PylayerPlan *plan);
/* Makes a request with nothing added. */
void device_request_plain(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support);
void device_request_free(DeviceRequest *request);

#endif
