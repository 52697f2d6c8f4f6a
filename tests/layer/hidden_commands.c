/*
 * hidden_commands [own]: prints the commands of VK_KHR_pipeline_binary and VK_KHR_maintenance5 that vkGetDeviceProcAddr
 * gives to a program of Vulkan 1.3, which with an argument enables the two extensions itself.
 */
#include "program.h"
#include <stdio.h>

static const char *const commands[] = {
    "vkCreatePipelineBinariesKHR",      "vkDestroyPipelineBinaryKHR",           "vkGetPipelineKeyKHR",
    "vkGetPipelineBinaryDataKHR",       "vkReleaseCapturedPipelineDataKHR",     "vkCmdBindIndexBuffer2KHR",
    "vkGetRenderingAreaGranularityKHR", "vkGetDeviceImageSubresourceLayoutKHR", "vkGetImageSubresourceLayout2KHR",
};

int main(int count, char **arguments)
{
    (void)arguments;
    const char *extensions[] = {"VK_KHR_maintenance5", "VK_KHR_pipeline_binary"};
    Program program = {0};
    if (open_program(
            &program,
            &(Wanted){.api = VK_API_VERSION_1_3, .extension_count = count > 1 ? 2 : 0, .extensions = extensions}))
        return 1;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (vkGetDeviceProcAddr(program.device, commands[i]))
            puts(commands[i]);
    close_program(&program);
    return 0;
}
