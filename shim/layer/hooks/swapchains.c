/* swapchains.c - the hooks of vkQueuePresentKHR, vkCreateSwapchainKHR and vkDestroySwapchainKHR */
#include "device/device.h"
#include "driver/dispatch.h"
#include "frames/frames.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_QueuePresentKHR(VkQueue queue, const VkPresentInfoKHR *info)
{
    Device *device = dispatch_find(&device_table, dispatch_key(queue));
    frames_see(&device->run, info);
    return device->driver.queue_present(queue, info);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateSwapchainKHR(VkDevice handle, const VkSwapchainCreateInfoKHR *info,
                                                        const VkAllocationCallbacks *allocator,
                                                        VkSwapchainKHR *swapchain)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    uint64_t old = (uint64_t)info->oldSwapchain;
    VkResult result = device->driver.create_swapchain(handle, info, allocator, swapchain);
    if (result == VK_SUCCESS && old)
        frames_follow(&device->run, old, (uint64_t)*swapchain);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroySwapchainKHR(VkDevice handle, VkSwapchainKHR swapchain,
                                                     const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    frames_follow(&device->run, (uint64_t)swapchain, 0);
    device->driver.destroy_swapchain(handle, swapchain, allocator);
}
