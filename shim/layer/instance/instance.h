/* instance.h - vkCreateInstance, vkDestroyInstance, vkCreateDevice */
#ifndef PYLAYER_INSTANCE_H
#define PYLAYER_INSTANCE_H

#include "state/state.h"

typedef struct Instance {
    VkInstance handle;
    PylayerInstanceInfo info;
    bool active;        /* false: policy does not run for it, and every call below it goes to the driver */
    uint8_t skip;       /* PylayerSkip */
    StateObject object; /* of its create info, if active */
    bool debug_utils;   /* the application enabled VK_EXT_debug_utils */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    PFN_vkDestroyInstance destroy_instance;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2; /* NULL on a plain Vulkan 1.0 instance */
    PFN_vkGetPhysicalDeviceFeatures2 get_features2;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_device_extensions;
} Instance;

/*
 * Returns the callbacks with which the driver creates and destroys an instance, or a device of one.
 *
 * An application's callbacks may only be called during one of its commands and on the thread that called it (Vulkan,
 * 'Host Memory'). The layer's work on the policy thread is no such command. The driver takes memory for that work from
 * the callbacks of the device, or of the instance if the device has none, whichever allocator the call itself names.
 * Mesa does so for everything that a VkPipelineCache holds. So it gets none of either. The application's are used for
 * the objects that it creates with them.
 */
static inline const VkAllocationCallbacks *callbacks_below(const Instance *instance,
                                                           const VkAllocationCallbacks *application)
{
    return instance->active ? NULL : application;
}

/* Returns true if the name is among these. */
bool is_named(size_t count, const char *const *names, const char *name);

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *,
                                                  const VkAllocationCallbacks *, VkDevice *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *, const VkAllocationCallbacks *,
                                                    VkInstance *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance, const VkAllocationCallbacks *);

#endif
