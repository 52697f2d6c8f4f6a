/*
 * pipeline_binaries.c - VkPipelineBinaryKHR objects that the application creates itself. The application uses the
 * driver's handles. Data that it brings is compared with what it read before.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "driver/dispatch.h"
#include "mailbox/mailbox.h"
#include "process/process.h"

#define FEW_BINARIES 16

static Device *find_device(VkDevice handle)
{
    return dispatch_find(&device_table, dispatch_key(handle));
}

/* Only the first call writes: threads that create pipelines read the flag. */
static void note_use_of_binaries(Binaries *binaries)
{
    if (!atomic_load_explicit(&binaries->app_keeps, memory_order_relaxed))
        atomic_store_explicit(&binaries->app_keeps, true, memory_order_relaxed);
}

/* ---- data -------------------------------------------------------------------------------------- */

/* Returns true if the driver may get this data. Replaces altered data that can be restored. */
static bool admit(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, VkPipelineBinaryDataKHR *data)
{
    VkPipelineBinaryDataKHR restored;
    count(&counters_of(binaries->run)->totals.application_binaries, 1);
    switch (binary_history_judge(binaries, key, data, &restored)) {
    case BINARY_ATTESTED:
        count(&counters_of(binaries->run)->totals.binaries_attested, 1);
        return true;
    case BINARY_UNKNOWN:
        /* No driver gives empty data, and RADV crashes on it (measured). */
        return data->dataSize > 0 && data->pData;
    case BINARY_STALE:
        count(&counters_of(binaries->run)->totals.binaries_stale, 1);
        return false;
    case BINARY_ALTERED:
        break;
    }
    count(&counters_of(binaries->run)->totals.binaries_altered, 1);
    if (!restored.pData)
        return false;
    count(&counters_of(binaries->run)->totals.binaries_restored, 1);
    *data = restored;
    return true;
}

/* The admitted binaries, in the application's order, and their places in its arrays. */
typedef struct Admitted {
    uint32_t count;
    uint32_t *places;
    VkPipelineBinaryKeyKHR *keys;
    VkPipelineBinaryDataKHR *data;
    VkPipelineBinaryKHR *handles;
} Admitted;

static void *admit_all(Binaries *binaries, const VkPipelineBinaryKeysAndDataKHR *from, uint32_t room,
                       Admitted *admitted)
{
    size_t each = sizeof *admitted->keys + sizeof *admitted->data + sizeof *admitted->handles + sizeof(uint32_t);
    char *memory = malloc(room ? room * each : 1);
    if (!memory)
        return NULL;
    admitted->count = 0;
    admitted->handles = (void *)memory;
    admitted->data = (void *)(admitted->handles + room);
    admitted->keys = (void *)(admitted->data + room);
    admitted->places = (void *)(admitted->keys + room);
    for (uint32_t i = 0; i < room; i++) {
        VkPipelineBinaryDataKHR data = from->pPipelineBinaryData[i];
        if (!admit(binaries, &from->pPipelineBinaryKeys[i], &data)) {
            count(&counters_of(binaries->run)->totals.binaries_refused, 1);
            continue;
        }
        admitted->places[admitted->count] = i;
        admitted->keys[admitted->count] = from->pPipelineBinaryKeys[i];
        admitted->data[admitted->count] = data;
        admitted->handles[admitted->count++] = VK_NULL_HANDLE;
    }
    return memory;
}

/* Creates all binaries that are admitted. The others become VK_NULL_HANDLE, and the result is that of the first binary
 * that was not created (Vulkan, vkCreatePipelineBinariesKHR). */
