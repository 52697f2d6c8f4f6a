/*
 * allocator.c - an application's allocation callbacks. They may only be called during a command of the application and
 * from the thread that called it (Vulkan, 'Host Memory'); what they gave has to come back.
 */
#include "device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* In front of each allocation, so large that the alignment of what follows stays. */
typedef struct Head {
    void *base;
    size_t size;
} Head;

static pthread_t owner;
static atomic_long live, made, foreign;
static _Thread_local bool allowed;

void allocator_allow_thread(void)
{
    allowed = true;
}

static void note_thread(void)
{
    if (!allowed && !pthread_equal(pthread_self(), owner))
        atomic_fetch_add(&foreign, 1);
}

static void *VKAPI_PTR allocate_for_driver(void *user, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    note_thread();
    if (alignment < _Alignof(max_align_t))
        alignment = _Alignof(max_align_t);
    char *base = malloc(size + alignment + sizeof(Head));
    if (!base)
        return NULL;
    uintptr_t place = ((uintptr_t)base + sizeof(Head) + alignment - 1) / alignment * alignment;
    ((Head *)place)[-1] = (Head){base, size};
    atomic_fetch_add(&live, 1);
    atomic_fetch_add(&made, 1);
    return (void *)place;
}

static void VKAPI_PTR release(void *user, void *memory)
{
    note_thread();
    if (!memory)
        return;
    atomic_fetch_sub(&live, 1);
    free(((Head *)memory)[-1].base);
}

static void *VKAPI_PTR reallocate(void *user, void *memory, size_t size, size_t alignment,
                                  VkSystemAllocationScope scope)
{
    if (size == 0) {
        release(user, memory);
        return NULL;
    }
    void *fresh = allocate_for_driver(user, size, alignment, scope);
    if (fresh && memory) {
        size_t old = ((Head *)memory)[-1].size;
        memcpy(fresh, memory, old < size ? old : size);
        release(user, memory);
    }
    return fresh;
}

const VkAllocationCallbacks *allocator_begin(void)
{
    static const VkAllocationCallbacks callbacks = {
        .pfnAllocation = allocate_for_driver, .pfnReallocation = reallocate, .pfnFree = release};
    owner = pthread_self();
    atomic_store(&live, 0);
    atomic_store(&made, 0);
    atomic_store(&foreign, 0);
    return &callbacks;
}

void allocator_report(void)
{
    printf("used=%d live=%ld foreign=%ld\n", atomic_load(&made) > 0, atomic_load(&live), atomic_load(&foreign));
}
