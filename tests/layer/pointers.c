/* Prints where vkGetDeviceProcAddr points for many commands, as JSON: library and offset. */
#define _GNU_SOURCE
#include "program.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "vkGetDeviceProcAddr",
    "vkDestroyDevice",
    "vkGetDeviceQueue",
    "vkQueueSubmit",
    "vkQueueWaitIdle",
    "vkDeviceWaitIdle",
    "vkAllocateMemory",
    "vkFreeMemory",
    "vkMapMemory",
    "vkBindBufferMemory",
    "vkCreateFence",
    "vkWaitForFences",
    "vkCreateSemaphore",
    "vkCreateEvent",
    "vkCreateQueryPool",
    "vkCreateBuffer",
    "vkCreateImage",
    "vkCreateImageView",
    "vkCreateShaderModule",
    "vkDestroyShaderModule",
    "vkCreatePipelineCache",
    "vkDestroyPipelineCache",
    "vkGetPipelineCacheData",
    "vkMergePipelineCaches",
    "vkCreateGraphicsPipelines",
    "vkCreateComputePipelines",
    "vkDestroyPipeline",
    "vkCreatePipelineLayout",
    "vkCreateSampler",
    "vkCreateDescriptorSetLayout",
    "vkAllocateDescriptorSets",
    "vkUpdateDescriptorSets",
    "vkCreateFramebuffer",
    "vkCreateRenderPass",
    "vkCreateCommandPool",
    "vkAllocateCommandBuffers",
    "vkBeginCommandBuffer",
    "vkEndCommandBuffer",
    "vkCmdBindPipeline",
    "vkCmdDraw",
    "vkCmdDrawIndexed",
    "vkCmdDispatch",
    "vkCmdCopyBuffer",
    "vkCmdPipelineBarrier",
    "vkCmdPushConstants",
    "vkCmdBeginRenderPass",
};

int main(void)
{
    Program program = {0};
    if (open_program(&program, &(Wanted){0}))
        return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *pointer = (void *)vkGetDeviceProcAddr(program.device, names[i]);
        Dl_info where = {0};
        if (!pointer || !dladdr(pointer, &where))
            return 1;
        printf("%s\"%s\": \"%s+%zx\"", i ? ", " : "{", names[i], strrchr(where.dli_fname, '/') + 1,
               (size_t)((char *)pointer - (char *)where.dli_fbase));
    }
    puts("}");
    close_program(&program);
    return 0;
}
