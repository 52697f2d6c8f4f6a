/*
 * A layer that proves records (tests/record/record.c): each pipeline that the program creates is created twice more,
 * each time with a new VkPipelineCache: from the program's create info, and from a record of it. The caches' data must be
 * equal. RECORD_LOG names a file, to which it adds a line for each pipeline:
 * same|differs|unsteady|refused|failed|skipped, the kind, bytes of the record and of the cache. Unsteady: the driver's data
 * differs from one creation to the next, without a record.
 */
#define _GNU_SOURCE
#include "../../shim/layer/vulkan/create_info.c"
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/shaders/fingerprints.c"
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/vulkan/pnext.c"
#include "record.c"
#include "../../shim/layer/vulkan/walk.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"
#include "../test_layer.h"

#include <stdio.h>

#define EXPORT __attribute__((visibility("default"))) VKAPI_ATTR

/* One instance and one device at a time. */
static VkInstance instance;
static VkDevice device;
static PFN_vkGetInstanceProcAddr next_of_instance;
static PFN_vkGetDeviceProcAddr next_of_device;

#define NEXT(name) ((PFN_##name)next_of_device(device, #name))

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    (void)level;
    (void)format;
}

uint64_t shader_code_of_stage(Shaders *shaders, const VkPipelineShaderStageCreateInfo *stage)
{
    (void)shaders;
    (void)stage;
    return 1;
}

/* ---- which attachments a subpass has, by render pass and subpass: FACT_ bits ---- */

static SharedMap subpasses;

static uint64_t key_of(VkRenderPass pass, uint32_t subpass)
{
    return digest64(&(uint64_t[]){(uint64_t)pass, subpass}, 16, 0);
}

static void note_subpass(VkRenderPass pass, uint32_t subpass, bool colors, bool depth)
{
    uint32_t facts = (colors ? FACT_COLORS : 0) | (depth ? FACT_DEPTH : 0);
    shared_map_put(&subpasses, key_of(pass, subpass), 1 | facts, SIZE_MAX);
}

static VkResult VKAPI_CALL create_render_pass(VkDevice handle, const VkRenderPassCreateInfo *info,
                                              const VkAllocationCallbacks *allocator, VkRenderPass *pass)
{
    VkResult result = NEXT(vkCreateRenderPass)(handle, info, allocator, pass);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->subpassCount; i++) {
        const VkAttachmentReference *depth = info->pSubpasses[i].pDepthStencilAttachment;
        note_subpass(*pass, i, info->pSubpasses[i].colorAttachmentCount > 0,
                     depth && depth->attachment != VK_ATTACHMENT_UNUSED);
    }
    return result;
}

static VkResult VKAPI_CALL create_render_pass_2(VkDevice handle, const VkRenderPassCreateInfo2 *info,
                                                const VkAllocationCallbacks *allocator, VkRenderPass *pass)
{
    PFN_vkCreateRenderPass2 next = NEXT(vkCreateRenderPass2);
    VkResult result = (next ? next : NEXT(vkCreateRenderPass2KHR))(handle, info, allocator, pass);
    for (uint32_t i = 0; result == VK_SUCCESS && i < info->subpassCount; i++) {
        const VkAttachmentReference2 *depth = info->pSubpasses[i].pDepthStencilAttachment;
        note_subpass(*pass, i, info->pSubpasses[i].colorAttachmentCount > 0,
                     depth && depth->attachment != VK_ATTACHMENT_UNUSED);
    }
    return result;
}

/* ---- pipelines ---- */

typedef struct Data {
    VkResult result;
    size_t size;
    void *bytes;
} Data;

/* Returns what creating the pipeline adds to an empty cache. */
static Data data_of(const PipelineCall *call, const void *info)
{
    VkPipelineCacheCreateInfo empty = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    Data data = {.size = 0};
    NEXT(vkCreatePipelineCache)(device, &empty, NULL, &cache);
    if (call->point == BIND_GRAPHICS)
        data.result = NEXT(vkCreateGraphicsPipelines)(device, cache, 1, info, NULL, &pipeline);
    else if (call->point == BIND_COMPUTE)
        data.result = NEXT(vkCreateComputePipelines)(device, cache, 1, info, NULL, &pipeline);
    else
        data.result = NEXT(vkCreateRayTracingPipelinesKHR)(device, VK_NULL_HANDLE, cache, 1, info, NULL, &pipeline);
    NEXT(vkDestroyPipeline)(device, pipeline, NULL);
    NEXT(vkGetPipelineCacheData)(device, cache, &data.size, NULL);
    data.bytes = malloc(data.size);
    NEXT(vkGetPipelineCacheData)(device, cache, &data.size, data.bytes);
    NEXT(vkDestroyPipelineCache)(device, cache, NULL);
    return data;
}

