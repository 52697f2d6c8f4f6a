/* Pipelines: their faults, and what the create infos must not ask for. */
#include "faults.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FAIL_ON_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT_EXT
#define EARLY_RETURN VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT_EXT
#define DERIVATIVE VK_PIPELINE_CREATE_DERIVATIVE_BIT
#define CAPTURE_DATA 0x80000000ull
#define HIT VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT

static const char *const commands[] = {"vkCreateComputePipelines", "vkCreateGraphicsPipelines",
                                       "vkCreateRayTracingPipelinesKHR"};

typedef union {
    VkComputePipelineCreateInfo compute;
    VkGraphicsPipelineCreateInfo graphics;
    VkRayTracingPipelineCreateInfoKHR ray_tracing;
} any_info;

static size_t info_size(bind_point point)
{
    static const size_t sizes[] = {sizeof(VkComputePipelineCreateInfo), sizeof(VkGraphicsPipelineCreateInfo),
                                   sizeof(VkRayTracingPipelineCreateInfoKHR)};
    return sizes[point];
}

/* All three begin alike: sType, pNext, flags. */
static const VkComputePipelineCreateInfo *head_of(const create_call *call, uint32_t index)
{
    return (const void *)((const char *)call->infos + index * info_size(call->point));
}

static uint64_t flags_of(const create_call *call, uint32_t index)
{
    const flags2_info *newer = find_in_chain(head_of(call, index)->pNext, TYPE_PIPELINE_CREATE_FLAGS_2);
    return newer ? newer->flags : head_of(call, index)->flags;
}

typedef struct {
    VkPipeline *handle;
    int32_t *index;
} base_pipeline;

static base_pipeline base_of(bind_point point, any_info *info)
{
    switch (point) {
    case COMPUTE:
        return (base_pipeline){&info->compute.basePipelineHandle, &info->compute.basePipelineIndex};
    case GRAPHICS:
        return (base_pipeline){&info->graphics.basePipelineHandle, &info->graphics.basePipelineIndex};
    default:
        return (base_pipeline){&info->ray_tracing.basePipelineHandle, &info->ray_tracing.basePipelineIndex};
    }
}

static any_info copy_of(const create_call *call, uint32_t index)
{
    any_info info;
    memset(&info, 0, sizeof info);
    memcpy(&info, head_of(call, index), info_size(call->point));
    return info;
}

static uint32_t stages_of(const create_call *call, uint32_t index, const VkPipelineShaderStageCreateInfo **stages)
{
    const void *info = head_of(call, index);
    switch (call->point) {
    case COMPUTE:
        *stages = &((const VkComputePipelineCreateInfo *)info)->stage;
        return 1;
    case GRAPHICS:
        *stages = ((const VkGraphicsPipelineCreateInfo *)info)->pStages;
        return ((const VkGraphicsPipelineCreateInfo *)info)->stageCount;
    default:
        *stages = ((const VkRayTracingPipelineCreateInfoKHR *)info)->pStages;
        return ((const VkRayTracingPipelineCreateInfoKHR *)info)->stageCount;
    }
}

/* ---- checks ---- */

/* VUID-VkGraphicsPipelineCreateInfo-flags-07984 to -07986, and -00720 of the command. */
static void check_base(const create_call *call, uint32_t index, uint64_t flags)
{
    const char *command = commands[call->point];
    if (!(flags & DERIVATIVE))
        return;
    any_info info = copy_of(call, index);
    base_pipeline base = base_of(call->point, &info);
    if ((*base.index != -1) == (*base.handle != VK_NULL_HANDLE))
        violation("%s: a derivative with index %d and %s handle", command, *base.index, *base.handle ? "a" : "no");
    else if (*base.index != -1 && (*base.index < 0 || (uint32_t)*base.index >= index))
        violation("%s: element %u derives from element %d", command, index, *base.index);
    else if (*base.handle != VK_NULL_HANDLE)
        object_find(KIND_PIPELINE, (uint64_t)*base.handle, call->state->handle, command);
}

