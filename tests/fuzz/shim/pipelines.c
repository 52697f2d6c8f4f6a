/*
 * pipelines.c - see fuzz.h. The driver's pipelines, deferred operations and pipeline binaries.
 *
 * A create info that arrives is the program's, as its layout tells, with nothing changed but what the layer may change:
 * flags, feedback, binaries and the base pipeline.
 */
#include <string.h>

#include "fuzz.h"

Infos current;

/* What the layer puts in front of a chain, or replaces in it. */
static bool may_be_added(VkStructureType type)
{
    return type == VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR ||
           type == VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR ||
           type == VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT;
}

/* Every struct of the program is there, in its order. */
static void check_chain(const void *program, const void *arrived)
{
    const VkBaseInStructure *node = arrived;
    for (const VkBaseInStructure *wanted = program; wanted; wanted = wanted->pNext) {
        while (node && node->sType != wanted->sType) {
            expect(may_be_added(node->sType), "a struct that the program did not chain");
            node = node->pNext;
        }
        expect(node, "a struct of the program is missing");
        node = node->pNext;
    }
    for (; node; node = node->pNext)
        expect(may_be_added(node->sType), "a struct that the program did not chain");
}

/* From behind the flags up to the base pipeline. */
static void check_same(enum BindPoint point, const AnyCreateInfo *program, const AnyCreateInfo *arrived)
{
#define SAME(type, first) {offsetof(type, first), offsetof(type, basePipelineHandle)}
    static const struct {
        size_t begin, end;
    } same[] = {[BIND_GRAPHICS] = SAME(VkGraphicsPipelineCreateInfo, stageCount),
                [BIND_COMPUTE] = SAME(VkComputePipelineCreateInfo, stage),
                [BIND_RAY_TRACING] = SAME(VkRayTracingPipelineCreateInfoKHR, stageCount)};
    size_t begin = same[point].begin;
    expect(memcmp((const char *)program + begin, (const char *)arrived + begin, same[point].end - begin) == 0,
           "a member that is not the layer's to change");
}

static const AnyCreateInfo *program_info(enum BindPoint point, const AnyCreateInfo *info)
{
    uint64_t number = (uint64_t)layout_of(point, info);
    expect(number > 0 && number <= current.count && point == current.point, "a create info from nowhere");
    return info_at(&current, (uint32_t)number - 1);
}

void check_info(enum BindPoint point, const AnyCreateInfo *info)
{
    chain_touch(info->head.pNext);
    const AnyCreateInfo *program = program_info(point, info);
    check_chain(program->head.pNext, info->head.pNext);
    check_same(point, program, info);
}

static const VkPipelineBinaryInfoKHR *binaries_of(const AnyCreateInfo *info)
{
    const VkPipelineBinaryInfoKHR *binaries =
        (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR);
    return binaries && binaries->binaryCount ? binaries : NULL;
}

static void write_feedback(const AnyCreateInfo *info)
{
    const VkPipelineCreationFeedbackCreateInfoEXT *feedback =
        (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT);
    if (!feedback || chance(4))
        return;
    feedback->pPipelineCreationFeedback->flags = 1 | (chance(8) ? 2 : 0);
    for (uint32_t i = 0; i < feedback->pipelineStageCreationFeedbackCount; i++)
        feedback->pPipelineStageCreationFeedbacks[i].flags = take8();
}

static VkResult create_one(enum BindPoint point, VkPipelineCache cache, const AnyCreateInfo *info, VkPipeline *pipeline)
{
    check_info(point, info);
    const VkPipelineBinaryInfoKHR *binaries = binaries_of(info);
    uint64_t flags = flags_of(info);
    bool captures = pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR) &&
                    (flags & CAPTURE_DATA);
    expect(!binaries || cache == VK_NULL_HANDLE, "VUID-vkCreateGraphicsPipelines-pNext-09616");
    expect(!captures || cache == VK_NULL_HANDLE, "VUID-vkCreateGraphicsPipelines-pNext-09617");
    const AnyCreateInfo *program = program_info(point, info);
    expect(!binaries || binaries_of(program) || !(flags & FAIL_ON_COMPILE),
           "VUID-vkCreateGraphicsPipelines-binaryCount-09622");
    expect(binaries || (flags & FAIL_ON_COMPILE) || !(flags_of(program) & FAIL_ON_COMPILE),
           "compiles where the program forbids it");
    for (uint32_t i = 0; binaries && i < binaries->binaryCount; i++)
        object_of((uint64_t)binaries->pPipelineBinaries[i], OBJECT_BINARY);
    VkResult result = sometimes_fails();
    if (result == VK_SUCCESS && (flags & FAIL_ON_COMPILE) && chance(9))
        result = VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (result == VK_SUCCESS) {
        write_feedback(info);
        *pipeline = (VkPipeline)object_new(OBJECT_PIPELINE);
    }
    return result;
}

