/*
 * compile_beside none|shared|main|found: a driver whose first compile lasts until something else was done (tests/driver) shows
 * who waits for a compile.
 *
 * shared: two threads with one VkPipelineCache, each creates a pipeline of its own twice. Whoever compiles first is done
 * when the other has found its pipeline again.
 * none: a thread creates a pipeline without a cache, and until it is done another one fills caches and destroys them.
 * main: a pipeline without a cache.
 * found: while a thread creates that pipeline, another one creates a second one twice, without a cache and
 * then with one, and prints how many bytes the cache has then, and an empty one.
 */
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static Program program;
static VkPipelineCache cache;
static atomic_bool done;
static atomic_int failures;

static void create(VkPipelineCache with, const char *name)
{
    if (use_compute(&program, with, name))
        atomic_fetch_add(&failures, 1);
}

static void *create_twice(void *name)
{
    create(cache, name);
    create(cache, name);
    atomic_store(&done, true);
    return NULL;
}

static void *create_main(void *unused)
{
    create(VK_NULL_HANDLE, "main");
    return unused;
}

static VkPipelineCache new_cache(void)
{
    VkPipelineCache created = VK_NULL_HANDLE;
    if (create_cache(&program, 0, 0, NULL, &created))
        atomic_fetch_add(&failures, 1);
    return created;
}

static size_t size_of(VkPipelineCache one)
{
    size_t size = 0;
    vkGetPipelineCacheData(program.device, one, &size, NULL);
    return size;
}

static int create_found(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, create_main, NULL))
        return 1;
    VkPipelineCache own = new_cache(), empty = new_cache();
    create(VK_NULL_HANDLE, "twin");
    create(own, "twin");
    printf("%zu %zu\n", size_of(own), size_of(empty));
    pthread_join(thread, NULL);
    vkDestroyPipelineCache(program.device, own, NULL);
    vkDestroyPipelineCache(program.device, empty, NULL);
    close_program(&program);
    return atomic_load(&failures) != 0;
}

int main(int count, char **arguments)
{
    if (count != 2 || open_program(&program, &(Wanted){0}))
        return 1;
    if (!strcmp(arguments[1], "found"))
        return create_found();
    if (!strcmp(arguments[1], "main")) {
        create_main(NULL);
        close_program(&program);
        return atomic_load(&failures) != 0;
    }
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
        vkDestroyPipelineCache(program.device, one, NULL);
    }
    pthread_join(thread, NULL);
    vkDestroyPipelineCache(program.device, cache, NULL);
    close_program(&program);
    printf("failures %d\n", atomic_load(&failures));
    return atomic_load(&failures) != 0;
}