static void check_feedback(const create_call *call, uint32_t index)
{
    const VkPipelineCreationFeedbackCreateInfo *feedback =
        find_in_chain(head_of(call, index)->pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
    if (!feedback)
        return;
    const VkPipelineShaderStageCreateInfo *stages;
    uint32_t stage_count = stages_of(call, index, &stages);
    if (!call->state->feedback)
        violation("%s with creation feedback and without its extension", commands[call->point]);
    if (!feedback->pPipelineCreationFeedback)
        violation("%s with creation feedback that has nowhere to go", commands[call->point]);
    if (feedback->pipelineStageCreationFeedbackCount && feedback->pipelineStageCreationFeedbackCount != stage_count)
        violation("%s with feedback for %u of %u stages", commands[call->point],
                  feedback->pipelineStageCreationFeedbackCount, stage_count);
}

static void check_element(const create_call *call, uint32_t index)
{
    const char *command = commands[call->point];
    const void *chain = head_of(call, index)->pNext;
    uint64_t flags = flags_of(call, index);
    check_chain(chain, command);
    if ((flags & (FAIL_ON_COMPILE | EARLY_RETURN)) && !call->state->cache_control)
        violation("%s with flags 0x%llx without pipelineCreationCacheControl", command, (unsigned long long)flags);
    if ((flags & EARLY_RETURN) && call->deferred)
        violation("%s deferred, with EARLY_RETURN_ON_FAILURE", command);
    const binary_info *binaries = find_in_chain(chain, TYPE_PIPELINE_BINARY_INFO);
    bool uses_binaries = binaries && binaries->count;
    bool captures = find_in_chain(chain, TYPE_PIPELINE_CREATE_FLAGS_2) && (flags & CAPTURE_DATA);
    if ((uses_binaries || captures) && call->cache != VK_NULL_HANDLE)
        violation("%s with pipeline binaries and a VkPipelineCache", command);
    if (uses_binaries && (flags & FAIL_ON_COMPILE))
        violation("%s with pipeline binaries and FAIL_ON_PIPELINE_COMPILE_REQUIRED", command);
    check_binaries_of_pipeline(call->state, chain, flags, command);
    check_base(call, index, flags);
    check_feedback(call, index);
    const VkPipelineShaderStageCreateInfo *stages;
    uint32_t stage_count = stages_of(call, index, &stages);
    for (uint32_t i = 0; i < stage_count; i++) {
        check_chain(stages[i].pNext, command);
        if (stages[i].module != VK_NULL_HANDLE)
            object_find(KIND_MODULE, (uint64_t)stages[i].module, call->state->handle, command);
    }
}

/* ---- faults ---- */

/* The same for the same shaders and constants in every process. */
static uint64_t fingerprint(const create_call *call, uint32_t index)
{
    const VkPipelineShaderStageCreateInfo *stages;
    uint32_t stage_count = stages_of(call, index, &stages);
    uint64_t hash = HASH_START;
    for (uint32_t i = 0; i < stage_count; i++) {
        const object *module =
            stages[i].module ? object_find(KIND_MODULE, (uint64_t)stages[i].module, call->state->handle, NULL) : NULL;
        const VkSpecializationInfo *constants = stages[i].pSpecializationInfo;
        if (module)
            hash = hash_bytes(hash, &module->fingerprint, sizeof module->fingerprint);
        if (constants)
            hash = hash_bytes(hash, constants->pData, constants->dataSize);
    }
    return hash >> 20;
}

/* VK_SUCCESS: the driver decides. */
static VkResult fault_of(const create_call *call, uint32_t index)
{
    static atomic_long compiled;
    const void *chain = head_of(call, index)->pNext;
    const binary_info *binaries = find_in_chain(chain, TYPE_PIPELINE_BINARY_INFO);
    if (binaries && binaries->count)
        return faults.from_binaries_fails;
    if (find_in_chain(chain, TYPE_PIPELINE_CREATE_FLAGS_2) && (flags_of(call, index) & CAPTURE_DATA) &&
        faults.capture_fails)
        return faults.capture_fails;
    if (flags_of(call, index) & FAIL_ON_COMPILE)
        return faults.probe_misses >> call->point & 1 ? VK_PIPELINE_COMPILE_REQUIRED_EXT : VK_SUCCESS;
    if (faults.pipelines_refused && fingerprint(call, index) % (uint64_t)faults.pipelines_refused == 0)
        return VK_ERROR_UNKNOWN;
    if (atomic_fetch_add(&compiled, 1) + 1 == faults.pipeline_fails_at)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return VK_SUCCESS;
}

static VkResult call_driver(const create_call *call, uint32_t count, const void *infos, VkPipeline *pipelines)
{
    const device_state *state = call->state;
    switch (call->point) {
    case COMPUTE:
        return state->create_compute(state->handle, call->cache, count, infos, call->allocator, pipelines);
    case GRAPHICS:
        return state->create_graphics(state->handle, call->cache, count, infos, call->allocator, pipelines);
    default:
        return state->create_ray_tracing(state->handle, call->deferred, call->cache, count, infos, call->allocator,
                                         pipelines);
    }
}

VkResult create_element(const create_call *call, uint32_t index)
{
    VkResult result = fault_of(call, index);
    if (result != VK_SUCCESS)
        return result;
    any_info info = copy_of(call, index);
    base_pipeline base = base_of(call->point, &info);
    if ((flags_of(call, index) & DERIVATIVE) && *base.index >= 0) {
        *base.handle = call->pipelines[*base.index];
        *base.index = -1;
        /* A parent that failed: no driver minds. */
        if (*base.handle == VK_NULL_HANDLE)
            info.compute.flags &= ~(VkPipelineCreateFlags)DERIVATIVE;
    }
    return call_driver(call, 1, &info, &call->pipelines[index]);
}

/* As a driver does it for which some pipelines fail. */
static VkResult create_each(const create_call *call)
{
    VkResult worst = VK_SUCCESS;
    for (uint32_t i = 0; i < call->count; i++)
        call->pipelines[i] = VK_NULL_HANDLE;
    for (uint32_t i = 0; i < call->count; i++) {
        VkResult result = create_element(call, i);
        if (result == VK_SUCCESS)
            continue;
        call->pipelines[i] = VK_NULL_HANDLE;
        if (worst == VK_SUCCESS || (worst > 0 && result < 0))
            worst = result;
        if (flags_of(call, i) & EARLY_RETURN)
            break;
    }
    return worst;
}

#define MAX_STAGES 32

typedef struct {
    VkPipelineCreationFeedback whole, stages[MAX_STAGES];
} saved_feedback;

static const VkPipelineCreationFeedbackCreateInfo *feedback_of(const create_call *call, uint32_t index)
{
    return find_in_chain(head_of(call, index)->pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
}

static saved_feedback *save_feedback(const create_call *call)
{
    if (!faults.no_feedback)
        return NULL;
    saved_feedback *all = calloc(call->count + 1, sizeof *all);
    for (uint32_t i = 0; all && i < call->count; i++) {
        const VkPipelineCreationFeedbackCreateInfo *feedback = feedback_of(call, i);
        if (!feedback)
            continue;
        all[i].whole = *feedback->pPipelineCreationFeedback;
        for (uint32_t j = 0; j < feedback->pipelineStageCreationFeedbackCount && j < MAX_STAGES; j++)
            all[i].stages[j] = feedback->pPipelineStageCreationFeedbacks[j];
    }
    return all;
}

static void spoil_feedback(const create_call *call, saved_feedback *saved)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const VkPipelineCreationFeedbackCreateInfo *feedback = feedback_of(call, i);
        if (!feedback)
            continue;
        if (faults.feedback_without_hit_bit)
            feedback->pPipelineCreationFeedback->flags &= ~(VkFlags)HIT;
        if (saved)
            *feedback->pPipelineCreationFeedback = saved[i].whole;
        for (uint32_t j = 0; j < feedback->pipelineStageCreationFeedbackCount && j < MAX_STAGES; j++) {
            if (faults.feedback_without_hit_bit)
                feedback->pPipelineStageCreationFeedbacks[j].flags &= ~(VkFlags)HIT;
            if (saved)
                feedback->pPipelineStageCreationFeedbacks[j] = saved[i].stages[j];
        }
    }
    free(saved);
}