static VkResult create_all(enum BindPoint point, VkPipelineCache cache, uint32_t count, const void *infos,
                           VkPipeline *pipelines)
{
    if (cache != VK_NULL_HANDLE)
        object_of((uint64_t)cache, OBJECT_CACHE);
    VkResult result = VK_SUCCESS;
    bool stopped = false;
    for (uint32_t i = 0; i < count; i++) {
        const AnyCreateInfo *info = (const void *)((const char *)infos + i * create_info_size(point));
        pipelines[i] = VK_NULL_HANDLE;
        if (stopped)
            continue;
        VkResult one = create_one(point, cache, info, &pipelines[i]);
        if (one != VK_SUCCESS && (result == VK_SUCCESS || one < 0))
            result = one;
        stopped = one != VK_SUCCESS && (flags_of(info) & EARLY_RETURN);
    }
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_graphics(VkDevice, VkPipelineCache cache, uint32_t count,
                                                      const VkGraphicsPipelineCreateInfo *infos,
                                                      const VkAllocationCallbacks *, VkPipeline *pipelines)
{
    return create_all(BIND_GRAPHICS, cache, count, infos, pipelines);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_compute(VkDevice, VkPipelineCache cache, uint32_t count,
                                                     const VkComputePipelineCreateInfo *infos,
                                                     const VkAllocationCallbacks *, VkPipeline *pipelines)
{
    return create_all(BIND_COMPUTE, cache, count, infos, pipelines);
}

/* A deferred one is done when the program joins: what it was given must still be there. */
static VKAPI_ATTR VkResult VKAPI_CALL create_ray_tracing(VkDevice, VkDeferredOperationKHR deferred,
                                                         VkPipelineCache cache, uint32_t count,
                                                         const VkRayTracingPipelineCreateInfoKHR *infos,
                                                         const VkAllocationCallbacks *, VkPipeline *pipelines)
{
    if (deferred == VK_NULL_HANDLE || chance(3)) {
        VkResult result = create_all(BIND_RAY_TRACING, cache, count, infos, pipelines);
        return deferred != VK_NULL_HANDLE && result == VK_SUCCESS ? VK_OPERATION_NOT_DEFERRED_KHR : result;
    }
    Object *operation = object_of((uint64_t)deferred, OBJECT_OPERATION);
    VkResult result = sometimes_fails();
    if (result != VK_SUCCESS) {
        memset(pipelines, 0, count * sizeof *pipelines);
        return result;
    }
    for (uint32_t i = 0; i < count; i++)
        check_info(BIND_RAY_TRACING, (const AnyCreateInfo *)(const void *)&infos[i]);
    operation->pending = true;
    operation->infos = infos;
    operation->info_count = count;
    operation->pipelines = pipelines;
    return VK_OPERATION_DEFERRED_KHR;
}

static VKAPI_ATTR void VKAPI_CALL destroy_pipeline(VkDevice, VkPipeline pipeline, const VkAllocationCallbacks *)
{
    object_free((uint64_t)pipeline, OBJECT_PIPELINE);
}

/* ---- deferred operations ------------------------------------------------------------------------ */

static VKAPI_ATTR VkResult VKAPI_CALL join(VkDevice, VkDeferredOperationKHR handle)
{
    Object *operation = object_of((uint64_t)handle, OBJECT_OPERATION);
    if (!operation->pending)
        return VK_SUCCESS;
    if (chance(6))
        return chance(8) ? VK_THREAD_IDLE_KHR : VK_THREAD_DONE_KHR;
    operation->result = VK_SUCCESS;
    const VkRayTracingPipelineCreateInfoKHR *infos = operation->infos;
    for (uint32_t i = 0; i < operation->info_count; i++) {
        VkResult one = sometimes_fails();
        chain_touch(infos[i].pNext);
        operation->pipelines[i] = one == VK_SUCCESS ? (VkPipeline)object_new(OBJECT_PIPELINE) : VK_NULL_HANDLE;
        if (one != VK_SUCCESS)
            operation->result = one;
        else
            write_feedback((const AnyCreateInfo *)(const void *)&infos[i]);
    }
    operation->pending = false;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL operation_result(VkDevice, VkDeferredOperationKHR handle)
{
    const Object *operation = object_of((uint64_t)handle, OBJECT_OPERATION);
    return operation->pending ? VK_NOT_READY : operation->result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_operation(VkDevice, VkDeferredOperationKHR handle,
                                                    const VkAllocationCallbacks *)
{
    object_free((uint64_t)handle, OBJECT_OPERATION);
}

/* ---- pipeline binaries -------------------------------------------------------------------------- */

void fill_key(VkPipelineBinaryKeyKHR *key)
{
    key->keySize = chance(1) ? take32() : 1 + below(32);
    key->key[0] = take8();
}

static VKAPI_ATTR VkResult VKAPI_CALL pipeline_key(VkDevice, const VkPipelineCreateInfoKHR *of,
                                                   VkPipelineBinaryKeyKHR *key)
{
    if (of) {
        const VkBaseInStructure *info = of->pNext;
        enum BindPoint point = info->sType == VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO  ? BIND_GRAPHICS
                               : info->sType == VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO ? BIND_COMPUTE
                                                                                               : BIND_RAY_TRACING;
        check_info(point, (const AnyCreateInfo *)(const void *)info);
    }
    fill_key(key);
    return sometimes_fails();
}

static VKAPI_ATTR VkResult VKAPI_CALL create_binaries(VkDevice, const VkPipelineBinaryCreateInfoKHR *info,
                                                      const VkAllocationCallbacks *,
                                                      VkPipelineBinaryHandlesInfoKHR *out)
{
    expect(!!info->pKeysAndDataInfo + !!info->pPipelineCreateInfo + (info->pipeline != VK_NULL_HANDLE) == 1,
           "VUID-VkPipelineBinaryCreateInfoKHR-pKeysAndDataInfo-09619");
    uint32_t there = chance(2) ? below(40) : below(4);
    const VkPipelineBinaryKeysAndDataKHR *from = info->pKeysAndDataInfo;
    if (from)
        there = from->binaryCount;
    for (uint32_t i = 0; from && i < there; i++) {
        touch(&from->pPipelineBinaryKeys[i], sizeof from->pPipelineBinaryKeys[i]);
        touch(from->pPipelineBinaryData[i].pData, from->pPipelineBinaryData[i].dataSize);
    }
    if (info->pipeline != VK_NULL_HANDLE)
        object_of((uint64_t)info->pipeline, OBJECT_PIPELINE);
    if (info->pPipelineCreateInfo && chance(6)) {
        for (uint32_t i = 0; out->pPipelineBinaries && i < out->pipelineBinaryCount; i++)
            out->pPipelineBinaries[i] = VK_NULL_HANDLE;
        out->pipelineBinaryCount = 0;
        return VK_PIPELINE_BINARY_MISSING_KHR;
    }
    if (!out->pPipelineBinaries) {
        out->pipelineBinaryCount = there;
        return VK_SUCCESS;
    }
    uint32_t written = out->pipelineBinaryCount < there ? out->pipelineBinaryCount : there;
    VkResult result = written < there ? VK_INCOMPLETE : VK_SUCCESS;
    for (uint32_t i = 0; i < written; i++) {
        VkResult one = sometimes_fails();
        out->pPipelineBinaries[i] = one == VK_SUCCESS ? (VkPipelineBinaryKHR)object_new(OBJECT_BINARY) : VK_NULL_HANDLE;
        result = one < 0 && result >= 0 ? one : result;
    }
    out->pipelineBinaryCount = written;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_binary(VkDevice, VkPipelineBinaryKHR binary, const VkAllocationCallbacks *)
{
    object_free((uint64_t)binary, OBJECT_BINARY);
}

static VKAPI_ATTR VkResult VKAPI_CALL binary_data(VkDevice, const VkPipelineBinaryDataInfoKHR *info,
                                                  VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    object_of((uint64_t)info->pipelineBinary, OBJECT_BINARY);
    VkResult result = sometimes_fails();
    if (result != VK_SUCCESS)
        return result;
    fill_key(key);
    size_t there = chance(4) ? take8() : 16;
    bool fits = !data || *size >= there;
    if (data && fits)
        memset(data, take8(), there);
    *size = there;
    return fits ? VK_SUCCESS : VK_ERROR_NOT_ENOUGH_SPACE_KHR;
}

static VKAPI_ATTR VkResult VKAPI_CALL release_captured(VkDevice, const VkReleaseCapturedPipelineDataInfoKHR *info,
                                                       const VkAllocationCallbacks *)
{
    object_of((uint64_t)info->pipeline, OBJECT_PIPELINE);
    return VK_SUCCESS;
}

const Name pipeline_names[] = {
    NAME("vkCreateGraphicsPipelines", create_graphics),
    NAME("vkCreateComputePipelines", create_compute),
    NAME("vkCreateRayTracingPipelinesKHR", create_ray_tracing),
    NAME("vkDestroyPipeline", destroy_pipeline),
    NAME("vkDeferredOperationJoinKHR", join),
    NAME("vkGetDeferredOperationResultKHR", operation_result),
    NAME("vkDestroyDeferredOperationKHR", destroy_operation),
    NAME("vkGetPipelineKeyKHR", pipeline_key),
    NAME("vkCreatePipelineBinariesKHR", create_binaries),
    NAME("vkDestroyPipelineBinaryKHR", destroy_binary),
    NAME("vkGetPipelineBinaryDataKHR", binary_data),
    NAME("vkReleaseCapturedPipelineDataKHR", release_captured),
    {NULL, NULL},
};
