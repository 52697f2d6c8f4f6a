/*
 * pipeline_binaries.c - VkPipelineBinaryKHR objects that the application creates itself. The application uses the
 * driver's handles. Data that it brings is compared with what it read before.
 */
#include <string.h>

#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

/* Returns false if the driver must not get one of the binaries. */
static bool admits(Device *device, const VkPipelineBinaryKeysAndDataKHR *from)
{
    uint32_t refused = 0;
    own_data_open(&device->caches);
    for (uint32_t i = 0; i < from->binaryCount; i++)
        refused += !binary_history_admits(&device->binaries, &device->caches, &from->pPipelineBinaryKeys[i],
                                          &from->pPipelineBinaryData[i]);
    count(&counters_of(&device->run)->totals.binaries_refused, refused);
    return refused == 0;
}

static VkResult create_from_create_info(Device *device, const VkPipelineBinaryCreateInfoKHR *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    atomic_store_explicit(&device->binaries.app_keeps, true, memory_order_relaxed);
    /* VUID-VkPipelineBinaryCreateInfoKHR-device-09610: the layer may have switched the driver's internal cache off. */
    if (device->binaries.internal_cache)
        return device->driver.create_pipeline_binaries(device->driver.handle, info, allocator, out);
    out->pipelineBinaryCount = 0;
    return VK_PIPELINE_BINARY_MISSING_KHR;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineKeyKHR(VkDevice handle, const VkPipelineCreateInfoKHR *info,
                                                       VkPipelineBinaryKeyKHR *key)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (info)
        atomic_store_explicit(&device->binaries.app_keeps, true, memory_order_relaxed);
    return device->driver.get_pipeline_key(handle, info, key);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineBinariesKHR(VkDevice handle,
                                                               const VkPipelineBinaryCreateInfoKHR *info,
                                                               const VkAllocationCallbacks *allocator,
                                                               VkPipelineBinaryHandlesInfoKHR *out)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    if (!process_is_forked_child() && device->binaries.app_enabled) {
        if (info->pKeysAndDataInfo && out->pPipelineBinaries && device->run.plan.check_binaries &&
            !admits(device, info->pKeysAndDataInfo)) {
            memset(out->pPipelineBinaries, 0, out->pipelineBinaryCount * sizeof *out->pPipelineBinaries);
            return VK_ERROR_INITIALIZATION_FAILED;
        }
        if (info->pPipelineCreateInfo && mode_keeps(device->run.plan.mode))
            return create_from_create_info(device, info, allocator, out);
    }
    return device->driver.create_pipeline_binaries(handle, info, allocator, out);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineBinaryDataKHR(VkDevice handle, const VkPipelineBinaryDataInfoKHR *info,
                                                              VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    VkResult result = device->driver.get_pipeline_binary_data(handle, info, key, size, data);
    if (result == VK_SUCCESS && data && *size > 0 && device->binaries.app_enabled && device->run.plan.check_binaries &&
        !process_is_forked_child())
        binary_history_note(&device->binaries, &device->caches, key, data, *size);
    return result;
}
