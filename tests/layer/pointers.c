/* Prints where vkGetDeviceProcAddr points for many commands, as JSON: library and offset. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <vulkan/vulkan.h>

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
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    uint32_t one = 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    if (vkCreateInstance(&info, NULL, &instance) || vkEnumeratePhysicalDevices(instance, &one, &physical) < 0 ||
        vkCreateDevice(physical, &device_info, NULL, &device))
        return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *pointer = (void *)vkGetDeviceProcAddr(device, names[i]);
        Dl_info where = {0};
        if (!pointer || !dladdr(pointer, &where))
            return 1;
        printf("%s\"%s\": \"%s+%zx\"", i ? ", " : "{", names[i], strrchr(where.dli_fname, '/') + 1,
               (size_t)((char *)pointer - (char *)where.dli_fbase));
    }
    puts("}");
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
