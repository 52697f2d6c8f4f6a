/*
 * binary_record.c - the VkPipelineBinaryKHR objects of one pipeline as bytes, and back.
 *
 * The driver must get back the same count, order, keys and data (VUID-VkPipelineBinaryInfoKHR-binaryCount-09603), so
 * one record holds all of them. Keys alone identify nothing: RADV hashes one byte into the keys of ray-tracing
 * binaries, and 1080 of these had 252 different keys and 963 contents (measured).
 */
#include "binaries/binary_record.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BINARIES 65536u
#define MAX_BINARY_BYTES (1ull << 30)
/* A pipeline without ray tracing has one binary for each stage, and a few for what the driver adds. */
#define FEW_BINARIES 8

static uint64_t padded(uint64_t size)
{
    return (size + 15) & ~15ull;
}

static uint64_t data_offset(uint32_t count)
{
    return sizeof(BinaryRecord) + count * sizeof((BinaryRecord *)0)->entries[0];
}

const BinaryRecord *binary_record_check(const void *data, uint64_t size)
{
    const BinaryRecord *record = data;
    if (size < sizeof *record || record->count > MAX_BINARIES || record->key_size == 0 ||
        record->key_size > PYLAYER_BINARY_KEY_BYTES || size < data_offset(record->count))
        return NULL;
    uint64_t left = size - data_offset(record->count);
    for (uint32_t i = 0; i < record->count; i++) {
        uint64_t bytes = record->entries[i].size;
        uint32_t key_size = record->entries[i].key_size;
        if (key_size == 0 || key_size > PYLAYER_BINARY_KEY_BYTES || bytes == 0 || bytes > MAX_BINARY_BYTES ||
            padded(bytes) > left)
            return NULL;
        left -= padded(bytes);
    }
    return left == 0 ? record : NULL;
}

static bool read_sizes(const Driver *driver, uint32_t count, const VkPipelineBinaryKHR *handles, BinaryRecord *head,
                       uint64_t *size)
{
    *size = data_offset(count);
    for (uint32_t i = 0; i < count; i++) {
        VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                            .pipelineBinary = handles[i]};
        VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
        size_t bytes = 0;
        if (driver->get_pipeline_binary_data(driver->handle, &info, &key, &bytes, NULL) != VK_SUCCESS || bytes == 0 ||
            bytes > MAX_BINARY_BYTES)
            return false;
        head->entries[i].size = bytes;
        *size += padded(bytes);
    }
    return *size <= MAX_BINARY_BYTES;
}

static bool read_data(const Driver *driver, uint32_t count, const VkPipelineBinaryKHR *handles, BinaryRecord *record,
                      uint64_t *size)
{
    uint64_t at = data_offset(count);
    for (uint32_t i = 0; i < count; i++) {
        VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                            .pipelineBinary = handles[i]};
        VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
        size_t bytes = (size_t)record->entries[i].size;
        /* Unlike a cache's data, a binary's does not grow, so VK_ERROR_NOT_ENOUGH_SPACE_KHR is a driver's fault. */
        if (driver->get_pipeline_binary_data(driver->handle, &info, &key, &bytes, (char *)record + at) != VK_SUCCESS ||
            bytes == 0 || bytes > record->entries[i].size || key.keySize == 0 || key.keySize > PYLAYER_BINARY_KEY_BYTES)
            return false;
        record->entries[i].size = bytes;
        record->entries[i].key_size = key.keySize;
        memcpy(record->entries[i].key, key.key, key.keySize);
        at += padded(bytes);
    }
    *size = at;
    return true;
}

BinaryRecord *binary_record_read(const Driver *driver, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size)
{
    if (handle_count > MAX_BINARIES || key->keySize == 0 || key->keySize > PYLAYER_BINARY_KEY_BYTES)
        return NULL;
    BinaryRecord *record = calloc(1, (size_t)data_offset(handle_count));
    if (!record)
        return NULL;
    BinaryRecord *whole = NULL;
    if (read_sizes(driver, handle_count, handles, record, size) && (whole = realloc(record, (size_t)*size))) {
        record = whole;
        uint64_t head = data_offset(handle_count);
        memset((char *)record + head, 0, (size_t)(*size - head)); /* padding is part of the record's hash */
        record->count = handle_count;
        record->key_size = key->keySize;
        memcpy(record->key, key->key, key->keySize);
        if (read_data(driver, handle_count, handles, record, size))
            return record;
    }
    free(record);
    return NULL;
}

bool binary_record_create(const Driver *driver, const BinaryRecord *record, VkPipelineBinaryKHR *handles)
{
    const uint32_t handle_count = record->count;
    VkPipelineBinaryKeyKHR few_keys[FEW_BINARIES], *keys = few_keys;
    VkPipelineBinaryDataKHR few_data[FEW_BINARIES], *data = few_data;
    void *heap = NULL;
    if (handle_count > FEW_BINARIES) {
        heap = malloc(handle_count * (sizeof *keys + sizeof *data));
        if (!heap)
            return false;
        data = heap;
        keys = (VkPipelineBinaryKeyKHR *)(void *)(data + handle_count);
    }
    uint64_t at = data_offset(record->count);
    for (uint32_t i = 0; i < handle_count; i++) {
        keys[i] = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR,
                                           .keySize = record->entries[i].key_size};
        memcpy(keys[i].key, record->entries[i].key, sizeof keys[i].key);
        data[i] = (VkPipelineBinaryDataKHR){(size_t)record->entries[i].size, (char *)(uintptr_t)record + at};
        at += padded(record->entries[i].size);
        handles[i] = VK_NULL_HANDLE;
    }
    VkPipelineBinaryKeysAndDataKHR both = {handle_count, keys, data};
    VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                          .pKeysAndDataInfo = &both};
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                          .pipelineBinaryCount = handle_count,
                                          .pPipelineBinaries = handles};
    VkResult result = driver->create_pipeline_binaries(driver->handle, &info, NULL, &out);
    free(heap);
    if (result == VK_SUCCESS && out.pipelineBinaryCount == handle_count)
        return true;
    /* Binaries that failed are VK_NULL_HANDLE; the others were created (Vulkan, vkCreatePipelineBinariesKHR). */
    for (uint32_t i = 0; i < handle_count; i++)
        if (handles[i] != VK_NULL_HANDLE)
            driver->destroy_pipeline_binary(driver->handle, handles[i], NULL);
    return false;
}
