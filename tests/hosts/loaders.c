/* loaders.c - the Vulkan loader opened by hand, several times and more than one of it; steps inside of dlopen. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

typedef struct Opened {
    void *library;
    PFN_vkGetInstanceProcAddr get;
    VkInstance instance;
    VkDevice device;
} Opened;

#define GET(opened, name) ((PFN_##name)(opened)->get((opened)->instance, #name))

static VkResult open_loader(Opened *opened, const char *path)
{
    *opened = (Opened){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!opened->library)
        die("%s", dlerror());
    opened->get = (PFN_vkGetInstanceProcAddr)dlsym(opened->library, "vkGetInstanceProcAddr");
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkResult result = GET(opened, vkCreateInstance)(&info, NULL, &opened->instance);
    VkPhysicalDevice physical;
    uint32_t one = 1;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    if (result || (result = GET(opened, vkEnumeratePhysicalDevices)(opened->instance, &one, &physical)) < 0)
        return result;
    return GET(opened, vkCreateDevice)(physical, &device, NULL, &opened->device);
}

static VkResult create_and_close(Opened *opened, uint32_t size)
{
    PFN_vkGetDeviceProcAddr get = GET(opened, vkGetDeviceProcAddr);
#define DEVICE(name) ((PFN_##name)get(opened->device, #name))
    uint32_t code[] = {
        0x07230203, 0x00010000, 0,          6, 0,  0x00020011, 1, 0x0003000e, 0,          1, 0x0005000f, 5, 4,
        0x6e69616d, 0,          0x00060010, 4, 17, size,       1, 1,          0x00020013, 2, 0x00030021, 3, 2,
        0x00050036, 2,          4,          0, 3,  0x000200f8, 5, 0x000100fd, 0x00010038,
    };
    VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof code, .pCode = code};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .pName = "main"}};
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = DEVICE(vkCreateShaderModule)(opened->device, &module, NULL, &info.stage.module);
    if (!result)
        result = DEVICE(vkCreatePipelineLayout)(opened->device, &layout, NULL, &info.layout);
    if (!result)
        result = DEVICE(vkCreateComputePipelines)(opened->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    DEVICE(vkDestroyPipeline)(opened->device, pipeline, NULL);
    DEVICE(vkDestroyPipelineLayout)(opened->device, info.layout, NULL);
    DEVICE(vkDestroyShaderModule)(opened->device, info.stage.module, NULL);
    DEVICE(vkDestroyDevice)(opened->device, NULL);
    GET(opened, vkDestroyInstance)(opened->instance, NULL);
    dlclose(opened->library);
    return result;
}

/* reload LIBRARY TIMES: opened, used, closed, each time. */
static void step_reload(char **arguments)
{
    int wrong = 0;
    for (int i = atoi(arguments[1]); i > 0; i--) {
        Opened opened;
        wrong += open_loader(&opened, arguments[0]) != VK_SUCCESS || create_and_close(&opened, 8) != VK_SUCCESS;
    }
    say("reloads: %d wrong", wrong);
}

/* two-loaders ONE OTHER: both in use at the same time. */
static void step_two_loaders(char **arguments)
{
    Opened one, other;
    VkResult first = open_loader(&one, arguments[0]), second = open_loader(&other, arguments[1]);
    if (first || second)
        die("two loaders: %d %d", first, second);
    first = create_and_close(&one, 16);
    say("two loaders: %d %d", first, create_and_close(&other, 32));
}

/* ---- steps inside of dlopen (constructor.c) ------------------------------------------------------ */

static const char *inside_until; /* NULL: no steps */
static void *opened_library;
static sem_t is_inside, may_leave;
static bool beside;

__attribute__((visibility("default"))) void steps_inside(void);
void steps_inside(void)
{
    if (beside) {
        sem_post(&is_inside);
        sem_wait(&may_leave);
    } else if (inside_until) {
        rest_of_steps = run_steps(rest_of_steps, inside_until);
    }
}

static void *open_it(void *path)
{
    opened_library = dlopen(path, RTLD_NOW);
    if (!opened_library)
        die("%s", dlerror());
    return NULL;
}

static void skip_word(void)
{
    rest_of_steps += *rest_of_steps != NULL;
}

/* dlopen LIBRARY ... opened: the steps are run by its constructor. */
static void step_dlopen(char **arguments)
{
    inside_until = "opened";
    open_it(arguments[0]);
    inside_until = NULL;
    skip_word();
}

/* dlclose ... closed: the steps are run by its destructor. */
static void step_dlclose(char **unused)
{
    (void)unused;
    inside_until = "closed";
    dlclose(opened_library);
    inside_until = NULL;
    skip_word();
}

/* dlopen-beside LIBRARY ... opened: another thread is in its constructor until the steps have been run. */
static void step_dlopen_beside(char **arguments)
{
    pthread_t thread;
    beside = true;
    sem_init(&is_inside, 0, 0);
    sem_init(&may_leave, 0, 0);
    if (pthread_create(&thread, NULL, open_it, arguments[0]))
        die("no thread");
    sem_wait(&is_inside);
    rest_of_steps = run_steps(rest_of_steps, "opened");
    sem_post(&may_leave);
    pthread_join(thread, NULL);
    beside = false;
    skip_word();
}

const Step loader_steps[] = {
    {"dlopen", 1, step_dlopen}, {"dlclose", 0, step_dlclose},         {"dlopen-beside", 1, step_dlopen_beside},
    {"reload", 2, step_reload}, {"two-loaders", 2, step_two_loaders}, {0},
};
