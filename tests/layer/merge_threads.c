/*
 * merge_threads opposite|one [ROUNDS]: threads that merge the caches of other threads.
 *
 * opposite: one thread merges A into B, another one B into A, while a third creates pipelines without a cache, which is
 * what the layer merges for. Not valid: Vulkan wants both caches synchronized. But programs do it, and get along with
 * most drivers.
 * one: four threads create pipelines in one cache while two merge others into it, which a cache created with
 * VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR allows (VK_KHR_maintenance8).
 */
#include "../pipeline_binary.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Newer than the headers that this must build with. */
enum { TYPE_MAINTENANCE_8_FEATURES = 1000574000 };
typedef struct {
    VkStructureType sType;
    void *pNext;
    VkBool32 maintenance8;
} maintenance8_features;

static Program program;
static int rounds;
static atomic_int failures;

static void must(VkResult result)
{
    if (result)
        atomic_fetch_add(&failures, 1);
}

static VkPipelineCache new_cache(VkPipelineCacheCreateFlags flags)
{
    VkPipelineCache created = VK_NULL_HANDLE;
    must(create_cache(&program, flags, 0, NULL, &created));
    return created;
}

typedef struct {
    VkPipelineCache into, from;
    unsigned first;
} work;

static void *merge(void *argument)
{
    const work *what = argument;
    for (int i = 0; i < rounds; i++)
        must(vkMergePipelineCaches(program.device, what->into, 1, &what->from));
    return NULL;
}

static void *create_some(void *argument)
{
    const work *what = argument;
    for (unsigned i = 0; i < 16; i++)
        must(use_numbered(&program, what->into, (what->first + i) % 16));
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
        must(use_numbered(&program, i % 2 ? a : b, i));
    run(3, (thread_function[]){merge, merge, create_some},
        (work[]){{.into = a, .from = b}, {.into = b, .from = a}, {.first = 0}});
    vkDestroyPipelineCache(program.device, a, NULL);
    vkDestroyPipelineCache(program.device, b, NULL);
}

static void into_one(void)
{
    VkPipelineCache one = new_cache(VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR), a = new_cache(0),
                    b = new_cache(0);
    must(use_numbered(&program, a, 0));
    must(use_numbered(&program, b, 1));
    run(6, (thread_function[]){create_some, create_some, create_some, create_some, merge, merge},
        (work[]){{.into = one, .first = 0},
                 {.into = one, .first = 4},
                 {.into = one, .first = 8},
                 {.into = one, .first = 12},
                 {.into = one, .from = a},
                 {.into = one, .from = b}});
    vkDestroyPipelineCache(program.device, one, NULL);
    vkDestroyPipelineCache(program.device, a, NULL);
    vkDestroyPipelineCache(program.device, b, NULL);
}

int main(int count, char **arguments)
{
    maintenance8_features features = {(VkStructureType)TYPE_MAINTENANCE_8_FEATURES, NULL, VK_TRUE};
    const char *extension = "VK_KHR_maintenance8";
    Wanted usual = {0}, synchronized = {.features = &features, .extension_count = 1, .extensions = &extension};
    bool is_opposite = count > 1 && !strcmp(arguments[1], "opposite");
    rounds = count > 2 ? atoi(arguments[2]) : 200;
    if (open_program(&program, is_opposite ? &usual : &synchronized))
        return 1;
    if (is_opposite)
        opposite();
    else
        into_one();
    close_program(&program);
    return atomic_load(&failures) != 0;
}
