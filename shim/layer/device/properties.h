/* properties.h - vkGetPhysicalDeviceProperties2: what the application is told about pipeline binaries */
#ifndef PYLAYER_PROPERTIES_H
#define PYLAYER_PROPERTIES_H

#include "base.h"

VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceProperties2(VkPhysicalDevice, VkPhysicalDeviceProperties2 *);

#endif