void pipelines_exist(const create_call *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        if (call->pipelines[i] != VK_NULL_HANDLE)
            object_add(KIND_PIPELINE, (uint64_t)call->pipelines[i], call->state->handle, flags_of(call, i),
                       call->allocator != NULL);
}

/* At once, and with the answer of a driver that says it deferred: RADV does so. */
static VkResult create_instead_of_deferring(create_call call)
{
    call.deferred = VK_NULL_HANDLE;
    VkResult result = create_each(&call);
    if (result != VK_SUCCESS)
        return result;
    return faults.never_defers ? VK_OPERATION_NOT_DEFERRED_KHR : VK_OPERATION_DEFERRED_KHR;
}

static VkResult create_with_faults(const create_call *call)
{
    bool each = faults.probe_misses || faults.pipeline_fails_at || faults.pipelines_refused ||
                faults.from_binaries_fails || faults.capture_fails;
    if (call->deferred)
        return each || faults.never_defers ? create_instead_of_deferring(*call)
                                           : call_driver(call, call->count, call->infos, call->pipelines);
    return each ? create_each(call) : call_driver(call, call->count, call->infos, call->pipelines);
}

#define PATIENCE_SECONDS 20

/* As a compile that takes as long as the others need for what must not wait for it. */
static void wait_for_others(const create_call *call)
{
    static atomic_flag first = ATOMIC_FLAG_INIT;
    bool waits = faults.compile_waits_for_hit ||
                 (faults.compile_waits_for_merge && (uint64_t)call->cache == atomic_load(&call->state->first_cache));
    if (!waits || (flags_of(call, 0) & FAIL_ON_COMPILE) || atomic_flag_test_and_set(&first))
        return;
    atomic_uint *done = faults.compile_waits_for_hit ? &call->state->hits : &call->state->merges_done;
    unsigned before = atomic_load(done);
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < PATIENCE_SECONDS * 1000; i++) {
        if (atomic_load(done) != before)
            return;
        nanosleep(&pause, NULL);
    }
    violation("%s: a compile kept others waiting", commands[call->point]);
}

