/* subgroups.c - a required subgroup size, full subgroups, and sizes that may vary. */
#include "modes.h"

#define VARYING VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT
#define FULL VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT

static void create(Path *path, const char *name, VkPipelineShaderStageCreateFlags flags, uint32_t required)
{
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = required};
    Kernel kernel;
    kernel_init(&kernel, path->context, 1300);
    kernel.info.stage.flags = flags;
    kernel.info.stage.pNext = required ? &size : NULL;
    create_kernels(path, name, 1, &kernel.info, NULL);
}

void mode_subgroups(Path *path)
{
    const Context *context = path->context;
    if (lacks(path, context->has[HAS_SUBGROUP_SIZES], "subgroup-size-control"))
        return;
    create(path, "varying", VARYING, 0);
    create(path, "varying-full", VARYING | FULL, 0);
    create(path, "least", 0, context->min_subgroup);
    create(path, "largest", 0, context->max_subgroup);
    create(path, "largest-full", FULL, context->max_subgroup);
}
