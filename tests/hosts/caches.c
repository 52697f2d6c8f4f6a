/* caches.c - the program's own VkPipelineCache, with which pipelines are created once there is one. */
#include "host.h"

#include "../files.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* No more than that is in a cache without pipelines. */
enum { EMPTY_BYTES = 64, MOST_PARTS = 4096 };

VkPipelineCache host_cache;

/* With a file's data, or empty without the file. Returns how many bytes those are. */
static size_t load_cache(const char *path, VkResult *result)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    void *data = read_file(path, &info.initialDataSize);
    info.pInitialData = data;
    *result = vkCreatePipelineCache(host_device, &info, NULL, &host_cache);
    free(data);
    return info.initialDataSize;
}

/* As programs should: into a new file, which then takes the old one's place. */
static VkResult save_cache(const char *path)
{
    char temporary[4200];
    size_t size = 0;
    VkResult result = vkGetPipelineCacheData(host_device, host_cache, &size, NULL);
    void *data = malloc(size);
    if (!result)
        result = vkGetPipelineCacheData(host_device, host_cache, &size, data);
    snprintf(temporary, sizeof temporary, "%s.%d", path, getpid());
    write_file(temporary, data, size);
    if (rename(temporary, path))
        die("%s cannot be written", path);
    free(data);
    return result;
}

/* Says no size: the layer may have refused the data. */
static void step_load_cache(char **arguments)
{
    VkResult result;
    load_cache(arguments[0], &result);
    say("load-cache %d", result);
}

static void step_save_cache(char **arguments)
{
    say("save-cache %d", save_cache(arguments[0]));
}

/* caches DIRECTORY COUNT TURNS: loads so many caches, one after the other, creates another pipeline in each, and saves
 * it. A file's next turn may find what another process saved. Says how many were loaded, and how many of those were
 * empty at once. */
static void step_caches(char **arguments)
{
    unsigned count = (unsigned)atoi(arguments[1]), loaded = 0, emptied = 0;
    for (unsigned i = 0; i < count * (unsigned)atoi(arguments[2]); i++) {
        char name[4100];
        size_t found = 0;
        VkResult result;
        snprintf(name, sizeof name, "%s/%u.cache", arguments[0], i % count);
        size_t size = load_cache(name, &result);
        if (result || vkGetPipelineCacheData(host_device, host_cache, &found, NULL))
            die("no cache of %s", name);
        loaded += size > 0;
        emptied += size > 0 && found <= EMPTY_BYTES;
        if (host_create_pipelines(i % count, 1) || save_cache(name))
            die("nothing is saved in %s", name);
        vkDestroyPipelineCache(host_device, host_cache, NULL);
    }
    host_cache = VK_NULL_HANDLE;
    say("caches %u %u", loaded, emptied);
}

/* merge-caches DIRECTORY COUNT: loads so many caches, and merges all of them into the cache that pipelines are created
 * with. Says how many were empty at once. */
static void step_merge_caches(char **arguments)
{
    VkPipelineCache whole = host_cache, parts[MOST_PARTS];
    unsigned count = (unsigned)atoi(arguments[1]), emptied = 0;
    for (unsigned i = 0; i < count && i < MOST_PARTS; i++) {
        char name[4100];
        size_t found = 0;
        VkResult result;
        snprintf(name, sizeof name, "%s/%u.cache", arguments[0], i);
        if (load_cache(name, &result) == 0 || result || vkGetPipelineCacheData(host_device, host_cache, &found, NULL))
            die("no cache of %s", name);
        emptied += found <= EMPTY_BYTES;
        parts[i] = host_cache;
    }
    say("merged %d, %u empty", vkMergePipelineCaches(host_device, whole, count, parts), emptied);
    for (unsigned i = 0; i < count; i++)
        vkDestroyPipelineCache(host_device, parts[i], NULL);
    host_cache = whole;
}

static void *save_again(void *path)
{
    for (;;)
        save_cache(path);
    return NULL;
}

/* Again and again, in a thread that is still at it when main ends. Returns after the first time. */
static void step_save_beside(char **arguments)
{
    start_thread(save_again, arguments[0]);
    while (access(arguments[0], F_OK) != 0)
        usleep(1000);
}

static void *save_once(void *path)
{
    save_cache(path);
    return NULL;
}

/* In two threads at once. */
static void step_save_twice(char **arguments)
{
    pthread_t thread = start_thread(save_once, arguments[0]);
    save_cache(arguments[1]);
    pthread_join(thread, NULL);
}

static void step_destroy_cache(char **unused)
{
    vkDestroyPipelineCache(host_device, host_cache, NULL);
    host_cache = VK_NULL_HANDLE;
    say("cache destroyed");
}

const Step cache_steps[] = {
    {"load-cache", 1, step_load_cache},       {"save-cache", 1, step_save_cache},
    {"destroy-cache", 0, step_destroy_cache}, {"caches", 3, step_caches},
    {"merge-caches", 2, step_merge_caches},   {"save-beside", 1, step_save_beside},
    {"save-twice", 2, step_save_twice},       {0},
};
