/*
 * allocator.c - the memory that the driver's device uses in place of the application's callbacks.
 *
 * An application's callbacks may only be called during one of its commands and on the thread that called it (Vulkan,
 * 'Host Memory'). The layer's work on the policy thread is no such command. The driver takes memory for that work from
 * the callbacks of the device, or of the instance if the device has none, whichever allocator the call itself names.
 * Mesa does so for everything that a VkPipelineCache holds. So the layer creates the driver's device with these
 * callbacks. The application's are used for the objects that it creates with them.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

static void *VKAPI_PTR allocate(void *user, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    (void)user, (void)scope;
    if (alignment <= _Alignof(max_align_t))
        return malloc(size);
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static void VKAPI_PTR release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void *VKAPI_PTR reallocate(void *user, void *memory, size_t size, size_t alignment,
                                  VkSystemAllocationScope scope)
{
    if (size == 0) {
        free(memory);
        return NULL;
    }
    if (alignment <= _Alignof(max_align_t))
        return realloc(memory, size);
    void *moved = allocate(user, size, alignment, scope);
    if (moved && memory) {
        size_t had = malloc_usable_size(memory);
        memcpy(moved, memory, had < size ? had : size);
        free(memory);
    }
    return moved;
}

const VkAllocationCallbacks *own_allocator(void)
{
    static const VkAllocationCallbacks callbacks = {
        .pfnAllocation = allocate, .pfnReallocation = reallocate, .pfnFree = release};
    return &callbacks;
}
