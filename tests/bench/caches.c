/*
 * What vkCreatePipelineCache and vkGetPipelineCacheData take with data of an application: caches FILE NEW_FILE. Makes a
 * cache of FILE's data, reads it as a whole twice, and writes NEW_FILE, as a game does at its end. Prints one JSON
 * object. It waits before, so that nothing that starts with the device is counted.
 */
#define _POSIX_C_SOURCE 199309L
#include "../layer/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static unsigned long long read_cache(VkDevice device, VkPipelineCache cache, void *room, size_t *size)
{
    unsigned long long start = now_ns();
    if (vkGetPipelineCacheData(device, cache, size, room))
        exit(1);
    return now_ns() - start;
}

int main(int count, char **arguments)
{
    size_t size = 0;
    if (count != 3)
        return 2;
    void *data = read_file(arguments[1], &size);
    Program program = {0};
    if (!data || open_program(&program, &(Wanted){0}))
        return 1;
    VkDevice device = program.device;
    size_t room_size = size + size / 2, got = room_size, again = room_size;
    char *room = malloc(room_size);
    if (!room)
        return 1;
    memset(room, 0, room_size);
    struct timespec pause = {0, 300000000};
    nanosleep(&pause, NULL);
    VkPipelineCache cache;
    unsigned long long start = now_ns();
    if (create_cache(&program, 0, size, data, &cache))
        return 1;
    unsigned long long create_ns = now_ns() - start;
    unsigned long long get_ns = read_cache(device, cache, room, &got);
    unsigned long long again_ns = read_cache(device, cache, room, &again);
    FILE *file = fopen(arguments[2], "wb");
    if (!file || fwrite(room, 1, again, file) != again || fclose(file))
        return 1;
    vkDestroyPipelineCache(device, cache, NULL);
    vkDestroyPipelineLayout(device, program.layout, NULL);
    vkDestroyShaderModule(device, program.module, NULL);
    start = now_ns();
    vkDestroyDevice(device, NULL);
    printf("{\"bytes\": %zu, \"read\": %zu, \"create_ns\": %llu, \"get_ns\": %llu, \"second_get_ns\": %llu, "
           "\"destroy_device_ns\": %llu}\n",
           size, got, create_ns, get_ns, again_ns, now_ns() - start);
    vkDestroyInstance(program.instance, NULL);
    return 0;
}
