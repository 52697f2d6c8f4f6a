/* pipeline_binaries.h - VkPipelineBinaryKHR objects of the application */
#ifndef PYLAYER_PIPELINE_BINARIES_H
#define PYLAYER_PIPELINE_BINARIES_H

#include "base.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineBinariesKHR(VkDevice, const VkPipelineBinaryCreateInfoKHR *,
                                                               const VkAllocationCallbacks *,
                                                               VkPipelineBinaryHandlesInfoKHR *);
VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineBinaryDataKHR(VkDevice, const VkPipelineBinaryDataInfoKHR *,
                                                              VkPipelineBinaryKeyKHR *, size_t *, void *);

#endif
