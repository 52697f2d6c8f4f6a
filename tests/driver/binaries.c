/* VK_KHR_pipeline_binary: keys, binaries from data, from a pipeline or from the driver's own cache. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define BINARY_MAGIC 0x31425054u

typedef struct {
    uint32_t magic, index, count, padding;
} BinaryHeader;

/* ---- keys ---- */

static bool read_request(const VkPipelineCreateInfoKHR *info, PipelineRequest *request)
{
    const VkBaseInStructure *of = info->pNext;
    for (; of; of = of->pNext) {
        const void *found = of;
        if (of->sType == VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO)
            *request = read_compute(found, 0);
        else if (of->sType == VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO)
            *request = read_graphics(found, 0);
        else if (of->sType == VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR)
            *request = read_rays(found, 0);
        else
            continue;
        check_base(request, 0);
        if (settings.feedback == FEEDBACK_EVERYWHERE)
            tell(request->feedback, TRAIT_HIT);
        return true;
    }
    return false;
}

static void write_key(VkPipelineBinaryKeyKHR *key, uint64_t kind, const Hash *first, uint64_t more)
{
    key->keySize = KEY_BYTES;
    memcpy(key->key, &kind, sizeof kind);
    memcpy(key->key + 8, first, sizeof *first);
    memcpy(key->key + 24, &more, sizeof more);
}

static VkResult VKAPI_CALL get_key(VkDevice device, const VkPipelineCreateInfoKHR *info, VkPipelineBinaryKeyKHR *key)
{
    COMMAND_OF(device, self);
    PipelineRequest request = {.key = hash_start(6)};
    Verdict verdict = act(DO_GET_KEY, info ? 0 : TRAIT_GLOBAL);
    if (verdict.action == ACT_ERROR)
        return verdict.result;
    if (info && !read_request(info, &request))
        return VK_ERROR_INITIALIZATION_FAILED;
    write_key(key, info ? 1 : 2, &request.key, info ? 0 : self->settings->binaries_identity);
    if (verdict.action == ACT_ZERO)
        memset(key->key, 0, sizeof key->key);
    if (verdict.action == ACT_LONG)
        key->keySize = KEY_BYTES + 1;
    return VK_SUCCESS;
}

/* ---- making them ---- */

typedef struct {
    DriverDevice *device;
    const VkAllocationCallbacks *allocator;
} Maker;

