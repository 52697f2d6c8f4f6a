/*
 * allocators: gives VkAllocationCallbacks to every command of pipelines and caches, and notes each call of one that
 * comes on another thread, outside of a command that was given them, or for memory that they did not give out.
 * Prints "calls N, wrong N, left N".
 */
#include "program.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool inside;
static atomic_int calls, wrong, left;

static void check(const void *user_data)
{
    atomic_fetch_add(&calls, 1);
    /* Each command below says so on its own thread. */
    if (!inside || user_data != &calls)
        atomic_fetch_add(&wrong, 1);
}

/* In front of the memory: how large it is, and that it is ours. */
typedef struct {
    size_t size, offset;
    uint64_t mark;
} header;
#define MARK 0x70796c6179657221ull

static void *VKAPI_CALL allocate(void *user_data, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    (void)scope;
    check(user_data);
    alignment = alignment < sizeof(header) ? 32 : alignment;
    size_t offset = alignment > sizeof(header) ? alignment : 2 * alignment;
    char *memory = aligned_alloc(alignment, (offset + size + alignment - 1) / alignment * alignment);
    if (!memory)
        return NULL;
    ((header *)(void *)(memory + offset))[-1] = (header){size, offset, MARK};
    atomic_fetch_add(&left, 1);
    return memory + offset;
}

static void VKAPI_CALL release(void *user_data, void *memory)
{
    if (!memory)
        return;
    check(user_data);
    header *head = (header *)memory - 1;
    if (head->mark != MARK) {
        atomic_fetch_add(&wrong, 1);
        return;
    }
    head->mark = 0;
    atomic_fetch_sub(&left, 1);
    free((char *)memory - head->offset);
}

static void *VKAPI_CALL reallocate(void *user_data, void *memory, size_t size, size_t alignment,
                                   VkSystemAllocationScope scope)
{
    void *larger = size ? allocate(user_data, size, alignment, scope) : NULL;
    if (larger && memory) {
        size_t had = ((header *)memory)[-1].size;
        memcpy(larger, memory, had < size ? had : size);
    }
    if (larger || !size)
        release(user_data, memory);
    return larger;
}

static const VkAllocationCallbacks callbacks = {
    .pUserData = &calls, .pfnAllocation = allocate, .pfnReallocation = reallocate, .pfnFree = release};

static VkPipelineCache new_cache(VkDevice device, size_t size, const void *data)
{
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
    VkPipelineCache cache = VK_NULL_HANDLE;
    inside = true;
    VkResult result = vkCreatePipelineCache(device, &info, &callbacks, &cache);
    inside = false;
    return result ? VK_NULL_HANDLE : cache;
}

static void destroy_cache(VkDevice device, VkPipelineCache cache)
{
    inside = true;
    vkDestroyPipelineCache(device, cache, &callbacks);
    inside = false;
}

static bool create(const Program *program, VkPipelineCache cache, const char *name)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkComputePipelineCreateInfo info = compute_info(program, name);
    inside = true;
    VkResult result = vkCreateComputePipelines(program->device, cache, 1, &info, &callbacks, &pipeline);
    vkDestroyPipeline(program->device, pipeline, &callbacks);
    inside = false;
    return result == VK_SUCCESS;
}

/* Misses and hits, with a cache and without, merges in both directions, and data that goes in and out. */
static bool use_everything(const Program *program)
{
    VkDevice device = program->device;
    static char data[1 << 16];
    size_t size = sizeof data;
    VkPipelineCache a = new_cache(device, 0, NULL), b = new_cache(device, 0, NULL);
    bool done = a && b && create(program, VK_NULL_HANDLE, "main") && create(program, a, "main") &&
                create(program, a, "twin") && create(program, VK_NULL_HANDLE, "twin") &&
                !vkMergePipelineCaches(device, b, 1, &a) && !vkGetPipelineCacheData(device, b, &size, data);
    VkPipelineCache c = new_cache(device, size, data);
    done = done && c && create(program, c, "twin");
    destroy_cache(device, a);
    destroy_cache(device, b);
    destroy_cache(device, c);
    return done;
}

int main(void)
{
    Program program = {0};
    if (open_program(&program, &(Wanted){0}) || !use_everything(&program))
        return 1;
    close_program(&program);
    printf("calls %d, wrong %d, left %d\n", atomic_load(&calls), atomic_load(&wrong), atomic_load(&left));
    return 0;
}
