/* VK_KHR_pipeline_binary: its faults, and what the program or a layer above may not ask of it. */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

static void count(device_state *state, binary_counter counter)
{
    atomic_fetch_add(&state->binary_counters[counter], 1);
}

void note_binary_counters(const device_state *state)
{
    const atomic_long *c = state->binary_counters;
    if (!state->binaries)
        return;
    note("binaries keys=%ld from_data=%ld from_pipeline=%ld from_create_info=%ld missing=%ld reads=%ld released=%ld "
         "created_from_binaries=%ld captured=%ld created_plainly=%ld",
         c[COUNT_KEYS], c[COUNT_FROM_DATA], c[COUNT_FROM_PIPELINE], c[COUNT_FROM_CREATE_INFO], c[COUNT_MISSING],
         c[COUNT_READS], c[COUNT_RELEASED], c[COUNT_CREATED_FROM_BINARIES], c[COUNT_CAPTURED],
         c[COUNT_CREATED_PLAINLY]);
}

/* ---- vkGetPipelineKeyKHR ---- */

typedef struct {
    uint64_t flags;
    uint32_t stage_count;
    const VkPipelineShaderStageCreateInfo *stages;
    const void *chain;
} keyed_info;

/* False where the chain holds no create info of a kind that can be keyed here (VUID-VkPipelineCreateInfoKHR-pNext-09604). */
static bool read_keyed(const VkPipelineCreateInfoKHR *info, keyed_info *out)
{
    const VkBaseInStructure *head = info->pNext;
    if (!head)
        return false;
    switch ((int)head->sType) {
    case VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO: {
        const VkComputePipelineCreateInfo *compute = (const void *)head;
        *out = (keyed_info){compute->flags, 1, &compute->stage, compute->pNext};
        break;
    }
    case VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO: {
        const VkGraphicsPipelineCreateInfo *graphics = (const void *)head;
        *out = (keyed_info){graphics->flags, graphics->stageCount, graphics->pStages, graphics->pNext};
        break;
    }
    case VK_STRUCTURE_TYPE_RAY_TRACING_PIPELINE_CREATE_INFO_KHR: {
        const VkRayTracingPipelineCreateInfoKHR *rays = (const void *)head;
        *out = (keyed_info){rays->flags, rays->stageCount, rays->pStages, rays->pNext};
        break;
    }
    default:
        return false;
    }
    const VkPipelineCreateFlags2CreateInfoKHR *newer = find_in_chain(out->chain, TYPE_PIPELINE_CREATE_FLAGS_2);
    if (newer)
        out->flags = newer->flags;
    return true;
}