static VkResult make_binary(const Maker *maker, Entry *entry, uint32_t index, uint32_t binary_count,
                            VkPipelineBinaryKHR *handle)
{
    Binary *made = object_make(maker->device, KIND_BINARY, sizeof *made, maker->allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->object.contents = entry->key;
    made->entry = entry;
    made->index = index;
    made->count = binary_count;
    *handle = (VkPipelineBinaryKHR)(uintptr_t)made;
    return VK_SUCCESS;
}

/* The entry in the data of a binary; NULL: there is none. */
static Entry *read_binary(const VkPipelineBinaryDataKHR *data, BinaryHeader *header)
{
    size_t used;
    if (!data->pData || data->dataSize < sizeof *header)
        return NULL;
    memcpy(header, data->pData, sizeof *header);
    if (header->magic != BINARY_MAGIC)
        return NULL;
    return entry_read((const uint8_t *)data->pData + sizeof *header, data->dataSize - sizeof *header, &used);
}

static VkResult from_data(const Maker *maker, const VkPipelineBinaryKeysAndDataKHR *all, uint32_t index,
                          VkPipelineBinaryKHR *handle)
{
    BinaryHeader header;
    Entry *entry = read_binary(&all->pPipelineBinaryData[index], &header);
    if (!entry)
        return VK_ERROR_INITIALIZATION_FAILED;
    return make_binary(maker, entry, header.index, header.count, handle);
}

/* Before anything is done with them. */
static unsigned examine_data(const DriverDevice *device, const VkPipelineBinaryKeysAndDataKHR *all)
{
    unsigned traits = TRAIT_FROM_DATA;
    for (uint32_t i = 0; i < all->binaryCount; i++) {
        const VkPipelineBinaryDataKHR *data = &all->pPipelineBinaryData[i];
        BinaryHeader header;
        if (!data->dataSize)
            violation("vkCreatePipelineBinariesKHR with a binary that has no data");
        if (all->pPipelineBinaryKeys[i].keySize != KEY_BYTES ||
            !was_given_out(device->settings->binaries_identity, all->pPipelineBinaryKeys[i].key, data->pData,
                           data->dataSize))
            violation("vkCreatePipelineBinariesKHR: %zu bytes that this driver did not give out under their key",
                      data->dataSize);
        Entry *entry = read_binary(data, &header);
        traits |= entry ? entry_traits(device->settings, entry) : TRAIT_DAMAGED;
    }
    return traits;
}

/* The entry of which binaries are to be made, and how many; NULL: the driver has none. */
static Entry *find_source(DriverDevice *device, const VkPipelineBinaryCreateInfoKHR *info, uint32_t *number)
{
    PipelineRequest request;
    if (info->pipeline) {
        Pipeline *of = object_of((uint64_t)info->pipeline, KIND_PIPELINE);
        if (!of->captured || of->released)
            violation("vkCreatePipelineBinariesKHR of a pipeline of which nothing is captured"); /* 09607, 09608 */
        *number = of->binary_count;
        return of->entry;
    }
    if (!device->internal_cache)
        violation("vkCreatePipelineBinariesKHR asks an internal cache that is not there"); /* 09609, 09610 */
    if (!device->internal_cache || !read_request(info->pPipelineCreateInfo, &request))
        return NULL;
    *number = request.binary_count;
    return cache_find(&device->internal, &request.key);
}

static VkResult make_all(const Maker *maker, const VkPipelineBinaryCreateInfoKHR *info, Entry *source, uint32_t number,
                         uint32_t refused, VkPipelineBinaryHandlesInfoKHR *out)
{
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < out->pipelineBinaryCount; i++) {
        VkPipelineBinaryKHR *handle = &out->pPipelineBinaries[i];
        VkResult one = VK_ERROR_OUT_OF_HOST_MEMORY;
        *handle = VK_NULL_HANDLE;
        if (i + 1 != refused)
            one = info->pKeysAndDataInfo ? from_data(maker, info->pKeysAndDataInfo, i, handle)
                                         : make_binary(maker, source, i, number, handle);
        /* The error of the first that is VK_NULL_HANDLE. */
        if (one != VK_SUCCESS && result == VK_SUCCESS)
            result = one;
    }
    return result;
}

static VkResult fetch_binaries(const Maker *maker, const VkPipelineBinaryCreateInfoKHR *info, Entry *source,
                               uint32_t number, const Verdict *verdict, VkPipelineBinaryHandlesInfoKHR *out)
{
    uint32_t most = verdict->action == ACT_INCOMPLETE && number ? number - 1 : number;
    out->pipelineBinaryCount = out->pipelineBinaryCount < most ? out->pipelineBinaryCount : most;
    uint32_t refused = verdict->action == ACT_PARTIAL ? script_number(verdict->argument) : 0;
    VkResult result = make_all(maker, info, source, number, refused, out);
    return result == VK_SUCCESS && out->pipelineBinaryCount < number ? VK_INCOMPLETE : result;
}

