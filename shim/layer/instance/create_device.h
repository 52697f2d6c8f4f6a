/* create_device.h - vkCreateDevice, vkDestroyDevice */
#ifndef PYLAYER_CREATE_DEVICE_H
#define PYLAYER_CREATE_DEVICE_H

#include "base.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *,
                                                  const VkAllocationCallbacks *, VkDevice *);

#endif
