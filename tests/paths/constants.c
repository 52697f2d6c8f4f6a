/* constants.c - specialization constants: none, all, some that the shader lacks, and of other sizes than four bytes. */
#include "modes.h"

static void create_with(Path *path, const char *name, enum Shader shader, const VkSpecializationInfo *constants)
{
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = stage_of(path->context, shader, NULL),
                                        .layout = path->context->layout};
    info.stage.pSpecializationInfo = constants;
    create_kernels(path, name, 1, &info, NULL);
}

static void create_of_four_bytes(Path *path)
{
    struct {
        float scale;
        uint32_t variant, is_signed, unknown;
    } values = {2.5f, 9, VK_TRUE, 77};
    VkSpecializationMapEntry entries[] = {{1, 0, 4}, {0, 4, 4}, {2, 8, 4}, {60, 12, 4}};
    create_with(path, "none", KERNEL, NULL);
    create_with(path, "no-entries", KERNEL, &(VkSpecializationInfo){0, NULL, 0, NULL});
    create_with(path, "all", KERNEL, &(VkSpecializationInfo){3, entries, sizeof values, &values});
    create_with(path, "one-unknown", KERNEL, &(VkSpecializationInfo){4, entries, sizeof values, &values});
    values.scale = 1.0f;
    values.variant = values.is_signed = 0;
    create_with(path, "defaults", KERNEL, &(VkSpecializationInfo){3, entries, sizeof values, &values});
}

static void create_of_eight_bytes(Path *path)
{
    if (lacks(path, shader_is_there(path->context, WIDE_KERNEL), "64-bit-constants"))
        return;
    struct {
        uint32_t variant, narrow;
        uint64_t wide;
    } values = {1, 2, 3ull << 40};
    VkSpecializationMapEntry entries[] = {{8, 8, 8}, {7, 0, 4}, {9, 4, 4}};
    create_with(path, "wide", WIDE_KERNEL, &(VkSpecializationInfo){3, entries, sizeof values, &values});
    values.wide = 5ull << 40; /* differs in the upper half alone */
    create_with(path, "wide-again", WIDE_KERNEL, &(VkSpecializationInfo){3, entries, sizeof values, &values});
}

void mode_constants(Path *path)
{
    create_of_four_bytes(path);
    create_of_eight_bytes(path);
}