static VkResult VKAPI_CALL create_binaries(VkDevice handle, const VkPipelineBinaryCreateInfoKHR *info,
                                           const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *out)
{
    COMMAND_OF(handle, device);
    const VkPipelineBinaryKeysAndDataKHR *data = info->pKeysAndDataInfo;
    uint32_t number = data ? data->binaryCount : 0;
    Entry *source = data ? NULL : find_source(device, info, &number);
    unsigned traits = data ? examine_data(device, data) : info->pipeline ? TRAIT_FROM_PIPELINE : TRAIT_FROM_CREATE_INFO;
    traits |= out->pPipelineBinaries ? TRAIT_FETCH : TRAIT_COUNT;
    if (out->pPipelineBinaries)
        count(data ? COUNT_FROM_DATA : info->pipeline ? COUNT_FROM_PIPELINE : COUNT_FROM_CREATE_INFO, 1);
    else if (out->pipelineBinaryCount) /* RADV 25.0.7 adds what it counts to what is there */
        violation("a count query that begins with %u", out->pipelineBinaryCount);
    Verdict verdict = act(DO_CREATE_BINARIES, traits | (source ? entry_traits(device->settings, source) : 0));
    VkResult result = verdict.action == ACT_ERROR ? verdict.result : VK_SUCCESS;
    if (verdict.action == ACT_MISSING || (!data && !source))
        result = result == VK_SUCCESS ? VK_PIPELINE_BINARY_MISSING_KHR : result;
    for (uint32_t i = 0; result != VK_SUCCESS && out->pPipelineBinaries && i < out->pipelineBinaryCount; i++)
        out->pPipelineBinaries[i] = VK_NULL_HANDLE;
    if (result == VK_SUCCESS && !out->pPipelineBinaries)
        out->pipelineBinaryCount = number;
    else if (result == VK_SUCCESS)
        result = fetch_binaries(&(Maker){device, allocator}, info, source, number, &verdict, out);
    return result;
}

static void VKAPI_CALL destroy_binary(VkDevice device, VkPipelineBinaryKHR handle,
                                      const VkAllocationCallbacks *allocator)
{
    COMMAND_OF(device, self);
    if (!handle)
        return;
    Binary *gone = object_of((uint64_t)handle, KIND_BINARY);
    object_free(self, &gone->object, allocator);
}

/* ---- reading them ---- */

static VkResult VKAPI_CALL get_binary_data(VkDevice device, const VkPipelineBinaryDataInfoKHR *info,
                                           VkPipelineBinaryKeyKHR *key, size_t *size, void *out)
{
    COMMAND_OF(device, self);
    const Binary *of = object_of((uint64_t)info->pipelineBinary, KIND_BINARY);
    BinaryHeader header = {BINARY_MAGIC, of->index, of->count, 0};
    Verdict verdict = act(DO_BINARY_DATA, out ? TRAIT_DATA : 0);
    size_t bytes = sizeof header + entry_bytes(of->entry);
    if (verdict.action == ACT_ERROR)
        return verdict.result;
    write_key(key, 3, &of->entry->key, of->index);
    if (!out) {
        *size = verdict.action == ACT_GROW ? bytes - 16 : bytes;
        return VK_SUCCESS;
    }
    bool fits = *size >= bytes;
    *size = bytes;
    if (!fits)
        return VK_ERROR_NOT_ENOUGH_SPACE_KHR;
    memcpy(out, &header, sizeof header);
    memcpy((uint8_t *)out + sizeof header, of->entry, bytes - sizeof header);
    for (size_t i = 0; verdict.action == ACT_GARBAGE && i < bytes; i++)
        ((uint8_t *)out)[i] ^= 0x5a;
    given_out(self->settings->binaries_identity, key->key, out, bytes);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL release_captured(VkDevice device, const VkReleaseCapturedPipelineDataInfoKHR *info,
                                            const VkAllocationCallbacks *allocator)
{
    COMMAND_OF(device, self);
    Pipeline *of = object_of((uint64_t)info->pipeline, KIND_PIPELINE);
    object_check_allocator(&of->object, allocator); /* 09611, 09612 */
    if (!of->captured || of->released)
        violation("vkReleaseCapturedPipelineDataKHR of what is not captured, or not any more"); /* 09613, 09618 */
    VkResult result = act_or_error(DO_RELEASE_CAPTURED);
    of->released |= result == VK_SUCCESS;
    return result;
}

const EntryPoint binary_commands[] = {
    ENTRY("vkGetPipelineKeyKHR", get_key),
    ENTRY("vkCreatePipelineBinariesKHR", create_binaries),
    ENTRY("vkDestroyPipelineBinaryKHR", destroy_binary),
    ENTRY("vkGetPipelineBinaryDataKHR", get_binary_data),
    ENTRY("vkReleaseCapturedPipelineDataKHR", release_captured),
    {NULL, NULL},
};
