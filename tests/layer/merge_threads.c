/*
 * merge_threads opposite|one [ROUNDS]: threads that merge the caches of other threads.
 *
 * opposite: one thread merges A into B, another one B into A, while a third creates pipelines without a cache, which is
 * what the layer merges for. Not valid: Vulkan wants both caches synchronized. But programs do it, and get along with
 * most drivers.
 * one: four threads create pipelines in one cache while two merge others into it, which a cache created with
 * VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR allows (VK_KHR_maintenance8).
 */
#include "device.h"
#include "shader.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newer than the headers that this must build with. */
#define SYNCHRONIZED_MERGE 0x8u
enum { TYPE_MAINTENANCE_8_FEATURES = 1000574000 };
typedef struct {
    VkStructureType sType;
    void *pNext;
    VkBool32 maintenance8;
} maintenance8_features;

static VkDevice device;
static VkShaderModule module;
static VkPipelineLayout layouts[8];
static int rounds;
static atomic_int failures;

static void must(VkResult result)
{
    if (result)
        atomic_fetch_add(&failures, 1);
}

static VkPipelineCache new_cache(VkPipelineCacheCreateFlags flags)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .flags = flags};
    VkPipelineCache created = VK_NULL_HANDLE;
    must(vkCreatePipelineCache(device, &info, NULL, &created));
    return created;
}

/* Layouts that differ make pipelines that differ. */
static void create_layouts(void)
{
    for (uint32_t i = 0; i < 8; i++) {
        VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 16 * (i + 1)};
        VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                           .pushConstantRangeCount = 1,
                                           .pPushConstantRanges = &range};
        must(vkCreatePipelineLayout(device, &info, NULL, &layouts[i]));
    }
}

typedef struct {
    VkPipelineCache into, from;
    unsigned first;
} work;

static void create(VkPipelineCache cache, unsigned number)
{
    VkPipeline pipeline = VK_NULL_HANDLE;
    const char *name = number / 8 % 2 ? "twin" : "main";
    must(create_compute(device, cache, module, layouts[number % 8], name, NULL, &pipeline));
    vkDestroyPipeline(device, pipeline, NULL);
}

static void *merge(void *argument)
{
    const work *what = argument;
    for (int i = 0; i < rounds; i++)
        must(vkMergePipelineCaches(device, what->into, 1, &what->from));
    return NULL;
}

static void *create_some(void *argument)
{
    const work *what = argument;
    for (unsigned i = 0; i < 16; i++)
        create(what->into, what->first + i);
    return NULL;
}

typedef void *(*thread_function)(void *);

static void run(unsigned count, const thread_function *functions, work *works)
{
    pthread_t threads[8];
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, functions[i], &works[i]))
            exit(1);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void opposite(void)
{
    VkPipelineCache a = new_cache(0), b = new_cache(0);
    for (unsigned i = 0; i < 8; i++)
        create(i % 2 ? a : b, i);
    run(3, (thread_function[]){merge, merge, create_some},
        (work[]){{.into = a, .from = b}, {.into = b, .from = a}, {.first = 0}});
    vkDestroyPipelineCache(device, a, NULL);
    vkDestroyPipelineCache(device, b, NULL);
}

static void into_one(void)
{
    VkPipelineCache one = new_cache(SYNCHRONIZED_MERGE), a = new_cache(0), b = new_cache(0);
    create(a, 0);
    create(b, 1);
    run(6, (thread_function[]){create_some, create_some, create_some, create_some, merge, merge},
        (work[]){{.into = one, .first = 0},
                 {.into = one, .first = 4},
                 {.into = one, .first = 8},
                 {.into = one, .first = 12},
                 {.into = one, .from = a},
                 {.into = one, .from = b}});
    vkDestroyPipelineCache(device, one, NULL);
    vkDestroyPipelineCache(device, a, NULL);
    vkDestroyPipelineCache(device, b, NULL);
}

static VkDevice create_device_with_maintenance8(VkInstance *instance)
{
    maintenance8_features features = {(VkStructureType)TYPE_MAINTENANCE_8_FEATURES, NULL, VK_TRUE};
    return create_device_with(VK_API_VERSION_1_1, &features, "VK_KHR_maintenance8", instance);
}

int main(int count, char **arguments)
{
    VkInstance instance;
    bool is_opposite = count > 1 && !strcmp(arguments[1], "opposite");
    rounds = count > 2 ? atoi(arguments[2]) : 200;
    device = is_opposite ? create_device(VK_API_VERSION_1_1, &instance) : create_device_with_maintenance8(&instance);
    if (!device || vkCreateShaderModule(device, &shader_info, NULL, &module))
        return 1;
    create_layouts();
    if (is_opposite)
        opposite();
    else
        into_one();
    for (unsigned i = 0; i < 8; i++)
        vkDestroyPipelineLayout(device, layouts[i], NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return atomic_load(&failures) != 0;
}
