/*
 * report.c - creation calls, and one line about each:
 *
 *     mode.name result=<VkResult> handles=<1, 0 or ? for each> contents=<digest> ... feedback=<whole>:<stages> ...
 *
 * Feedback is given in flags, u for untouched; ? is a handle that was not written. The contents are those of pipelines
 * whose statistics were captured.
 */
#include <stdarg.h>

#include "paths.h"

#define POISON ((VkPipeline)(uintptr_t)0x2bababab)

typedef struct Additions {
    CreateFlags2 flags2;
    VkPipelineCreationFeedbackCreateInfo info;
    VkPipelineCreationFeedback whole, stages[MAX_STAGES];
} Additions;

static const void *find(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *node = chain;
    while (node && node->sType != type)
        node = node->pNext;
    return node;
}

static bool captures(const Path *path)
{
    return path->options->statistics && path->context->has[HAS_EXECUTABLES];
}

/* In front of the chain, so that what the mode chained stays as it is. */
static const void *add(Additions *additions, const Path *path, const void *chain, VkPipelineCreateFlags *flags,
                       uint32_t stage_count)
{
    if (captures(path))
        *flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (path->options->flags2 && path->context->has[HAS_MAINTENANCE_5] && !find(chain, TYPE_CREATE_FLAGS_2)) {
        additions->flags2 = (CreateFlags2){TYPE_CREATE_FLAGS_2, chain, *flags};
        chain = &additions->flags2;
        *flags = 0;
    }
    if (!path->options->feedback || find(chain, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO))
        return chain;
    additions->whole.flags = UNTOUCHED;
    for (uint32_t i = 0; i < stage_count; i++)
        additions->stages[i].flags = UNTOUCHED;
    additions->info = (VkPipelineCreationFeedbackCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pNext = chain,
        .pPipelineCreationFeedback = &additions->whole,
        .pipelineStageCreationFeedbackCount = stage_count,
        .pPipelineStageCreationFeedbacks = stage_count ? additions->stages : NULL};
    return &additions->info;
}

static void print_flags(FILE *out, VkPipelineCreationFeedbackFlags flags)
{
    if (flags == UNTOUCHED)
        fputc('u', out);
    else
        fprintf(out, "%u", flags);
}

static void print_feedback(FILE *out, const void *chain)
{
    const VkPipelineCreationFeedbackCreateInfo *info =
        find(chain, VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
    if (!info)
        return;
    fputs(" feedback=", out);
    print_flags(out, info->pPipelineCreationFeedback->flags);
    for (uint32_t i = 0; i < info->pipelineStageCreationFeedbackCount; i++) {
        fputc(i ? ',' : ':', out);
        print_flags(out, info->pPipelineStageCreationFeedbacks[i].flags);
    }
}

/* Flags that the mode chained itself are left alone. */
static void print_contents(Path *path, const void *chain, VkPipelineCreateFlags flags, VkPipeline pipeline)
{
    const CreateFlags2 *flags2 = find(chain, TYPE_CREATE_FLAGS_2);
    uint64_t in_force = flags2 ? flags2->flags : flags;
    if ((in_force & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR) && pipeline != VK_NULL_HANDLE && pipeline != POISON)
        fprintf(path->out, " contents=%016llx", (unsigned long long)contents_of(path->context, pipeline));
}

static void print_handles(Path *path, const char *name, VkResult result, uint32_t count, const VkPipeline *pipelines)
{
    fprintf(path->out, "%s.%s result=%d handles=", path->name, name, result);
    for (uint32_t i = 0; i < count; i++)
        fputc(pipelines[i] == POISON ? '?' : pipelines[i] != VK_NULL_HANDLE ? '1' : '0', path->out);
}

static VkPipeline *poisoned(VkPipeline *given, VkPipeline *own, uint32_t count)
{
    VkPipeline *pipelines = given ? given : own;
    if (count > MAX_BATCH)
        die("a batch of %u is too large", count);
    for (uint32_t i = 0; i < count; i++)
        pipelines[i] = POISON;
    return pipelines;
}

VkResult create_kernels(Path *path, const char *name, uint32_t count, const VkComputePipelineCreateInfo *infos,
                        VkPipeline *pipelines)
{
    VkPipeline own[MAX_BATCH], *made = poisoned(pipelines, own, count);
    VkComputePipelineCreateInfo changed[MAX_BATCH] = {{0}};
    Additions additions[MAX_BATCH];
    memcpy(changed, infos, count * sizeof *infos);
    for (uint32_t i = 0; i < count; i++)
        changed[i].pNext = add(&additions[i], path, infos[i].pNext, &changed[i].flags, 1);
    VkResult result = vkCreateComputePipelines(path->context->device, path->cache, count, changed, NULL, made);
    print_handles(path, name, result, count, made);
    for (uint32_t i = 0; i < count; i++)
        print_contents(path, changed[i].pNext, changed[i].flags, made[i]);
    for (uint32_t i = 0; i < count; i++)
        print_feedback(path->out, changed[i].pNext);
    fputc('\n', path->out);
    if (!pipelines)
        destroy_pipelines(path, count, made);
    return result;
}

VkResult create_scenes(Path *path, const char *name, uint32_t count, const VkGraphicsPipelineCreateInfo *infos,
                       VkPipeline *pipelines)
{
    VkPipeline own[MAX_BATCH], *made = poisoned(pipelines, own, count);
    VkGraphicsPipelineCreateInfo changed[MAX_BATCH] = {{0}};
    Additions additions[MAX_BATCH];
    memcpy(changed, infos, count * sizeof *infos);
    for (uint32_t i = 0; i < count; i++)
        changed[i].pNext = add(&additions[i], path, infos[i].pNext, &changed[i].flags, infos[i].stageCount);
    VkResult result = vkCreateGraphicsPipelines(path->context->device, path->cache, count, changed, NULL, made);
    print_handles(path, name, result, count, made);
    for (uint32_t i = 0; i < count; i++)
        print_contents(path, changed[i].pNext, changed[i].flags, made[i]);
    for (uint32_t i = 0; i < count; i++)
        print_feedback(path->out, changed[i].pNext);
    fputc('\n', path->out);
    if (!pipelines)
        destroy_pipelines(path, count, made);
    return result;
}

void destroy_pipelines(const Path *path, uint32_t count, const VkPipeline *pipelines)
{
    for (uint32_t i = 0; i < count; i++)
        if (pipelines[i] != POISON)
            vkDestroyPipeline(path->context->device, pipelines[i], NULL);
}

void say(Path *path, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(path->out, "%s.%s ", path->name, name);
    vfprintf(path->out, format, arguments);
    fputc('\n', path->out);
    va_end(arguments);
}

bool lacks(Path *path, bool there, const char *what)
{
    if (!there)
        say(path, what, "not there");
    return !there;
}
