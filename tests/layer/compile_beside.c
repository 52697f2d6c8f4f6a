/*
 * compile_beside none|shared: a driver whose first compile lasts until something else was done (tests/driver) shows who
 * waits for a compile.
 *
 * shared: two threads with one VkPipelineCache, each creates a pipeline of its own twice. Whoever compiles first is done
 * when the other has found its pipeline again.
 * none: a thread creates a pipeline without a cache, and until it is done another one fills caches and destroys them.
 */
#include "device.h"
#include "shader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static VkDevice device;
static VkPipelineCache cache;
static VkShaderModule module;
static VkPipelineLayout layout;
static atomic_bool done;
static atomic_int failures;

static void create(VkPipelineCache with, const char *name)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    if (create_compute(device, with, module, layout, name, NULL, &pipeline))
        atomic_fetch_add(&failures, 1);
    vkDestroyPipeline(device, pipeline, NULL);
}

static void *create_twice(void *name)
{
    create(cache, name);
    create(cache, name);
    atomic_store(&done, true);
    return NULL;
}

static VkPipelineCache new_cache(void)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache created = VK_NULL_HANDLE;
    if (vkCreatePipelineCache(device, &info, NULL, &created))
        atomic_fetch_add(&failures, 1);
    return created;
}

int main(int count, char **arguments)
{
    VkInstance instance;
    device = create_device(VK_API_VERSION_1_1, &instance);
    if (count != 2 || !device || create_shader(device, &module, &layout))
        return 1;
    bool shared = !strcmp(arguments[1], "shared");
    if (shared)
        cache = new_cache();
    pthread_t thread;
    if (pthread_create(&thread, NULL, create_twice, "main"))
        return 1;
    if (shared)
        create_twice("twin");
    while (!shared && !atomic_load(&done)) {
        VkPipelineCache one = new_cache();
        create(one, "twin");
        vkDestroyPipelineCache(device, one, NULL);
    }
    pthread_join(thread, NULL);
    vkDestroyPipelineCache(device, cache, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    printf("failures %d\n", atomic_load(&failures));
    return atomic_load(&failures) != 0;
}
