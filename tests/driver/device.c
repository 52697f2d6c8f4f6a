/* Devices, and objects of which only the contents matter. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static VkResult create_object(VkDevice device, ObjectKind kind, const Hash *contents,
                              const VkAllocationCallbacks *allocator, uint64_t *handle)
{
    VkResult result = act_or_error(DO_CREATE_OBJECT);
    if (result != VK_SUCCESS)
        return result;
    Object *made = object_make(device_of(device), kind, sizeof *made, allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->contents = *contents;
    *handle = (uint64_t)(uintptr_t)made;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    Hash contents = hash_start(1);
    hash_bytes(&contents, info->pCode, info->codeSize);
    return create_object(device, KIND_MODULE, &contents, allocator, (uint64_t *)module);
}

static VkResult VKAPI_CALL create_sets(VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
                                       const VkAllocationCallbacks *allocator, VkDescriptorSetLayout *layout)
{
    Hash contents = hash_start(2);
    for (uint32_t i = 0; i < info->bindingCount; i++)
        HASH_MEMBERS(&contents, &info->pBindings[i], binding, stageFlags);
    return create_object(device, KIND_SETS, &contents, allocator, (uint64_t *)layout);
}

static VkResult VKAPI_CALL create_layout(VkDevice device, const VkPipelineLayoutCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkPipelineLayout *layout)
{
    Hash contents = hash_start(3);
    for (uint32_t i = 0; i < info->setLayoutCount; i++) {
        Object *sets = info->pSetLayouts[i] ? object_of((uint64_t)info->pSetLayouts[i], KIND_SETS) : NULL;
        if (sets)
            hash_bytes(&contents, &sets->contents, sizeof sets->contents);
    }
    if (info->pushConstantRangeCount)
        hash_bytes(&contents, info->pPushConstantRanges,
                   info->pushConstantRangeCount * sizeof *info->pPushConstantRanges);
    return create_object(device, KIND_LAYOUT, &contents, allocator, (uint64_t *)layout);
}

static VkResult VKAPI_CALL create_pass(VkDevice device, const VkRenderPassCreateInfo *info,
                                       const VkAllocationCallbacks *allocator, VkRenderPass *pass)
{
    Hash contents = hash_start(4);
    for (uint32_t i = 0; i < info->attachmentCount; i++)
        HASH_MEMBERS(&contents, &info->pAttachments[i], format, samples);
    hash_number(&contents, info->subpassCount);
    return create_object(device, KIND_PASS, &contents, allocator, (uint64_t *)pass);
}

#define DESTROY(name, type, kind)                                                                                      \
    static void VKAPI_CALL name(VkDevice device, type handle, const VkAllocationCallbacks *allocator)                  \
    {                                                                                                                  \
        if (handle)                                                                                                    \
            object_free(device_of(device), object_of((uint64_t)handle, kind), allocator);                              \
    }
DESTROY(destroy_module, VkShaderModule, KIND_MODULE)
DESTROY(destroy_sets, VkDescriptorSetLayout, KIND_SETS)
DESTROY(destroy_layout, VkPipelineLayout, KIND_LAYOUT)
DESTROY(destroy_pass, VkRenderPass, KIND_PASS)
DESTROY(destroy_swapchain, VkSwapchainKHR, KIND_SWAPCHAIN)

/* ---- swapchains that show nothing ---- */

/* Older loaders need none: their own surfaces go down to a driver that makes none. */
static VkResult VKAPI_CALL create_surface(VkInstance instance, const VkHeadlessSurfaceCreateInfoEXT *info,
                                          const VkAllocationCallbacks *allocator, VkSurfaceKHR *surface)
{
    *surface = (VkSurfaceKHR)(uintptr_t)instance;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL create_swapchain(VkDevice device, const VkSwapchainCreateInfoKHR *info,
                                            const VkAllocationCallbacks *allocator, VkSwapchainKHR *swapchain)
{
    if (info->oldSwapchain)
        object_of((uint64_t)info->oldSwapchain, KIND_SWAPCHAIN);
    const Hash contents = hash_start(10);
    return create_object(device, KIND_SWAPCHAIN, &contents, allocator, (uint64_t *)swapchain);
}

static VkResult VKAPI_CALL acquire(VkDevice device, VkSwapchainKHR swapchain, uint64_t timeout, VkSemaphore semaphore,
                                   VkFence fence, uint32_t *image)
{
    object_of((uint64_t)swapchain, KIND_SWAPCHAIN);
    *image = 0;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL present(VkQueue queue, const VkPresentInfoKHR *info)
{
    for (uint32_t i = 0; i < info->swapchainCount; i++)
        object_of((uint64_t)info->pSwapchains[i], KIND_SWAPCHAIN);
    return VK_SUCCESS;
}

const EntryPoint swapchain_commands[] = {
    ENTRY("vkCreateHeadlessSurfaceEXT", create_surface),
    ENTRY("vkCreateSwapchainKHR", create_swapchain),
    ENTRY("vkDestroySwapchainKHR", destroy_swapchain),
    ENTRY("vkAcquireNextImageKHR", acquire),
    ENTRY("vkQueuePresentKHR", present),
    {NULL, NULL},
};

/* ---- devices ---- */

static void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    check_device_end(device_of(device));
    cache_clear(&device_of(device)->internal);
    free((void *)device);
}

static void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue *queue)
{
    *queue = (VkQueue)(void *)&device_of(device)->queue;
}

static VkResult VKAPI_CALL do_nothing(void)
{
    return VK_SUCCESS;
}

const EntryPoint device_commands[] = {
    ENTRY("vkGetDeviceProcAddr", get_device_command),
    ENTRY("vkDestroyDevice", destroy_device),
    ENTRY("vkGetDeviceQueue", get_queue),
    ENTRY("vkDeviceWaitIdle", do_nothing),
    ENTRY("vkQueueWaitIdle", do_nothing),
    ENTRY("vkCreateShaderModule", create_module),
    ENTRY("vkDestroyShaderModule", destroy_module),
    ENTRY("vkCreateDescriptorSetLayout", create_sets),
    ENTRY("vkDestroyDescriptorSetLayout", destroy_sets),
    ENTRY("vkCreatePipelineLayout", create_layout),
    ENTRY("vkDestroyPipelineLayout", destroy_layout),
    ENTRY("vkCreateRenderPass", create_pass),
    ENTRY("vkDestroyRenderPass", destroy_pass),
    {NULL, NULL},
};

PFN_vkVoidFunction VKAPI_CALL get_device_command(VkDevice handle, const char *name)
{
    const DriverDevice *device = device_of(handle);
    const struct {
        const EntryPoint *commands;
        bool enabled;
    } all[] = {
        {device_commands, true},
        {cache_commands, true},
        {pipeline_commands, true},
        {binary_commands, device->binaries && device->settings->binaries != PART_NULL},
        {ray_commands, device->ray_tracing},
        {swapchain_commands, device->swapchain},
        {more_pipeline_commands, device->more_pipelines},
    };
    PFN_vkVoidFunction found = NULL;
    for (size_t i = 0; !found && i < sizeof all / sizeof *all; i++)
        found = all[i].enabled ? find_command(all[i].commands, name) : NULL;
    return found;
}
