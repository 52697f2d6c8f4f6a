/* Pipeline caches: their faults, and who uses them at the same time. */
#include "faults.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SYNCHRONIZED_MERGE 0x8u /* VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR */
#define EXTERNALLY_SYNCHRONIZED VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT

/* Inside a call, so that calls which must not meet have time to. */
static void be_slow(void)
{
    struct timespec time = {.tv_sec = faults.slow_cache_ms / 1000, .tv_nsec = faults.slow_cache_ms % 1000 * 1000000};
    if (faults.slow_cache_ms)
        nanosleep(&time, NULL);
}

/* Whether this call of a counted command is to fail. */
static bool fails_now(bool fault, long at, atomic_long *counter)
{
    long number = atomic_fetch_add(counter, 1) + 1;
    return fault && (at == 0 || at == number);
}

static VkResult refusal(const VkPipelineCacheCreateInfo *info)
{
    static atomic_long made;
    if (faults.cache_refused && atomic_fetch_add(&made, 1) >= faults.cache_refused_after)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (faults.cache_data_refused && info->initialDataSize > 0)
        return VK_ERROR_INITIALIZATION_FAILED;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    device_state *state = begin_call(device, "vkCreatePipelineCache");
    check_chain(info->pNext, "vkCreatePipelineCache");
    if ((info->flags & EXTERNALLY_SYNCHRONIZED) && !state->cache_control)
        violation("vkCreatePipelineCache, EXTERNALLY_SYNCHRONIZED without pipelineCreationCacheControl");
    if (info->initialDataSize && !info->pInitialData)
        violation("vkCreatePipelineCache with a size and without data");
    else if (info->initialDataSize && !cache_data_was_given_out(info->pInitialData, info->initialDataSize))
        violation("vkCreatePipelineCache with %zu bytes that the driver did not give out", info->initialDataSize);
    be_slow();
    static atomic_long loads;
    if (info->initialDataSize)
        die_at(faults.dies_loading, &loads);
    VkResult result = refusal(info);
    if (result == VK_SUCCESS)
        result = state->create_cache(device, info, allocator, cache);
    uint64_t none = 0;
    if (result == VK_SUCCESS)
        atomic_compare_exchange_strong(&state->first_cache, &none, (uint64_t)*cache);
    if (result == VK_SUCCESS)
        object_add(KIND_CACHE, (uint64_t)*cache, device, info->flags, allocator != NULL);
    end_call(state);
    return result;
}

static void VKAPI_CALL destroy_cache(VkDevice device, VkPipelineCache cache, const VkAllocationCallbacks *allocator)
{
    device_state *state = begin_call(device, "vkDestroyPipelineCache");
    if (cache)
        object_remove(KIND_CACHE, (uint64_t)cache, device, allocator != NULL, "vkDestroyPipelineCache");
    state->destroy_cache(device, cache, allocator);
    end_call(state);
}

/* As of a driver that keeps nothing: the header, or all that an empty cache has. */
static VkResult get_stub_data(device_state *state, VkPipelineCache cache, size_t *size, void *data)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache empty = VK_NULL_HANDLE;
    uint8_t bytes[4096];
    size_t have = sizeof bytes;
    (void)cache;
    if (state->create_cache(state->handle, &info, NULL, &empty) != VK_SUCCESS)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    VkResult result = state->get_cache_data(state->handle, empty, &have, bytes);
    state->destroy_cache(state->handle, empty, NULL);
    if (result != VK_SUCCESS)
        return result;
    if (!faults.stub_is_empty_cache)
        have = sizeof(VkPipelineCacheHeaderVersionOne);
    if (data && *size < have)
        return VK_INCOMPLETE;
    if (data)
        memcpy(data, bytes, have);
    *size = have;
    return VK_SUCCESS;
}

static VkResult get_data(device_state *state, VkPipelineCache cache, object *known, size_t *size, void *data)
{
    static atomic_long reads;
    if (data && fails_now(faults.data_fails, faults.data_fails_at, &reads))
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (data && faults.data_incomplete) {
        *size = *size < 32 ? 0 : 32;
        return VK_INCOMPLETE;
    }
    if (faults.stub_cache)
        return get_stub_data(state, cache, size, data);
    VkResult result = state->get_cache_data(state->handle, cache, size, data);
    if (faults.data_grows && !data && known && !known->asked_for_size) {
        known->asked_for_size = true;
        *size -= *size > 64 ? 16 : 0;
    }
    return result;
}

static VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data)
{
    device_state *state = begin_call(device, "vkGetPipelineCacheData");
    object *known = object_find(KIND_CACHE, (uint64_t)cache, device, "vkGetPipelineCacheData");
    begin_use(known, false, "vkGetPipelineCacheData");
    be_slow();
    VkResult result = get_data(state, cache, known, size, data);
    if (data && (result == VK_SUCCESS || result == VK_INCOMPLETE))
        cache_data_given_out(data, *size);
    end_use(known, false);
    end_call(state);
    return result;
}

static VkResult VKAPI_CALL merge_caches(VkDevice device, VkPipelineCache into, uint32_t count,
                                        const VkPipelineCache *caches)
{
    static atomic_long merges;
    device_state *state = begin_call(device, "vkMergePipelineCaches");
    object *target = object_find(KIND_CACHE, (uint64_t)into, device, "vkMergePipelineCaches");
    object **sources = calloc(count + 1, sizeof *sources);
    if (!sources)
        abort();
    if (count == 0)
        violation("vkMergePipelineCaches without a source");
    if (faults.note_merges)
        note("vkMergePipelineCaches of %u into 0x%llx", count, (unsigned long long)into);
    bool alone = target && !(target->flags & SYNCHRONIZED_MERGE);
    begin_use(target, alone, "vkMergePipelineCaches");
    if (atomic_fetch_add(&state->merges, 1) > 0 && faults.merges_alone)
        violation("vkMergePipelineCaches while another merge of the device goes on");
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = object_find(KIND_CACHE, (uint64_t)caches[i], device, "vkMergePipelineCaches");
        if (caches[i] == into)
            violation("vkMergePipelineCaches of a cache into itself");
        else
            begin_use(sources[i], false, "vkMergePipelineCaches");
    }
    be_slow();
    static atomic_long tries;
    die_at(faults.dies_merging, &tries);
    VkResult result = fails_now(faults.merge_fails, faults.merge_fails_at, &merges)
                          ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                          : state->merge_caches(device, into, count, caches);
    for (uint32_t i = 0; i < count; i++)
        if (caches[i] != into)
            end_use(sources[i], false);
    end_use(target, alone);
    atomic_fetch_sub(&state->merges, 1);
    atomic_fetch_add(&state->merges_done, 1);
    free(sources);
    end_call(state);
    return result;
}

const entry_point cache_entry_points[] = {ENTRY("vkCreatePipelineCache", create_cache),
                                          ENTRY("vkDestroyPipelineCache", destroy_cache),
                                          ENTRY("vkGetPipelineCacheData", get_cache_data),
                                          ENTRY("vkMergePipelineCaches", merge_caches),
                                          {NULL, NULL}};
