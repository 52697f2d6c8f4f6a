/* What surfaces can do, and swapchains.  Surfaces themselves are the driver's; nothing is ever shown on them. */
#include "null_hardware.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IMAGES 8

typedef struct {
    uint32_t count;
    uint32_t next;
    VkImage images[MAX_IMAGES];
} swapchain;

/* The two-call idiom, for arrays of any element. */
static VkResult give(const void *elements, uint32_t available, size_t size, uint32_t *count, void *out)
{
    if (!out) {
        *count = available;
        return VK_SUCCESS;
    }
    if (*count > available)
        *count = available;
    memcpy(out, elements, *count * size);
    return *count < available ? VK_INCOMPLETE : VK_SUCCESS;
}

static const VkSurfaceFormatKHR formats[] = {{VK_FORMAT_B8G8R8A8_UNORM, VK_COLOR_SPACE_SRGB_NONLINEAR_KHR},
                                             {VK_FORMAT_B8G8R8A8_SRGB, VK_COLOR_SPACE_SRGB_NONLINEAR_KHR}};
#define FORMAT_COUNT (sizeof formats / sizeof *formats)

static void fill_capabilities(VkSurfaceCapabilitiesKHR *capabilities)
{
    *capabilities = (VkSurfaceCapabilitiesKHR){
        .minImageCount = 2,
        .maxImageCount = MAX_IMAGES,
        .currentExtent = {UINT32_MAX, UINT32_MAX}, /* the swapchain decides, whatever size the window has */
        .minImageExtent = {1, 1},
        .maxImageExtent = {16384, 16384},
        .maxImageArrayLayers = 1,
        .supportedTransforms = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR,
        .currentTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR,
        .supportedCompositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR | VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR,
        .supportedUsageFlags = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT |
                               VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_STORAGE_BIT |
                               VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_INPUT_ATTACHMENT_BIT,
    };
}

static VkResult VKAPI_CALL get_surface_support(VkPhysicalDevice physical, uint32_t family, VkSurfaceKHR surface,
                                               VkBool32 *supported)
{
    (void)physical, (void)family, (void)surface;
    *supported = VK_TRUE;
    return VK_SUCCESS;
}

/* Stands in for vkGetPhysicalDevice{Xcb,Xlib,Wayland}PresentationSupportKHR alike. */
static VkBool32 VKAPI_CALL get_presentation_support(void)
{
    return VK_TRUE;
}

