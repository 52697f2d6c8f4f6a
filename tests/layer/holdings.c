/* holdings [APPLICATION [ENGINE]] - an instance of these names, a device and a compute pipeline; then what the process
 * holds, a line each: library FILE, thread NAME. */
#define _GNU_SOURCE
#include "device.h"
#include "shader.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static void print_libraries(void)
{
    char line[8192], last[8192] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        if (path && strcmp(path, last) != 0)
            printf("library %s", strcpy(last, path));
    }
    if (maps)
        fclose(maps);
}

static void print_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file && fgets(name, sizeof name, file))
            printf("thread %s", name);
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
}

int main(int count, char **arguments)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = count > 1 ? arguments[1] : NULL,
                                     .pEngineName = count > 2 ? arguments[2] : NULL,
                                     .apiVersion = VK_API_VERSION_1_1};
    VkInstance instance;
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    if (vkCreateInstance(&info, NULL, &instance))
        return 1;
    VkDevice device = create_device_on(instance, NULL, NULL);
    VkShaderModule module;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    if (!device || create_shader(device, &module, &layout) ||
        create_compute(device, VK_NULL_HANDLE, module, layout, "main", NULL, &pipeline))
        return 1;
    print_libraries();
    print_threads();
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, module, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
