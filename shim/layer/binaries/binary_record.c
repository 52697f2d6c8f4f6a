/*
 * binary_record.c - the VkPipelineBinaryKHR objects of one pipeline as bytes, and back.
 *
 * The driver must get back the same count, order, keys and data (VUID-VkPipelineBinaryInfoKHR-binaryCount-09603), so
 * one record holds all of them. Keys alone identify nothing: RADV hashes one byte into the keys of ray-tracing
 * binaries, and 1080 of these had 252 different keys and 963 contents (measured).
 */
#include "binaries/binaries.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BINARIES 65536u
#define MAX_BINARY_BYTES (1ull << 30)

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

/* Appends a binary to the record, which may move. *size: of the record. */
static bool read_one(const Driver *driver, VkPipelineBinaryKHR handle, BinaryRecord **record, uint32_t index,
                     uint64_t *size)
{
    VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                        .pipelineBinary = handle};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    size_t room = 0;
    if (driver->get_pipeline_binary_data(driver->handle, &info, &key, &room, NULL) != VK_SUCCESS || room == 0 ||
        room > MAX_BINARY_BYTES || *size + room > MAX_BINARY_BYTES)
        return false;
    BinaryRecord *longer = realloc(*record, (size_t)(*size + padded(room)));
    if (!longer)
        return false;
    *record = longer;
    char *data = (char *)longer + *size;
    memset(data, 0, (size_t)padded(room)); /* padding is part of the record's hash */
    /* Unlike a cache's data, a binary's does not grow, so VK_ERROR_NOT_ENOUGH_SPACE_KHR is a driver's fault. */
    size_t bytes = room;
    if (driver->get_pipeline_binary_data(driver->handle, &info, &key, &bytes, data) != VK_SUCCESS || bytes == 0 ||
        bytes > room || key.keySize == 0 || key.keySize > PYLAYER_BINARY_KEY_BYTES)
        return false;
    longer->entries[index].size = bytes;
    longer->entries[index].key_size = key.keySize;
    memcpy(longer->entries[index].key, key.key, key.keySize);
    *size += padded(bytes);
    return true;
}

BinaryRecord *binary_record_read(const Driver *driver, const BinaryEntry *entry, uint64_t *size)
{
    *size = data_offset(entry->count);
    BinaryRecord *record = calloc(1, (size_t)*size);
    for (uint32_t i = 0; record && i < entry->count; i++)
        if (!read_one(driver, entry->handles[i], &record, i, size)) {
            free(record);
            return NULL;
        }
    if (!record)
        return NULL;
    record->count = entry->count;
    record->key_size = entry->key.keySize;
    memcpy(record->key, entry->key.key, entry->key.keySize);
    return record;
}

static VkPipelineBinaryKeyKHR key_of(const uint8_t *bytes, uint32_t size)
{
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, .keySize = size};
    memcpy(key.key, bytes, sizeof key.key);
    return key;
}

BinaryEntry *binary_record_create(const Driver *driver, const BinaryRecord *record)
{
    const uint32_t count = record->count;
    const VkPipelineBinaryKeyKHR key = key_of(record->key, record->key_size);
    BinaryEntry *entry = binary_entry_new(&key, count);
    VkPipelineBinaryKeyKHR *keys = calloc(count, sizeof *keys);
    VkPipelineBinaryDataKHR *data = calloc(count, sizeof *data);
    VkPipelineBinaryKeysAndDataKHR both = {count, keys, data};
    VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                          .pKeysAndDataInfo = &both};
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                          .pipelineBinaryCount = count};
    bool created = false;
    if (entry && keys && data) {
        uint64_t at = data_offset(count);
        for (uint32_t i = 0; i < count; at += padded(record->entries[i++].size)) {
            keys[i] = key_of(record->entries[i].key, record->entries[i].key_size);
            data[i] = (VkPipelineBinaryDataKHR){(size_t)record->entries[i].size, (char *)(uintptr_t)record + at};
        }
        out.pPipelineBinaries = entry->handles;
        created = driver->create_pipeline_binaries(driver->handle, &info, NULL, &out) == VK_SUCCESS &&
                  out.pipelineBinaryCount == count;
    }
    free(keys);
    free(data);
    if (created)
        return entry;
    /* Binaries that failed are VK_NULL_HANDLE; the others were created (Vulkan, vkCreatePipelineBinariesKHR). */
    binary_entry_free(driver, entry);
    return NULL;
}

static size_t entry_bytes(uint32_t count)
{
    return sizeof(BinaryEntry) + count * sizeof(VkPipelineBinaryKHR);
}

BinaryEntry *binary_entry_new(const VkPipelineBinaryKeyKHR *key, uint32_t count)
{
    BinaryEntry *entry = calloc(1, entry_bytes(count));
    if (entry)
        *entry = (BinaryEntry){.key = *key, .count = count};
    return entry;
}

BinaryEntry *binary_entry_shortened(BinaryEntry *entry, uint32_t count)
{
    BinaryEntry *shorter = realloc(entry, entry_bytes(count));
    shorter = shorter ? shorter : entry;
    shorter->count = count;
    return shorter;
}

void binary_entry_free(const Driver *driver, BinaryEntry *entry)
{
    for (uint32_t i = 0; entry && i < entry->count; i++)
        if (entry->handles[i] != VK_NULL_HANDLE)
            driver->destroy_pipeline_binary(driver->handle, entry->handles[i], NULL);
    free(entry);
}