static VkResult create_pipelines(create_call call, VkDevice device)
{
    const char *command = commands[call.point];
    call.state = begin_call(device, command);
    for (uint32_t i = 0; i < call.count; i++)
        check_element(&call, i);
    object *cache = call.cache ? object_find(KIND_CACHE, (uint64_t)call.cache, device, command) : NULL;
    /* Creating a pipeline modifies the cache; only a flagged one leaves the synchronization to its user. */
    bool alone = cache && (cache->flags & VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT_EXT);
    begin_use(cache, alone, command);
    static atomic_long probes, compiles;
    if (call.count && (flags_of(&call, 0) & FAIL_ON_COMPILE))
        die_at(faults.dies_probing, &probes);
    else
        die_at(faults.dies_compiling, &compiles);
    if (call.deferred && faults.defers) {
        VkResult deferred = defer(&call, cache);
        end_call(call.state);
        return deferred;
    }
    wait_for_others(&call);
    saved_feedback *saved = save_feedback(&call);
    VkResult result = create_with_faults(&call);
    if (result == VK_SUCCESS && (flags_of(&call, 0) & FAIL_ON_COMPILE))
        atomic_fetch_add(&call.state->hits, 1);
    spoil_feedback(&call, saved);
    end_use(cache, alone);
    pipelines_exist(&call);
    end_call(call.state);
    return result;
}

static VkResult VKAPI_CALL create_compute(VkDevice device, VkPipelineCache cache, uint32_t count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    return create_pipelines((create_call){.point = COMPUTE,
                                          .cache = cache,
                                          .count = count,
                                          .infos = infos,
                                          .allocator = allocator,
                                          .pipelines = pipelines},
                            device);
}

static VkResult VKAPI_CALL create_graphics(VkDevice device, VkPipelineCache cache, uint32_t count,
                                           const VkGraphicsPipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    return create_pipelines((create_call){.point = GRAPHICS,
                                          .cache = cache,
                                          .count = count,
                                          .infos = infos,
                                          .allocator = allocator,
                                          .pipelines = pipelines},
                            device);
}

static VkResult VKAPI_CALL create_ray_tracing(VkDevice device, VkDeferredOperationKHR deferred, VkPipelineCache cache,
                                              uint32_t count, const VkRayTracingPipelineCreateInfoKHR *infos,
                                              const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    return create_pipelines((create_call){.point = RAY_TRACING,
                                          .deferred = deferred,
                                          .cache = cache,
                                          .count = count,
                                          .infos = infos,
                                          .allocator = allocator,
                                          .pipelines = pipelines},
                            device);
}

static void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline pipeline, const VkAllocationCallbacks *allocator)
{
    device_state *state = begin_call(device, "vkDestroyPipeline");
    if (pipeline)
        object_remove(KIND_PIPELINE, (uint64_t)pipeline, device, allocator != NULL, "vkDestroyPipeline");
    state->destroy_pipeline(device, pipeline, allocator);
    end_call(state);
}

/* ---- shader modules, for the fingerprints ---- */

static VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    device_state *state = begin_call(device, "vkCreateShaderModule");
    VkResult result = state->create_module(device, info, allocator, module);
    if (result == VK_SUCCESS)
        object_add(KIND_MODULE, (uint64_t)*module, device, 0, allocator != NULL)->fingerprint =
            hash_bytes(HASH_START, info->pCode, info->codeSize);
    end_call(state);
    return result;
}

static void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule module, const VkAllocationCallbacks *allocator)
{
    device_state *state = begin_call(device, "vkDestroyShaderModule");
    if (module)
        object_remove(KIND_MODULE, (uint64_t)module, device, allocator != NULL, "vkDestroyShaderModule");
    state->destroy_module(device, module, allocator);
    end_call(state);
}

const entry_point pipeline_entry_points[] = {ENTRY("vkCreateComputePipelines", create_compute),
                                             ENTRY("vkCreateGraphicsPipelines", create_graphics),
                                             ENTRY("vkCreateRayTracingPipelinesKHR", create_ray_tracing),
                                             ENTRY("vkDestroyPipeline", destroy_pipeline),
                                             ENTRY("vkCreateShaderModule", create_module),
                                             ENTRY("vkDestroyShaderModule", destroy_module),
                                             {NULL, NULL}};