static VkResult create_from_data(Device *device, const VkPipelineBinaryCreateInfoKHR *info,
                                 const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    const VkPipelineBinaryKeysAndDataKHR *from = info->pKeysAndDataInfo;
    if (!out->pPipelineBinaries) {
        out->pipelineBinaryCount = from->binaryCount;
        return VK_SUCCESS;
    }
    uint32_t room = out->pipelineBinaryCount < from->binaryCount ? out->pipelineBinaryCount : from->binaryCount;
    /* The load of the store brings the digests of earlier runs. */
    loading_wait(&device->caches);
    Admitted admitted;
    void *memory = admit_all(&device->binaries, from, room, &admitted);
    if (!memory)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult result = VK_SUCCESS;
    if (admitted.count) {
        VkPipelineBinaryKeysAndDataKHR both = {admitted.count, admitted.keys, admitted.data};
        VkPipelineBinaryCreateInfoKHR create = *info;
        VkPipelineBinaryHandlesInfoKHR made = *out;
        create.pKeysAndDataInfo = &both;
        made.pipelineBinaryCount = admitted.count;
        made.pPipelineBinaries = admitted.handles;
        result = device->driver.create_pipeline_binaries(device->driver.handle, &create, allocator, &made);
    }
    memset(out->pPipelineBinaries, 0, room * sizeof *out->pPipelineBinaries);
    for (uint32_t i = 0; i < admitted.count; i++)
        out->pPipelineBinaries[admitted.places[i]] = admitted.handles[i];
    if (admitted.count < room) {
        uint32_t refused = 0;
        while (refused < admitted.count && admitted.places[refused] == refused)
            refused++;
        /* If a failure of the driver's precedes the first refusal, the driver's result stands. */
        bool driver_first = false;
        for (uint32_t i = 0; i < refused && result < 0; i++)
            driver_first |= admitted.handles[i] == VK_NULL_HANDLE;
        if (!driver_first)
            result = VK_ERROR_INITIALIZATION_FAILED;
    }
    out->pipelineBinaryCount = room;
    free(memory);
    return result == VK_SUCCESS && room < from->binaryCount ? VK_INCOMPLETE : result;
}

/* ---- create info ------------------------------------------------------------------------------- */

static VkResult create_from_create_info(Device *device, const VkPipelineBinaryCreateInfoKHR *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    note_use_of_binaries(&device->binaries);
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
        note_use_of_binaries(&device->binaries);
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
        if (info->pPipelineCreateInfo && carrier_keeps(device->run.plan.carrier))
            return create_from_create_info(device, info, allocator, out);
    }
    return device->driver.create_pipeline_binaries(handle, info, allocator, out);
}

static void tell_read(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, const void *data, size_t size)
{
    PylayerAttested attested = {.key_size = key->keySize, .size = size, .data = data};
    if (key->keySize == 0 || key->keySize > sizeof attested.key)
        return;
    memcpy(attested.key, key->key, key->keySize);
    digest128(data, size, attested.digest);
    if (!binary_history_add(binaries, &attested))
        return; /* policy knows it already */
    PylayerMessage *message = message_new(PYLAYER_MSG_BINARY_READ, binaries->run->serial);
    uint8_t *copy = message && size <= binaries->run->plan.keep_cache_bytes ? malloc(size) : NULL;
    if (copy)
        memcpy(copy, data, size);
    if (message) {
        message->binary = (PylayerBinaryRead){.key_size = attested.key_size, .size = size, .data = copy};
        memcpy(message->binary.key, attested.key, sizeof attested.key);
        memcpy(message->binary.digest, attested.digest, sizeof attested.digest);
    }
    if (!mailbox_post(message, binaries->run->plan.queue_bytes))
        count(&counters_of(binaries->run)->totals.events_dropped, 1);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineBinaryDataKHR(VkDevice handle, const VkPipelineBinaryDataInfoKHR *info,
                                                              VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    Device *device = find_device(handle);
    VkResult result = device->driver.get_pipeline_binary_data(handle, info, key, size, data);
    if (result == VK_SUCCESS && data && *size > 0 && device->binaries.app_enabled && device->run.plan.check_binaries &&
        !process_is_forked_child())
        tell_read(&device->binaries, key, data, *size);
    return result;
}
