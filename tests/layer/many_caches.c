/*
 * many_caches DIRECTORY COUNT TURNS: loads COUNT caches from the files of DIRECTORY, one after the other, creates a
 * pipeline in each, and saves them as programs should: into a new file, which then takes the old one's place. All of that
 * TURNS times. Each cache's pipeline is another one; a file's next turn may find what another process saved.
 * Prints how many caches were loaded, and how many of those were empty at once.
 */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EMPTY_BYTES = 64, MOST_BYTES = 1 << 20 };

static unsigned char data[MOST_BYTES];

static size_t read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file)
        fclose(file);
    return size;
}

static int write_file(const char *name, size_t size)
{
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.%d", name, getpid());
    FILE *file = fopen(temporary, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        return 1;
    return rename(temporary, name);
}

static unsigned loaded, emptied;

static void use_cache(const Program *program, const char *directory, unsigned number)
{
    char name[4100];
    snprintf(name, sizeof name, "%s/%u.cache", directory, number);
    size_t size = read_file(name), found = 0;
    VkPipelineCache cache;
    if (create_cache(program, 0, size, size ? data : NULL, &cache) ||
        vkGetPipelineCacheData(program->device, cache, &found, NULL))
        exit(3);
    loaded += size > 0;
    emptied += size > 0 && found <= EMPTY_BYTES;
    if (use_numbered(program, cache, number))
        exit(4);
    size = sizeof data;
    if (vkGetPipelineCacheData(program->device, cache, &size, data) || write_file(name, size))
        exit(5);
    vkDestroyPipelineCache(program->device, cache, NULL);
}

int main(int count, char **arguments)
{
    Program program = {0};
    if (count != 4 || open_program(&program, &(Wanted){0}))
        return 1;
    for (int turn = 0; turn < atoi(arguments[3]); turn++)
        for (int number = 0; number < atoi(arguments[2]); number++)
            use_cache(&program, arguments[1], (unsigned)number);
    printf("%u %u\n", loaded, emptied);
    close_program(&program);
    return 0;
}
