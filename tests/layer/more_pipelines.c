/*
 * Commands that take a VkPipelineCache for pipelines of which the layer knows nothing, on a driver that has them
 * (tests/driver, more-pipelines).
 *
 * more_pipelines beside COMMAND: while one thread is in the command, with a cache, another creates pipelines with it.
 * more_pipelines deferred: pipelines are created with a cache that a deferred operation has not done with.
 */
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Newer than the headers of Debian bookworm, and all alike but for the deferred operation. */
typedef VkResult(VKAPI_PTR *CreateMore)(VkDevice, VkPipelineCache, uint32_t, const void *,
                                        const VkAllocationCallbacks *, VkPipeline *);
typedef VkResult(VKAPI_PTR *CreateMoreDeferred)(VkDevice, VkDeferredOperationKHR, VkPipelineCache, uint32_t,
                                                const void *, const VkAllocationCallbacks *, VkPipeline *);
#define DEFERRED_COMMAND "vkCreateDataGraphPipelinesARM"

static Program program;
static VkPipelineCache cache;
static atomic_bool done;

static VkResult create_more(const char *name, VkDeferredOperationKHR operation)
{
    VkPipeline pipeline;
    PFN_vkVoidFunction command = vkGetDeviceProcAddr(program.device, name);
    if (!command)
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    if (strcmp(name, DEFERRED_COMMAND) == 0)
        return ((CreateMoreDeferred)command)(program.device, operation, cache, 1, NULL, NULL, &pipeline);
    return ((CreateMore)command)(program.device, cache, 1, NULL, NULL, &pipeline);
}

static void *create_beside(void *name)
{
    VkResult result = create_more(name, VK_NULL_HANDLE);
    atomic_store(&done, true);
    return (void *)(intptr_t)result;
}

/* One that was not there before, so that it is compiled and goes into the cache. */
static VkResult create_new(void)
{
    static unsigned number;
    return use_numbered(&program, cache, ++number);
}

static int beside(char *name)
{
    pthread_t thread;
    void *result;
    int failures = 0;
    if (pthread_create(&thread, NULL, create_beside, name))
        return 1;
    while (!atomic_load(&done))
        failures += create_new() != VK_SUCCESS;
    pthread_join(thread, &result);
    return failures || result;
}

static int deferred(void)
{
    int failures = create_more(DEFERRED_COMMAND, (VkDeferredOperationKHR)1) != VK_SUCCESS;
    for (int i = 0; i < 3; i++)
        failures += create_new() != VK_SUCCESS;
    return failures;
}

int main(int count, char **arguments)
{
    const char *extension = VK_NV_RAY_TRACING_EXTENSION_NAME;
    const Wanted wanted = {.api = VK_API_VERSION_1_3, .extension_count = 1, .extensions = &extension};
    if (count < 2 || open_program(&program, &wanted) || create_cache(&program, 0, 0, NULL, &cache))
        return 1;
    int failures = count == 3 ? beside(arguments[2]) : deferred();
    vkDestroyPipelineCache(program.device, cache, NULL);
    close_program(&program);
    return failures != 0;
}
