/*
 * What vkCreatePipelineCache and vkGetPipelineCacheData take with data of an application: caches FILE TIMES. Prints one
 * JSON object. Each cache is made from the file's data, read as a whole, and destroyed.
 */
#define _POSIX_C_SOURCE 199309L
#include "../layer/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        return NULL;
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size);
    if (data && fread(data, 1, *size, file) != *size)
        data = NULL;
    fclose(file);
    return data;
}

int main(int count, char **arguments)
{
    size_t size = 0, read;
    if (count != 3)
        return 2;
    void *data = read_file(arguments[1], &size);
    int times = atoi(arguments[2]);
    VkInstance instance;
    VkDevice device = create_device(VK_API_VERSION_1_1, &instance);
    if (!data || !device)
        return 1;
    char *room = malloc(size + size / 2);
    printf("{\"bytes\": %zu, \"each\": [", size);
    for (int i = 0; i < times; i++) {
        VkPipelineCache cache;
        VkPipelineCacheCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = data};
        unsigned long long start = now_ns();
        if (vkCreatePipelineCache(device, &info, NULL, &cache))
            return 1;
        unsigned long long created = now_ns();
        read = size + size / 2;
        if (vkGetPipelineCacheData(device, cache, &read, room))
            return 1;
        unsigned long long got = now_ns();
        vkDestroyPipelineCache(device, cache, NULL);
        printf("%s{\"create_ns\": %llu, \"get_ns\": %llu, \"read\": %zu}", i ? ", " : "", created - start,
               got - created, read);
    }
    unsigned long long start = now_ns();
    vkDestroyDevice(device, NULL);
    printf("], \"destroy_device_ns\": %llu}\n", now_ns() - start);
    vkDestroyInstance(instance, NULL);
    return 0;
}
