/* pipelines.h - vkCreate*Pipelines */
#ifndef PYLAYER_PIPELINES_H
#define PYLAYER_PIPELINES_H

#include "device/device.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateGraphicsPipelines(VkDevice, VkPipelineCache, uint32_t,
                                                             const VkGraphicsPipelineCreateInfo *,
                                                             const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateComputePipelines(VkDevice, VkPipelineCache, uint32_t,
                                                            const VkComputePipelineCreateInfo *,
                                                            const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesKHR(VkDevice, VkDeferredOperationKHR, VkPipelineCache,
                                                                  uint32_t, const VkRayTracingPipelineCreateInfoKHR *,
                                                                  const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesNV(VkDevice, VkPipelineCache, uint32_t, const void *,
                                                                 const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateExecutionGraphPipelinesAMDX(VkDevice, VkPipelineCache, uint32_t,
                                                                       const void *, const VkAllocationCallbacks *,
                                                                       VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDataGraphPipelinesARM(VkDevice, VkDeferredOperationKHR, VkPipelineCache,
                                                                 uint32_t, const void *, const VkAllocationCallbacks *,
                                                                 VkPipeline *);

#endif