static VkResult VKAPI_CALL get_surface_capabilities(VkPhysicalDevice physical, VkSurfaceKHR surface,
                                                    VkSurfaceCapabilitiesKHR *capabilities)
{
    (void)physical, (void)surface;
    fill_capabilities(capabilities);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL get_surface_capabilities2(VkPhysicalDevice physical,
                                                     const VkPhysicalDeviceSurfaceInfo2KHR *info,
                                                     VkSurfaceCapabilities2KHR *capabilities)
{
    (void)physical, (void)info;
    fill_capabilities(&capabilities->surfaceCapabilities);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL get_surface_formats(VkPhysicalDevice physical, VkSurfaceKHR surface, uint32_t *count,
                                               VkSurfaceFormatKHR *out)
{
    (void)physical, (void)surface;
    return give(formats, FORMAT_COUNT, sizeof *formats, count, out);
}

static VkResult VKAPI_CALL get_surface_formats2(VkPhysicalDevice physical, const VkPhysicalDeviceSurfaceInfo2KHR *info,
                                                uint32_t *count, VkSurfaceFormat2KHR *out)
{
    (void)physical, (void)info;
    if (!out) {
        *count = FORMAT_COUNT;
        return VK_SUCCESS;
    }
    if (*count > FORMAT_COUNT)
        *count = FORMAT_COUNT;
    for (uint32_t i = 0; i < *count; i++)
        out[i].surfaceFormat = formats[i];
    return *count < FORMAT_COUNT ? VK_INCOMPLETE : VK_SUCCESS;
}

static VkResult VKAPI_CALL get_present_modes(VkPhysicalDevice physical, VkSurfaceKHR surface, uint32_t *count,
                                             VkPresentModeKHR *out)
{
    (void)physical, (void)surface;
    static const VkPresentModeKHR modes[] = {VK_PRESENT_MODE_FIFO_KHR, VK_PRESENT_MODE_IMMEDIATE_KHR};
    return give(modes, 2, sizeof *modes, count, out);
}

static VkResult VKAPI_CALL get_present_rectangles(VkPhysicalDevice physical, VkSurfaceKHR surface, uint32_t *count,
                                                  VkRect2D *out)
{
    (void)physical, (void)surface;
    static const VkRect2D all = {{0, 0}, {16384, 16384}};
    return give(&all, 1, sizeof all, count, out);
}

static void VKAPI_CALL destroy_swapchain(VkDevice device, VkSwapchainKHR handle, const VkAllocationCallbacks *allocator)
{
    swapchain *object = (swapchain *)handle;
    if (!object)
        return;
    for (uint32_t i = 0; i < object->count; i++)
        destroy_image(device, object->images[i], allocator);
    free(object);
}

static VkResult VKAPI_CALL create_swapchain(VkDevice device, const VkSwapchainCreateInfoKHR *info,
                                            const VkAllocationCallbacks *allocator, VkSwapchainKHR *handle)
{
    if (info->minImageCount > MAX_IMAGES)
        return VK_ERROR_INITIALIZATION_FAILED;
    swapchain *object = calloc(1, sizeof *object);
    if (!object)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    const VkImageCreateInfo image = {.extent = {info->imageExtent.width, info->imageExtent.height, 1},
                                     .mipLevels = 1,
                                     .arrayLayers = info->imageArrayLayers,
                                     .samples = VK_SAMPLE_COUNT_1_BIT};
    for (; object->count < info->minImageCount; object->count++) {
        if (create_image(device, &image, allocator, &object->images[object->count]) == VK_SUCCESS)
            continue;
        destroy_swapchain(device, (VkSwapchainKHR)object, allocator);
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    *handle = (VkSwapchainKHR)object;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL get_swapchain_images(VkDevice device, VkSwapchainKHR handle, uint32_t *count, VkImage *out)
{
    (void)device;
    const swapchain *object = (swapchain *)handle;
    return give(object->images, object->count, sizeof *object->images, count, out);
}

static VkResult VKAPI_CALL acquire_next_image(VkDevice device, VkSwapchainKHR handle, uint64_t timeout,
                                              VkSemaphore semaphore, VkFence fence, uint32_t *index)
{
    (void)device, (void)timeout, (void)semaphore;
    swapchain *object = (swapchain *)handle; /* the application synchronizes this call per swapchain */
    *index = object->next;
    object->next = (object->next + 1) % object->count;
    signal_fence(fence);
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL acquire_next_image2(VkDevice device, const VkAcquireNextImageInfoKHR *info, uint32_t *index)
{
    return acquire_next_image(device, info->swapchain, info->timeout, info->semaphore, info->fence, index);
}

static VkResult VKAPI_CALL queue_present(VkQueue queue, const VkPresentInfoKHR *info)
{
    (void)queue;
    for (uint32_t i = 0; info->pResults && i < info->swapchainCount; i++)
        info->pResults[i] = VK_SUCCESS;
    for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
        if (next->sType != VK_STRUCTURE_TYPE_SWAPCHAIN_PRESENT_FENCE_INFO_EXT)
            continue;
        const VkSwapchainPresentFenceInfoEXT *fences = (const VkSwapchainPresentFenceInfoEXT *)next;
        for (uint32_t i = 0; i < fences->swapchainCount; i++)
            signal_fence(fences->pFences[i]);
    }
    return VK_SUCCESS;
}

const entry_point surface_entry_points[] = {
    ENTRY("vkGetPhysicalDeviceSurfaceSupportKHR", get_surface_support),
    ENTRY("vkGetPhysicalDeviceXcbPresentationSupportKHR", get_presentation_support),
    ENTRY("vkGetPhysicalDeviceXlibPresentationSupportKHR", get_presentation_support),
    ENTRY("vkGetPhysicalDeviceWaylandPresentationSupportKHR", get_presentation_support),
    ENTRY("vkGetPhysicalDeviceSurfaceCapabilitiesKHR", get_surface_capabilities),
    ENTRY("vkGetPhysicalDeviceSurfaceCapabilities2KHR", get_surface_capabilities2),
    ENTRY("vkGetPhysicalDeviceSurfaceFormatsKHR", get_surface_formats),
    ENTRY("vkGetPhysicalDeviceSurfaceFormats2KHR", get_surface_formats2),
    ENTRY("vkGetPhysicalDeviceSurfacePresentModesKHR", get_present_modes),
    ENTRY("vkGetPhysicalDevicePresentRectanglesKHR", get_present_rectangles),
    ENTRY("vkCreateSwapchainKHR", create_swapchain),
    ENTRY("vkDestroySwapchainKHR", destroy_swapchain),
    ENTRY("vkGetSwapchainImagesKHR", get_swapchain_images),
    ENTRY("vkGetSwapchainStatusKHR", succeed),
    ENTRY("vkAcquireNextImageKHR", acquire_next_image),
    ENTRY("vkAcquireNextImage2KHR", acquire_next_image2),
    ENTRY("vkReleaseSwapchainImagesEXT", succeed),
    ENTRY("vkWaitForPresentKHR", succeed),
    ENTRY("vkQueuePresentKHR", queue_present),
    {NULL, NULL}};
