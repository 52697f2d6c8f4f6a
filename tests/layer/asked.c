/* asked [LAYER]... - an instance with these layers in ppEnabledLayerNames, a device, and a compute pipeline. Prints what
 * vkCreateInstance returned, and afterwards how many threads the process has and whether a library of pylayer's private
 * Python is in it. */
#include "program.h"
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

static bool has_python(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found = found || strstr(line, "libpylayer-python") || strstr(line, "_policy.");
    if (maps)
        fclose(maps);
    return found;
}

int main(int count, char **arguments)
{
    Program program = {0};
    Wanted wanted = {.layer_count = (uint32_t)count - 1, .layers = (const char *const *)arguments + 1};
    VkResult result = open_instance(&program, &wanted);
    printf("result %d\n", result);
    if (result)
        return 0;
    if (open_device(&program, &wanted) || open_shader(&program) || use_compute(&program, VK_NULL_HANDLE, "main"))
        return 1;
    printf("threads %d\npython %d\n", threads(), has_python());
    close_program(&program);
    return 0;
}