static bool are_equal(const Data *one, const Data *other)
{
    return one->size == other->size && memcmp(one->bytes, other->bytes, one->size) == 0;
}

static uint64_t same_handle(void *context, const RecordHandle *handle)
{
    (void)context;
    return handle->handle;
}

/* ---- what is known of libraries, by handle: FACT_ bits ---- */

static SharedMap libraries;

/* Returns what the libraries of a pipeline decide of it; FACT_LINKED if one of them is unknown. */
static uint32_t facts_of_libraries(const PipelineCall *call, const AnyCreateInfo *info)
{
    const VkPipelineLibraryCreateInfoKHR *linked =
        (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    uint32_t facts = 0;
    if (!is_linked(call, info))
        return 0;
    for (uint32_t i = 0; call->point == BIND_GRAPHICS && i < linked->libraryCount; i++) {
        uint64_t of_one = shared_map_find(&libraries, (uint64_t)linked->pLibraries[i]);
        facts |= of_one ? (uint32_t)of_one & (FACT_MESH | FACT_DISCARDS) : FACT_LINKED;
    }
    return facts;
}

/* Returns a walk with what is known of a pipeline. */
static Walk learn_all(const PipelineCall *call, const AnyCreateInfo *info, enum PylayerPipelineKind kind,
                      uint32_t stage_count)
{
    Walk walk = {.facts = FACT_STAGES | facts_of_libraries(call, info)};
    if (call->point != BIND_GRAPHICS)
        return walk;
    uint32_t pass = (uint32_t)shared_map_find(&subpasses, key_of(info->graphics.renderPass, info->graphics.subpass));
    learn(&walk, &info->graphics, graphics_subsets(&info->graphics, kind), stage_count);
    if (pass && walk.facts & FACT_RASTERIZES)
        walk.facts |= pass & (walk.facts & FACT_FRAGMENT_OUTPUT ? FACT_COLORS | FACT_DEPTH : FACT_DEPTH);
    return walk;
}

static void note_libraries(const PipelineCall *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        Element element;
        uint32_t stage_count;
        element_read(&element, call, i);
        create_info_stages(call, i, element.kind, &stage_count);
        if (element.kind == PYLAYER_KIND_GRAPHICS_LIBRARY && call->pipelines[i] != VK_NULL_HANDLE)
            shared_map_put(&libraries, (uint64_t)call->pipelines[i],
                           FACT_HASHED | learn_all(call, create_info_at(call, i), element.kind, stage_count).facts,
                           SIZE_MAX);
    }
}

static const char *compare(const PipelineCall *call, uint32_t index, const Element *element, size_t sizes[2])
{
    static const enum StructureIndex roots[] = {STRUCTURE_GRAPHICS, STRUCTURE_COMPUTE, STRUCTURE_RAY_TRACING};
    const AnyCreateInfo *info = create_info_at(call, index);
    uint32_t stage_count;
    create_info_stages(call, index, element->kind, &stage_count);
    Record record = {.walk = learn_all(call, info, element->kind, stage_count)};
    if (!record_make(&record, roots[call->point], info))
        return "failed";
    void *replayed = record_replay(&record, same_handle, NULL);
    sizes[0] = record.block.count;
    record_free(&record);
    Data mine = data_of(call, info), again = data_of(call, info), other = data_of(call, replayed);
    sizes[1] = mine.size;
    const char *said = mine.result != other.result ? "failed"
                       : are_equal(&mine, &other)  ? (mine.result ? "refused" : "same")
                       : are_equal(&mine, &again)  ? "differs"
                                                   : "unsteady";
    free(mine.bytes);
    free(again.bytes);
    free(other.bytes);
    free(replayed);
    return said;
}

