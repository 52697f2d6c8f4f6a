/* pipeline_facts.c - see create_info.h */
#include "vulkan/create_info.h"

/* Which attachments there are. With a render pass that is unknown. */
static void learn_formats(Walk *walk, const VkGraphicsPipelineCreateInfo *info)
{
    const VkPipelineRenderingCreateInfoKHR *rendering =
        (const void *)pnext_find(info->pNext, VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO_KHR);
    if (info->renderPass != VK_NULL_HANDLE) {
        walk->facts |= FACT_RENDER_PASS;
    } else if (!(walk->facts & FACT_FRAGMENT_OUTPUT)) { /* VUID-VkGraphicsPipelineCreateInfo-renderPass-06590 */
        walk->facts |= walk->facts & FACT_RASTERIZES ? FACT_DEPTH : 0;
    } else if (rendering && walk->facts & FACT_RASTERIZES) {
        walk->facts |= rendering->colorAttachmentCount > 0 ? FACT_COLORS : 0;
        walk->facts |= rendering->depthAttachmentFormat || rendering->stencilAttachmentFormat ? FACT_DEPTH : 0;
    }
}

void pipeline_learn(Walk *walk, const VkGraphicsPipelineCreateInfo *info, uint32_t subsets, uint32_t stage_count)
{
    _Static_assert((int)FACT_FRAGMENT_OUTPUT == (int)VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT &&
                       FACT_STAGES == 2 * FACT_FRAGMENT_OUTPUT,
                   "the first facts are subsets");
    walk->facts |= subsets & (FACT_STAGES - 1);
    walk->facts &= subsets & SUBSETS_WITH_STAGES ? UINT32_MAX : ~(uint32_t)FACT_STAGES;
    const VkPipelineDynamicStateCreateInfo *dynamic = info->pDynamicState;
    for (uint32_t i = 0; dynamic && i < dynamic->dynamicStateCount; i++)
        walk->dynamic |= walk_dynamic(dynamic->pDynamicStates[i]);
    VkShaderStageFlags stages = 0;
    for (uint32_t i = 0; i < stage_count; i++)
        stages |= info->pStages[i].stage;
    const VkShaderStageFlags tessellation =
        VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT | VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT;
    bool pre_rasterization = subsets & FACT_PRE_RASTERIZATION;
    walk->facts |= pre_rasterization && stages & VK_SHADER_STAGE_MESH_BIT_NV ? FACT_MESH : 0;
    walk->facts |= pre_rasterization && (stages & tessellation) == tessellation ? FACT_TESSELLATION : 0;
    /* Without its own state for that, only a pipeline's libraries know whether it rasterizes. */
    bool rasterizes = pre_rasterization || !(walk->facts & (FACT_LINKED | FACT_DISCARDS));
    if (pre_rasterization && !(walk->dynamic & DYNAMIC_RASTERIZER_DISCARD_ENABLE))
        rasterizes = info->pRasterizationState && !info->pRasterizationState->rasterizerDiscardEnable;
    walk->facts |= pre_rasterization && !rasterizes ? FACT_DISCARDS : 0;
    walk->facts |= rasterizes && walk->facts & (FACT_FRAGMENT_SHADER | FACT_FRAGMENT_OUTPUT) ? FACT_RASTERIZES : 0;
    learn_formats(walk, info);
}

bool pipeline_is_linked(const PipelineCall *call, const AnyCreateInfo *info)
{
    const VkPipelineLibraryCreateInfoKHR *libraries =
        call->point == BIND_RAY_TRACING
            ? info->ray_tracing.pLibraryInfo
            : (const void *)pnext_find(info->head.pNext, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    return libraries && libraries->libraryCount > 0;
}
