/*
 * pipeline_binaries.c - VkPipelineBinaryKHR objects that the application creates itself. The application uses the
 * driver's handles. Data that it brings is compared with what it read before.
 */
#include <string.h>

#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

static Device *find_device(VkDevice handle)
{
    return dispatch_find(&device_table, dispatch_key(handle));
}

/* ---- data -------------------------------------------------------------------------------------- */

/* Returns true if the driver may get this data. */
static bool admit(Device *device, const VkPipelineBinaryKeyKHR *key, const VkPipelineBinaryDataKHR *data)
{
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    enum BinaryOutcome outcome = binary_history_judge(&device->binaries, &device->caches, key, data);
    count(&totals->application_binaries, 1);
    count(&totals->binaries_attested, outcome == BINARY_ATTESTED);
    count(&totals->binaries_stale, outcome == BINARY_STALE);
    count(&totals->binaries_altered, outcome == BINARY_ALTERED);
    /* No driver gives empty data, and RADV crashes on it (measured). */
    return outcome == BINARY_ATTESTED || (outcome == BINARY_UNKNOWN && data->dataSize > 0 && data->pData);
}

/* Creates all binaries, or none if the driver must not get one of them. */
static VkResult create_from_data(Device *device, const VkPipelineBinaryCreateInfoKHR *info,
                                 const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    const VkPipelineBinaryKeysAndDataKHR *from = info->pKeysAndDataInfo;
    if (!out->pPipelineBinaries) {
        out->pipelineBinaryCount = from->binaryCount;
        return VK_SUCCESS;
    }
    uint32_t room = out->pipelineBinaryCount < from->binaryCount ? out->pipelineBinaryCount : from->binaryCount;
    own_data_open(&device->caches);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < room; i++)
        refused += !admit(device, &from->pPipelineBinaryKeys[i], &from->pPipelineBinaryData[i]);
    count(&counters_of(&device->run)->totals.binaries_refused, refused);
    memset(out->pPipelineBinaries, 0, room * sizeof *out->pPipelineBinaries);
    out->pipelineBinaryCount = room;
    VkResult result = VK_ERROR_INITIALIZATION_FAILED;
    if (refused == 0) {
        VkPipelineBinaryKeysAndDataKHR both = {room, from->pPipelineBinaryKeys, from->pPipelineBinaryData};
        VkPipelineBinaryCreateInfoKHR create = *info;
        create.pKeysAndDataInfo = &both;
        result = device->driver.create_pipeline_binaries(device->driver.handle, &create, allocator, out);
    }
    return result == VK_SUCCESS && room < from->binaryCount ? VK_INCOMPLETE : result;
}

/* ---- create info ------------------------------------------------------------------------------- */

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

/* ---- hooks ------------------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineKeyKHR(VkDevice handle, const VkPipelineCreateInfoKHR *info,
                                                       VkPipelineBinaryKeyKHR *key)
{
    Device *device = find_device(handle);
    if (info)
        atomic_store_explicit(&device->binaries.app_keeps, true, memory_order_relaxed);
    return device->driver.get_pipeline_key(handle, info, key);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineBinariesKHR(VkDevice handle,
                                                               const VkPipelineBinaryCreateInfoKHR *info,
                                                               const VkAllocationCallbacks *allocator,
                                                               VkPipelineBinaryHandlesInfoKHR *out)
{
    Device *device = find_device(handle);
    if (!process_is_forked_child() && device->binaries.app_enabled) {
        if (info->pKeysAndDataInfo && device->run.plan.check_binaries)
            return create_from_data(device, info, allocator, out);
        if (info->pPipelineCreateInfo && mode_keeps(device->run.plan.mode))
            return create_from_create_info(device, info, allocator, out);
    }
    return device->driver.create_pipeline_binaries(handle, info, allocator, out);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineBinaryDataKHR(VkDevice handle, const VkPipelineBinaryDataInfoKHR *info,
                                                              VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    Device *device = find_device(handle);
    VkResult result = device->driver.get_pipeline_binary_data(handle, info, key, size, data);
    if (result == VK_SUCCESS && data && *size > 0 && device->binaries.app_enabled && device->run.plan.check_binaries &&
        !process_is_forked_child())
        binary_history_note(&device->binaries, &device->caches, key, data, *size);
    return result;
}
