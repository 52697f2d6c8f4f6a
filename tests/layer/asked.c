/* asked [LAYER]... - an instance with these layers in ppEnabledLayerNames, a device, and a compute pipeline. Prints what
 * vkCreateInstance returned, and afterwards how many threads the process has and whether a library of pylayer's private
 * Python is in it. */
#include "device.h"
#include "shader.h"
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
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application,
                                 .enabledLayerCount = (uint32_t)count - 1,
                                 .ppEnabledLayerNames = (const char *const *)arguments + 1};
    VkInstance instance;
    VkResult result = vkCreateInstance(&info, NULL, &instance);
    printf("result %d\n", result);
    if (result)
        return 0;
    VkDevice device = create_device_on(instance, NULL, NULL);
    VkShaderModule module;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    if (!device || create_shader(device, &module, &layout) ||
        create_compute(device, VK_NULL_HANDLE, module, layout, "main", NULL, &pipeline))
        return 1;
    printf("threads %d\npython %d\n", threads(), has_python());
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
