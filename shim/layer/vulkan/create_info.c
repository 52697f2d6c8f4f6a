/* create_info.c - see create_info.h */
#include <stdlib.h>
#include <string.h>

#include "vulkan/create_info.h"

size_t create_info_size(enum BindPoint point)
{
    static const size_t sizes[] = {
        [BIND_GRAPHICS] = sizeof(VkGraphicsPipelineCreateInfo),
        [BIND_COMPUTE] = sizeof(VkComputePipelineCreateInfo),
        [BIND_RAY_TRACING] = sizeof(VkRayTracingPipelineCreateInfoKHR),
    };
    return sizes[point];
}

const void *create_info_at(const PipelineCall *call, uint32_t index)
{
    return (const char *)call->infos + index * create_info_size(call->point);
}

bool element_flags_can_change(const Element *element, const PipelineCall *call, uint32_t index)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    if (!element->flags2 || !pnext_unknown_until(info->head.pNext, element->flags2))
        return true;
    pnext_say_unknown(info->head.pNext, element->flags2);
    return false;
}

/* ---- what the driver gets ------------------------------------------------------------------------ */

static enum PylayerPipelineKind kind_of(const PipelineCall *call, const AnyCreateInfo *info, uint64_t flags,
                                        bool chains_libraries)
{
    bool library = flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    if (call->point == BIND_COMPUTE)
        return PYLAYER_KIND_COMPUTE;
    if (call->point == BIND_RAY_TRACING) {
        if (library)
            return PYLAYER_KIND_RAY_TRACING_LIBRARY;
        return pipeline_is_linked(call, info) ? PYLAYER_KIND_RAY_TRACING_LINKED : PYLAYER_KIND_RAY_TRACING;
    }
    if (library)
        return PYLAYER_KIND_GRAPHICS_LIBRARY;
    if (!chains_libraries)
        return PYLAYER_KIND_GRAPHICS;
    return flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT ? PYLAYER_KIND_GRAPHICS_OPTIMIZED_LINK
                                                                     : PYLAYER_KIND_GRAPHICS_FAST_LINKED;
}

/*
 * Pipelines that must not go through any cache. Seen with RADV 25.0.7, without the layer:
 * - If optimization is disabled, the code of a ray tracing library, which linking needs, is put into no cache. A
 *   pipeline linked to such a library that was found in a cache crashes.
 * - A pipeline whose group handles can be captured and replayed is never found in a cache. That says nothing about
 *   other pipelines of its kind. A cache must not choose its place in memory either.
 * - A pipeline of which statistics or internal representations are captured is never found in a cache. With ANV 26.1.6 a
 *   pipeline that is found has fewer of them.
 */
static bool is_left_alone(const Element *element)
{
    if (element->flags & (CAPTURE_REPLAY | CAPTURE_INTERNALS))
        return true;
    return element->kind == PYLAYER_KIND_RAY_TRACING_LIBRARY &&
           (element->flags & VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT);
}

#define ALL_SUBSETS                                                                                                    \
    (VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT |                                                     \
     VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT |                                                  \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT |                                                            \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT)

static uint32_t codeless_of(const AnyCreateInfo *info, enum PylayerPipelineKind kind, bool chains_libraries)
{
    if (kind == PYLAYER_KIND_GRAPHICS_FAST_LINKED)
        return 1;
    if (kind != PYLAYER_KIND_GRAPHICS_LIBRARY || chains_libraries)
        return 0;
    uint32_t subsets = graphics_subsets(&info->graphics, kind) & ALL_SUBSETS;
    return subsets & SUBSETS_WITH_STAGES ? 0 : 1u << subsets;
}

void element_read(Element *element, const PipelineCall *call, uint32_t index)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    bool chains_libraries = false;
    *element = (Element){.kind = 0};
    for (const VkBaseInStructure *node = info->head.pNext; node; node = node->pNext) {
        switch ((int)node->sType) {
        case VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR:
            element->flags2 = (const void *)node;
            break;
        case VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT:
            element->app_feedback = (const void *)node;
            break;
        case VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR:
            element->app_binaries = (const void *)node;
            break;
        case VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR:
            chains_libraries = ((const VkPipelineLibraryCreateInfoKHR *)(const void *)node)->libraryCount > 0;
            break;
        default:
            break;
        }
    }
    /* Chained flags replace the legacy ones (Vulkan, VkPipelineCreateFlags2CreateInfo). */
    element->flags = element->flags2 ? element->flags2->flags : info->head.flags;
    element->captures = element->flags2 && (element->flags & CAPTURE_DATA);
    element->from_binaries = element->app_binaries && element->app_binaries->binaryCount > 0;
    element->kind = kind_of(call, info, element->flags, chains_libraries);
    element->codeless = codeless_of(info, element->kind, chains_libraries);
    element->left_alone = is_left_alone(element) || (element->flags & VK_PIPELINE_CREATE_DERIVATIVE_BIT &&
                                                     !element_flags_can_change(element, call, index));
}

static void keep_feedback_flags(const Element *element, VkPipelineCreationFeedbackFlagsEXT kept)
{
    const VkPipelineCreationFeedbackCreateInfoEXT *info = element->app_feedback;
    if (info)
        info->pPipelineCreationFeedback->flags &= kept;
    for (uint32_t i = 0; info && i < info->pipelineStageCreationFeedbackCount; i++)
        info->pPipelineStageCreationFeedbacks[i].flags &= kept;
}

