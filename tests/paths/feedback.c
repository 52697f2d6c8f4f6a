/* feedback.c - creation feedback: with and without that of the stages, in some elements of a batch, of what is there. */
#include "modes.h"

typedef struct Feedback {
    VkPipelineCreationFeedbackCreateInfo info;
    VkPipelineCreationFeedback whole, stages[MAX_STAGES];
} Feedback;

static const void *wants(Feedback *feedback, uint32_t stage_count)
{
    feedback->whole.flags = UNTOUCHED;
    for (uint32_t i = 0; i < stage_count; i++)
        feedback->stages[i].flags = UNTOUCHED;
    feedback->info = (VkPipelineCreationFeedbackCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pPipelineCreationFeedback = &feedback->whole,
        .pipelineStageCreationFeedbackCount = stage_count,
        .pPipelineStageCreationFeedbacks = stage_count ? feedback->stages : NULL};
    return &feedback->info;
}

#define BATCH 3

static void kernels(Path *path)
{
    Kernel made[BATCH];
    Feedback feedback[BATCH];
    VkComputePipelineCreateInfo infos[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        kernel_init(&made[i], path->context, 400 + i);
        infos[i] = made[i].info;
    }
    infos[0].pNext = wants(&feedback[0], 1);
    create_kernels(path, "kernel", 1, infos, NULL);
    infos[0].pNext = wants(&feedback[0], 0);
    create_kernels(path, "kernel-without-stages", 1, infos, NULL);
    /* The first is there by now. */
    infos[0].pNext = wants(&feedback[0], 1);
    infos[2].pNext = wants(&feedback[2], 1);
    create_kernels(path, "kernels-but-the-middle", BATCH, infos, NULL);
}

static void scenes(Path *path)
{
    Scene made[BATCH];
    Feedback feedback[BATCH];
    VkGraphicsPipelineCreateInfo infos[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        scene_init(&made[i], path->context, 400 + i);
        infos[i] = made[i].info;
    }
    infos[0].pNext = wants(&feedback[0], 0);
    create_scenes(path, "scene-without-stages", 1, infos, NULL);
    infos[0].pNext = wants(&feedback[0], 2);
    create_scenes(path, "scene", 1, infos, NULL);
    infos[0].pNext = wants(&feedback[0], 2);
    infos[2].pNext = wants(&feedback[2], 0);
    create_scenes(path, "scenes-but-the-middle", BATCH, infos, NULL);
}

void mode_feedback(Path *path)
{
    kernels(path);
    scenes(path);
}
