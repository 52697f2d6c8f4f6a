/*
 * cache_reads FILE [again]: creates a pipeline in a cache and reads its data as programs do: the size, all of it twice,
 * and with a buffer that is too small. Writes both results to FILE, creates a second cache from it and reads that too.
 * 'again' does only this last step, with what FILE holds.
 */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>

static unsigned char data[1 << 16], other[1 << 16];

static int write_file(const char *name, size_t size, size_t small)
{
    FILE *file = fopen(name, "wb");
    return !file || fwrite(data, 1, size, file) != size || fwrite(other, 1, small, file) != small || fclose(file);
}

static size_t read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file)
        fclose(file);
    return size;
}

/* How many bytes of data there are; 0: something failed. */
static size_t fill_and_read(const Program *program, const char *name)
{
    VkDevice device = program->device;
    VkPipelineCache cache;
    if (create_cache(program, 0, 0, NULL, &cache) || use_compute(program, cache, "main"))
        return 0;
    size_t size, again = sizeof other, small;
    if (vkGetPipelineCacheData(device, cache, &size, NULL) || size > sizeof data)
        return 0;
    small = size - 1;
    if (vkGetPipelineCacheData(device, cache, &size, data) || vkGetPipelineCacheData(device, cache, &again, other) ||
        vkGetPipelineCacheData(device, cache, &small, other) != VK_INCOMPLETE || write_file(name, size, small))
        return 0;
    vkDestroyPipelineCache(device, cache, NULL);
    return size;
}

int main(int count, char **arguments)
{
    Program program = {0};
    if (count < 2 || open_program(&program, &(Wanted){0}))
        return 1;
    size_t size = count == 2 ? fill_and_read(&program, arguments[1]) : read_file(arguments[1]), again = sizeof other;
    VkPipelineCache cache;
    if (size == 0 || create_cache(&program, 0, size, data, &cache) ||
        vkGetPipelineCacheData(program.device, cache, &again, other))
        return 1;
    printf("%zu %zu\n", size, again);
    vkDestroyPipelineCache(program.device, cache, NULL);
    close_program(&program);
    return 0;
}
