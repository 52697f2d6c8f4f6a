/* caches.c - the program's own VkPipelineCache, with which pipelines are created once there is one. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

VkPipelineCache host_cache;

/* With a file's data, or empty without the file. Says no size: the layer may have refused the data. */
static void step_load_cache(char **arguments)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    FILE *file = fopen(arguments[0], "rb");
    void *data = NULL;
    if (file) {
        fseek(file, 0, SEEK_END);
        info.initialDataSize = (size_t)ftell(file);
        rewind(file);
        data = malloc(info.initialDataSize);
        if (!data || fread(data, 1, info.initialDataSize, file) != info.initialDataSize)
            die("%s cannot be read", arguments[0]);
        fclose(file);
        info.pInitialData = data;
    }
    say("load-cache %d", vkCreatePipelineCache(host_device, &info, NULL, &host_cache));
    free(data);
}

static void step_save_cache(char **arguments)
{
    size_t size = 0;
    VkResult result = vkGetPipelineCacheData(host_device, host_cache, &size, NULL);
    void *data = malloc(size);
    if (!result)
        result = vkGetPipelineCacheData(host_device, host_cache, &size, data);
    FILE *file = fopen(arguments[0], "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        die("%s cannot be written", arguments[0]);
    say("save-cache %d", result);
    free(data);
}

static char *file_at_exit, *file_in_destructor;

static void save_at_exit(void)
{
    step_save_cache(&file_at_exit);
}

static void step_save_at_exit(char **arguments)
{
    file_at_exit = arguments[0];
    atexit(save_at_exit);
}

/* Runs after every handler of exit() that was registered since the program started. */
__attribute__((destructor)) static void save_in_destructor(void)
{
    if (file_in_destructor)
        step_save_cache(&file_in_destructor);
}

static void step_save_in_destructor(char **arguments)
{
    file_in_destructor = arguments[0];
}

static void step_destroy_cache(char **unused)
{
    (void)unused;
    vkDestroyPipelineCache(host_device, host_cache, NULL);
    host_cache = VK_NULL_HANDLE;
    say("cache destroyed");
}

const Step cache_steps[] = {
    {"load-cache", 1, step_load_cache},       {"save-cache", 1, step_save_cache},
    {"save-at-exit", 1, step_save_at_exit},   {"save-in-destructor", 1, step_save_in_destructor},
    {"destroy-cache", 0, step_destroy_cache}, {0},
};
