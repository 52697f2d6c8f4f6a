/* Two instances with a device each, alive at once, each creating the same compute pipeline. With an argument
 * it says how many threads the process has at the end. With "different" the second device enables
 * pipelineCreationCacheControl. */
#include "program.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static int count_threads(void)
{
    int count = -2; /* . and .. */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

int main(int argc, char **argv)
{
    VkPhysicalDevicePipelineCreationCacheControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES_EXT,
        .pipelineCreationCacheControl = VK_TRUE};
    const char *extension = VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME;
    Wanted usual = {0}, configured = {.features = &control, .extension_count = 1, .extensions = &extension};
    Program programs[2] = {{0}};
    if (open_program(&programs[0], &usual) ||
        open_program(&programs[1], argc > 1 && strcmp(argv[1], "different") == 0 ? &configured : &usual) ||
        use_compute(&programs[1], VK_NULL_HANDLE, "main") || use_compute(&programs[0], VK_NULL_HANDLE, "main"))
        return 1;
    /* Not in the order of creation. */
    close_program(&programs[0]);
    if (use_compute(&programs[1], VK_NULL_HANDLE, "main"))
        return 1;
    close_program(&programs[1]);
    puts("two instances, two devices");
    if (argc > 1)
        printf("threads: %d\n", count_threads());
    return 0;
}
