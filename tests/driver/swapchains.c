/* Swapchains that show nothing. The surface is the loader's own. */
#include "driver.h"

#include <stdlib.h>

typedef struct {
    Object object;
    uint32_t images;
} Swapchain;

static VkResult VKAPI_CALL create_swapchain(VkDevice device, const VkSwapchainCreateInfoKHR *info,
                                            const VkAllocationCallbacks *allocator, VkSwapchainKHR *swapchain)
{
    if (info->oldSwapchain)
        object_of((uint64_t)info->oldSwapchain, KIND_SWAPCHAIN);
    VkResult result = act_or_error(DO_CREATE_OBJECT);
    if (result != VK_SUCCESS)
        return result;
    Swapchain *made = object_make(device_of(device), KIND_SWAPCHAIN, sizeof *made, allocator);
    if (!made)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    made->images = info->minImageCount;
    *(uint64_t *)swapchain = (uint64_t)(uintptr_t)made;
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_swapchain(VkDevice device, VkSwapchainKHR swapchain,
                                         const VkAllocationCallbacks *allocator)
{
    if (swapchain)
        object_free(device_of(device), object_of((uint64_t)swapchain, KIND_SWAPCHAIN), allocator);
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

static void VKAPI_CALL destroy_surface(VkInstance instance, VkSurfaceKHR surface,
                                       const VkAllocationCallbacks *allocator)
{
}

const EntryPoint swapchain_commands[] = {
    ENTRY("vkCreateSwapchainKHR", create_swapchain), ENTRY("vkDestroySwapchainKHR", destroy_swapchain),
    ENTRY("vkAcquireNextImageKHR", acquire),         ENTRY("vkQueuePresentKHR", present),
    ENTRY("vkDestroySurfaceKHR", destroy_surface),   {NULL, NULL},
};