static bool is_fast_link(const keyed_info *info)
{
    const VkPipelineLibraryCreateInfoKHR *linked =
        find_in_chain(info->chain, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    return linked && linked->libraryCount && !(info->flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT);
}

static void check_keyed(const VkPipelineCreateInfoKHR *info, const char *command)
{
    keyed_info keyed;
    check_chain(info->pNext, command);
    if (!read_keyed(info, &keyed)) {
        violation("%s without the create info of a pipeline", command);
        return;
    }
    const VkPipelineBinaryInfoKHR *binaries = find_in_chain(keyed.chain, TYPE_PIPELINE_BINARY_INFO);
    if (binaries && binaries->binaryCount)
        violation("%s of a create info with pipeline binaries", command);
    /* RADV 25.0.7 has no stages there and crashes; later ones give every such pipeline the same key. */
    if (is_fast_link(&keyed))
        note("HAZARD %s of a fast-linked pipeline", command);
    for (uint32_t i = 0; i < keyed.stage_count; i++)
        if (keyed.stages[i].module == VK_NULL_HANDLE && !keyed.stages[i].pNext)
            note("HAZARD %s of a stage without a shader", command); /* RADV 25.0.7 crashes */
}

static VkResult VKAPI_CALL get_key(VkDevice device, const VkPipelineCreateInfoKHR *info, VkPipelineBinaryKeyKHR *key)
{
    static const char command[] = "vkGetPipelineKeyKHR";
    device_state *state = begin_call(device, command);
    if (!state->binaries)
        violation("%s without pipelineBinaries", command);
    if (info)
        check_keyed(info, command);
    count(state, COUNT_KEYS);
    VkResult fault = info ? faults.key_fails : faults.global_key_fails;
    VkResult result = fault ? fault : state->get_key(device, info, key);
    end_call(state);
    return result;
}

/* ---- vkCreatePipelineBinariesKHR ---- */

static void check_data(const VkPipelineBinaryKeysAndDataKHR *source, const char *command)
{
    for (uint32_t i = 0; i < source->binaryCount; i++) {
        const VkPipelineBinaryKeyKHR *key = &source->pPipelineBinaryKeys[i];
        const VkPipelineBinaryDataKHR *data = &source->pPipelineBinaryData[i];
        if (key->sType != VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR)
            violation("%s with a key whose sType is %d", command, (int)key->sType);
        if (key->keySize == 0 || key->keySize > VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR)
            violation("%s with a key of %u bytes", command, key->keySize);
        if (!data->pData || !data->dataSize)
            violation("%s with a binary that has no data", command);
        else if (!binary_was_given_out(key, data->pData, data->dataSize))
            violation("%s with %zu bytes that the driver did not give out under this key", command, data->dataSize);
    }
}

/* VUID-VkPipelineBinaryCreateInfoKHR-pipeline-09607 and -09608. */
static void check_captured(device_state *state, VkPipeline pipeline, const char *command)
{
    const object *known = object_find(KIND_PIPELINE, (uint64_t)pipeline, state->handle, command);
    if (known && !(known->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR))
        violation("%s of a pipeline without CAPTURE_DATA", command);
    else if (known && known->released)
        violation("%s of a pipeline whose captured data was released", command);
}

static void check_source(device_state *state, const VkPipelineBinaryCreateInfoKHR *info)
{
    static const char command[] = "vkCreatePipelineBinariesKHR";
    check_chain(info->pNext, command);
    if (!state->binaries)
        violation("%s without pipelineBinaries", command);
    if ((info->pKeysAndDataInfo != NULL) + (info->pipeline != VK_NULL_HANDLE) + (info->pPipelineCreateInfo != NULL) !=
        1)
        violation("%s with none or several of its three sources", command);
    if (info->pKeysAndDataInfo)
        check_data(info->pKeysAndDataInfo, command);
    if (info->pipeline)
        check_captured(state, info->pipeline, command);
    if (info->pPipelineCreateInfo)
        check_keyed(info->pPipelineCreateInfo, command);
    if (info->pPipelineCreateInfo && !state->internal_cache)
        violation("%s asks the internal cache of a driver that has none", command);
    if (info->pPipelineCreateInfo && state->internal_cache_disabled)
        violation("%s asks the internal cache of a device that has disabled it", command);
}

/* Drivers make no binaries one by one, so the Nth of all is looked for in what a call made. */
static VkResult fail_in_part(device_state *state, const VkAllocationCallbacks *allocator,
                             const VkPipelineBinaryHandlesInfoKHR *handles, VkResult result)
{
    static atomic_long made;
    for (uint32_t i = 0; result >= 0 && i < handles->pipelineBinaryCount; i++) {
        if (!handles->pPipelineBinaries[i] || atomic_fetch_add(&made, 1) + 1 != faults.binary_fails_at)
            continue;
        state->destroy_binary(state->handle, handles->pPipelineBinaries[i], allocator);
        handles->pPipelineBinaries[i] = VK_NULL_HANDLE;
        result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    return result;
}

static VkResult fault_of_source(const VkPipelineBinaryCreateInfoKHR *info, bool fetches)
{
    if (info->pPipelineCreateInfo && (faults.binary_missing || (fetches && faults.binary_missing_at_fetch)))
        return VK_PIPELINE_BINARY_MISSING_KHR;
    if (info->pPipelineCreateInfo && faults.probe_binaries_fails)
        return faults.probe_binaries_fails;
    if (info->pipeline && faults.read_binaries_fails)
        return faults.read_binaries_fails;
    return info->pKeysAndDataInfo ? faults.import_fails : VK_SUCCESS;
}

static VkResult count_binaries(device_state *state, const VkPipelineBinaryCreateInfoKHR *info,
                               const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *handles)
{
    uint32_t before = handles->pipelineBinaryCount;
    /* RADV 25.0.7 adds what it counts to what is there. */
    if (before)
        note("HAZARD vkCreatePipelineBinariesKHR, a count query that begins with %u", before);
    handles->pipelineBinaryCount = 0;
    VkResult result = state->create_binaries(state->handle, info, allocator, handles);
    handles->pipelineBinaryCount += before;
    return result;
}

static VkResult fetch_binaries(device_state *state, const VkPipelineBinaryCreateInfoKHR *info,
                               const VkAllocationCallbacks *allocator, VkPipelineBinaryHandlesInfoKHR *handles)
{
    if (faults.binaries_incomplete && handles->pipelineBinaryCount > 0)
        handles->pipelineBinaryCount--;
    VkResult result = state->create_binaries(state->handle, info, allocator, handles);
    result = fail_in_part(state, allocator, handles, result);
    for (uint32_t i = 0; i < handles->pipelineBinaryCount; i++)
        if (handles->pPipelineBinaries[i])
            object_add(KIND_BINARY, (uint64_t)handles->pPipelineBinaries[i], state->handle, 0, allocator != NULL);
    return result == VK_SUCCESS && faults.binaries_incomplete ? VK_INCOMPLETE : result;
}

static VkResult VKAPI_CALL create_binaries(VkDevice device, const VkPipelineBinaryCreateInfoKHR *info,
                                           const VkAllocationCallbacks *allocator,
                                           VkPipelineBinaryHandlesInfoKHR *handles)
{
    device_state *state = begin_call(device, "vkCreatePipelineBinariesKHR");
    bool fetches = handles->pPipelineBinaries != NULL;
    check_source(state, info);
    if (fetches)
        count(state, info->pipeline           ? COUNT_FROM_PIPELINE
                     : info->pKeysAndDataInfo ? COUNT_FROM_DATA
                                              : COUNT_FROM_CREATE_INFO);
    for (uint32_t i = 0; fetches && i < handles->pipelineBinaryCount; i++)
        handles->pPipelineBinaries[i] = VK_NULL_HANDLE;
    VkResult result = fault_of_source(info, fetches);
    if (result == VK_SUCCESS)
        result = (fetches ? fetch_binaries : count_binaries)(state, info, allocator, handles);
    if (result == VK_PIPELINE_BINARY_MISSING_KHR)
        count(state, COUNT_MISSING);
    end_call(state);
    return result;
}

static void VKAPI_CALL destroy_binary(VkDevice device, VkPipelineBinaryKHR binary,
                                      const VkAllocationCallbacks *allocator)
{
    device_state *state = begin_call(device, "vkDestroyPipelineBinaryKHR");
    if (binary)
        object_remove(KIND_BINARY, (uint64_t)binary, device, allocator != NULL, "vkDestroyPipelineBinaryKHR");
    state->destroy_binary(device, binary, allocator);
    end_call(state);
}

/* ---- what is in them ---- */

static VkResult read_data(device_state *state, object *known, const VkPipelineBinaryDataInfoKHR *info,
                          VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    if (data && faults.binary_data_fails)
        return faults.binary_data_fails;
    VkResult result = state->get_binary_data(state->handle, info, key, size, data);
    if (result == VK_SUCCESS && data)
        binary_given_out(key, data, *size);
    if (faults.binary_data_grows && !data && known && !known->asked_for_size) {
        known->asked_for_size = true;
        *size -= *size > 64 ? 16 : 0;
    }
    return result;
}

static VkResult VKAPI_CALL get_binary_data(VkDevice device, const VkPipelineBinaryDataInfoKHR *info,
                                           VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    static const char command[] = "vkGetPipelineBinaryDataKHR";
    device_state *state = begin_call(device, command);
    object *known = object_find(KIND_BINARY, (uint64_t)info->pipelineBinary, device, command);
    begin_use(known, false, command);
    count(state, COUNT_READS);
    VkResult result = read_data(state, known, info, key, size, data);
    end_use(known, false);
    end_call(state);
    return result;
}

/* VUID-VkReleaseCapturedPipelineDataInfoKHR-pipeline-09613 and -09618; -09611 and -09612 of the command. */
static VkResult VKAPI_CALL release_captured(VkDevice device, const VkReleaseCapturedPipelineDataInfoKHR *info,
                                            const VkAllocationCallbacks *allocator)
{
    static const char command[] = "vkReleaseCapturedPipelineDataKHR";
    device_state *state = begin_call(device, command);
    object *known = object_find(KIND_PIPELINE, (uint64_t)info->pipeline, device, command);
    begin_use(known, true, command);
    if (known && !(known->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR))
        violation("%s of a pipeline without CAPTURE_DATA", command);
    if (known && known->released)
        violation("%s a second time", command);
    if (known && known->has_allocator != (allocator != NULL))
        violation("%s with another allocator than the pipeline was made with", command);
    if (known)
        known->released = true;
    count(state, COUNT_RELEASED);
    VkResult result = state->release_captured(device, info, allocator);
    end_use(known, true);
    end_call(state);
    return result;
}

/* ---- pipelines made from them ---- */

void check_binaries_of_pipeline(device_state *state, const void *chain, uint64_t flags, const char *command)
{
    const VkPipelineBinaryInfoKHR *info = find_in_chain(chain, TYPE_PIPELINE_BINARY_INFO);
    bool captures =
        find_in_chain(chain, TYPE_PIPELINE_CREATE_FLAGS_2) && (flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR);
    bool from_binaries = info && info->binaryCount;
    if (captures && !state->binaries)
        violation("%s with CAPTURE_DATA without pipelineBinaries", command);
    count(state, from_binaries ? COUNT_CREATED_FROM_BINARIES : captures ? COUNT_CAPTURED : COUNT_CREATED_PLAINLY);
    if (!from_binaries)
        return;
    if (!state->binaries)
        violation("%s with pipeline binaries without pipelineBinaries", command);
    for (uint32_t i = 0; i < info->binaryCount; i++)
        object_find(KIND_BINARY, (uint64_t)info->pPipelineBinaries[i], state->handle, command);
    /* What RADV 25.0.7 does wrong then; docs/architecture.md. */
    static const struct {
        uint64_t flags;
        const char *what;
    } hazards[] = {
        {VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT,
         "a library that keeps what optimized links need"},
        {VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
         "a pipeline that shows its executables"},
        {VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR,
         "a pipeline with handles for capture and replay"},
    };
    for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++)
        if (flags & hazards[i].flags)
            note("HAZARD %s from binaries of %s", command, hazards[i].what);
}

const entry_point binary_entry_points[] = {ENTRY("vkGetPipelineKeyKHR", get_key),
                                           ENTRY("vkCreatePipelineBinariesKHR", create_binaries),
                                           ENTRY("vkDestroyPipelineBinaryKHR", destroy_binary),
                                           ENTRY("vkGetPipelineBinaryDataKHR", get_binary_data),
                                           ENTRY("vkReleaseCapturedPipelineDataKHR", release_captured),
                                           {NULL, NULL}};