/* Binaries and captures exclude caches; a parent within the call cannot be one of a pipeline alone. */
static bool is_skipped(const PipelineCall *call, uint32_t index, const Element *element)
{
    return element->from_binaries || element->captures || element->flags & CAPTURE_REPLAY ||
           create_info_derives_within_call(call, index, element->flags);
}

static void compare_all(enum BindPoint point, uint32_t count, const void *infos)
{
    const PipelineCall call = {.point = point, .count = count, .infos = infos};
    FILE *log = fopen(getenv("RECORD_LOG"), "a");
    for (uint32_t i = 0; log && i < count; i++) {
        Element element;
        size_t sizes[2] = {0, 0};
        element_read(&element, &call, i);
        const char *said = is_skipped(&call, i, &element) ? "skipped" : compare(&call, i, &element, sizes);
        fprintf(log, "%s %d %zu %zu\n", said, (int)element.kind, sizes[0], sizes[1]);
    }
    if (log)
        fclose(log);
}

static VkResult VKAPI_CALL create_graphics(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                           const VkGraphicsPipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    compare_all(BIND_GRAPHICS, count, infos);
    VkResult result = NEXT(vkCreateGraphicsPipelines)(handle, cache, count, infos, allocator, pipelines);
    note_libraries(&(PipelineCall){.point = BIND_GRAPHICS, .count = count, .infos = infos, .pipelines = pipelines});
    return result;
}

static VkResult VKAPI_CALL create_compute(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    compare_all(BIND_COMPUTE, count, infos);
    return NEXT(vkCreateComputePipelines)(handle, cache, count, infos, allocator, pipelines);
}

static VkResult VKAPI_CALL create_rays(VkDevice handle, VkDeferredOperationKHR operation, VkPipelineCache cache,
                                       uint32_t count, const VkRayTracingPipelineCreateInfoKHR *infos,
                                       const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    compare_all(BIND_RAY_TRACING, count, infos);
    return NEXT(vkCreateRayTracingPipelinesKHR)(handle, operation, cache, count, infos, allocator, pipelines);
}

/* ---- the layer ---- */

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                           VkInstance *made)
{
    VkLayerInstanceCreateInfo *link = instance_node(info, VK_LAYER_LINK_INFO);
    next_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result =
        ((PFN_vkCreateInstance)next_of_instance(VK_NULL_HANDLE, "vkCreateInstance"))(info, allocator, made);
    instance = *made;
    return result;
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkDevice *made)
{
    VkLayerDeviceCreateInfo *link = device_node(info, VK_LAYER_LINK_INFO);
    next_of_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result =
        ((PFN_vkCreateDevice)next_of_instance(instance, "vkCreateDevice"))(physical, info, allocator, made);
    device = *made;
    shared_map_open(&subpasses);
    shared_map_open(&libraries);
    return result;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_device(VkDevice handle, const char *name);
static PFN_vkVoidFunction VKAPI_CALL get_of_instance(VkInstance handle, const char *name);

static PFN_vkVoidFunction find_own(const char *name)
{
#define OWN(text, function)                                                                                            \
    if (strcmp(name, text) == 0)                                                                                       \
        return (PFN_vkVoidFunction)function;
    OWN("vkGetInstanceProcAddr", get_of_instance)
    OWN("vkGetDeviceProcAddr", get_of_device)
    OWN("vkCreateInstance", create_instance)
    OWN("vkCreateDevice", create_device)
    OWN("vkCreateRenderPass", create_render_pass)
    OWN("vkCreateRenderPass2", create_render_pass_2)
    OWN("vkCreateRenderPass2KHR", create_render_pass_2)
    OWN("vkCreateGraphicsPipelines", create_graphics)
    OWN("vkCreateComputePipelines", create_compute)
    OWN("vkCreateRayTracingPipelinesKHR", create_rays)
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_device(VkDevice handle, const char *name)
{
    PFN_vkVoidFunction next = next_of_device(handle, name), own = find_own(name);
    return next && own ? own : next;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_instance(VkInstance handle, const char *name)
{
    PFN_vkVoidFunction own = find_own(name);
    return own || !handle ? own : next_of_instance(handle, name);
}

EXPORT VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    return negotiate(interface, get_of_instance, get_of_device);
}