/* Feedback is an output. Without this, a driver that leaves it unwritten, or adds to what was there, would report
 * old values. */
void element_clear_feedback(const Element *element)
{
    keep_feedback_flags(element, 0);
}

void element_clear_application_hit(const Element *element)
{
    const VkPipelineCreationFeedbackFlagsEXT hit = VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT_EXT;
    keep_feedback_flags(element, ~hit);
}

/* A second struct of the same type would be invalid (VUIDs sType-unique). */
static bool change_flags(Element *element, uint64_t flags, AnyCreateInfo *out)
{
    const bool is_first = element->flags2 && element->flags2 == out->head.pNext;
    if (flags == element->flags)
        return true;
    if (element->flags2 && !is_first) {
        element->copies = pnext_copy_until(out->head.pNext, element->flags2);
        if (!element->copies) {
            pnext_say_unknown(out->head.pNext, element->flags2);
            return false;
        }
        out->head.pNext = element->copies;
        const VkBaseInStructure *copy =
            pnext_find(out->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR);
        ((VkPipelineCreateFlags2CreateInfoKHR *)(uintptr_t)copy)->flags = flags;
    } else if (is_first || flags & CAPTURE_DATA) { /* the legacy flags have no such bit */
        element->own_flags2 =
            (VkPipelineCreateFlags2CreateInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
                                                  .pNext = is_first ? element->flags2->pNext : out->head.pNext,
                                                  .flags = flags};
        out->head.pNext = &element->own_flags2;
    } else {
        out->head.flags = (VkPipelineCreateFlags)flags;
    }
    return true;
}

static void ask_for_feedback(Element *element, const Driver *driver, AnyCreateInfo *out)
{
    if (element->app_feedback) {
        element_clear_feedback(element);
    } else if (driver->feedback) {
        element->feedback.flags = 0;
        /* VUID-VkGraphicsPipelineCreateInfo-pipelineStageCreationFeedbackCount-06594: 0 stages are allowed. */
        element->own_feedback = (VkPipelineCreationFeedbackCreateInfoEXT){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO_EXT,
            .pNext = out->head.pNext,
            .pPipelineCreationFeedback = &element->feedback,
        };
        out->head.pNext = &element->own_feedback;
    }
}

bool element_build(Element *element, const PipelineCall *call, uint32_t index, Change change, AnyCreateInfo *out)
{
    element_release(element);
    memcpy(out, create_info_at(call, index), create_info_size(call->point));
    uint64_t clear = change.clear | (change.alone ? VK_PIPELINE_CREATE_DERIVATIVE_BIT : 0);
    bool changed = change_flags(element, (element->flags | change.set) & ~clear, out);
    if (change.binaries) {
        change.binaries->pNext = out->head.pNext;
        out->head.pNext = change.binaries;
    }
    if (change.feedback)
        ask_for_feedback(element, call->driver, out);
    return changed;
}

void element_release(Element *element)
{
    free(element->copies);
    element->copies = NULL;
}

const VkPipelineCreationFeedbackEXT *element_feedback(const Element *element)
{
    const VkPipelineCreationFeedbackEXT *feedback =
        element->app_feedback ? element->app_feedback->pPipelineCreationFeedback : &element->feedback;
    return feedback->flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT_EXT ? feedback : NULL;
}

void element_fill_feedback(const Element *element, uint64_t duration_ns)
{
    const VkPipelineCreationFeedbackCreateInfoEXT *info = element->app_feedback;
    if (info && !(info->pPipelineCreationFeedback->flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT_EXT))
        *info->pPipelineCreationFeedback = (VkPipelineCreationFeedbackEXT){
            .flags = VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT_EXT, .duration = duration_ns};
    element_clear_application_hit(element);
}

uint32_t graphics_subsets(const VkGraphicsPipelineCreateInfo *info, enum PylayerPipelineKind kind)
{
    const VkGraphicsPipelineLibraryCreateInfoEXT *library =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT);
    if (library)
        return library->flags;
    return kind == PYLAYER_KIND_GRAPHICS ? ALL_SUBSETS : 0;
}

const VkPipelineShaderStageCreateInfo *create_info_stages(const PipelineCall *call, uint32_t index,
                                                          enum PylayerPipelineKind kind, uint32_t *stage_count)
{
    const AnyCreateInfo *info = create_info_at(call, index);
    switch (call->point) {
    case BIND_COMPUTE:
        *stage_count = 1;
        return &info->compute.stage;
    case BIND_GRAPHICS:
        *stage_count = graphics_subsets(&info->graphics, kind) & SUBSETS_WITH_STAGES ? info->graphics.stageCount : 0;
        return info->graphics.pStages;
    default:
        *stage_count = info->ray_tracing.stageCount;
        return info->ray_tracing.pStages;
    }
}

VkResult call_driver(const PipelineCall *call, VkPipelineCache cache, uint32_t count, const void *infos,
                     VkPipeline *pipelines)
{
    const Driver *driver = call->driver;
    switch (call->point) {
    case BIND_GRAPHICS:
        return driver->create_graphics_pipelines(driver->handle, cache, count, infos, call->allocator, pipelines);
    case BIND_COMPUTE:
        return driver->create_compute_pipelines(driver->handle, cache, count, infos, call->allocator, pipelines);
    default:
        return driver->create_ray_tracing_pipelines(driver->handle, call->deferred, cache, count, infos,
                                                    call->allocator, pipelines);
    }
}
