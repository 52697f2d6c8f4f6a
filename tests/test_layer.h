/* test_layer.h - what any layer has; tests/witness adds its own commands. */
#ifndef TEST_LAYER_H
#define TEST_LAYER_H

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

/* An instance or a device. */
typedef struct Known {
    struct Known *next;
    void *key;
    VkInstance instance; /* of an instance */
    PFN_vkGetInstanceProcAddr get_of_instance;
    PFN_vkDestroyInstance destroy_instance;
    VkDevice device; /* of a device */
    PFN_vkGetDeviceProcAddr get_of_device;
    PFN_vkDestroyDevice destroy_device;
    void *own; /* the layer's, freed with it */
} Known;

/* By any of its dispatchable objects. */
Known *find_known(const void *dispatchable);

/* What each layer has. The layer's command of this name, which the driver has, or NULL. */
PFN_vkVoidFunction own_command(const char *name);
/* created is NULL where the driver failed. */
void device_was_created(const VkDeviceCreateInfo *info, VkResult result, Known *created);
void device_is_destroyed(void);

#endif
