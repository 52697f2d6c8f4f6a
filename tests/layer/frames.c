/*
 * frames FRAMES [OPTION=VALUE]... presents frames, and tells when: a line "frame SWAPCHAIN NUMBER BEFORE AFTER" for
 * each present, with the times right before and after the call. Every `every`-th frame creates pipelines, which takes
 * as long as the driver does: "compiles FRAME COUNT".
 *
 *   every=10     how often frames create pipelines; 0: never
 *   least=4      how many they create at least, and most=9 at most
 *   pace=1000    microseconds that other frames take
 *   by=present   who creates them: the thread that presents; loader: another one, for which the thread that presents waits;
 *                beside: another one, while frames are presented; the next ones come when it is done
 *   swapchains=1 as many are presented with each call
 *   recreate=0   the frame before which the swapchains are replaced, as a window's that was resized
 *   pause=0      milliseconds that the program waits before its last frame
 *   loop=0       presents this often at the end and prints the nanoseconds of each: "present NANOSECONDS"
 *   create=0     then creates as many pipelines and prints the nanoseconds of each: "pipeline NANOSECONDS"
 *   same=0       creates the same pipeline each time but the first, as 1
 *   passed=0     creates them so that the layer has no part in it, as 1
 *   devices=1    with 2, another device creates the pipelines
 *   generated=0  presents as many generated frames right after each other one. Frames are numbered with them
 *   api=1        the minor version of Vulkan
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

enum { MOST_SWAPCHAINS = 20 };

static Program program, creator;
static VkQueue queue;
static VkSurfaceKHR surface;
static VkSwapchainKHR swapchains[MOST_SWAPCHAINS];
static PFN_vkSetDebugUtilsObjectNameEXT set_name;
static int every = 10, least = 4, most = 9, pace = 1000, swapchain_count = 1, recreate, pause_ms, loop, creations, same,
           passed, devices = 1, generated, api = 1;
static const char *by = "present";

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void check(int result, const char *what)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, result);
    exit(2);
}

/* ---- pipelines ---- */

/* Each number is another shader. */
static void create(uint32_t number)
{
    uint32_t code[sizeof shader_code / sizeof *shader_code];
    memcpy(code, shader_code, sizeof code);
    code[GENERATOR_WORD] = number;
    VkShaderModuleCreateInfo info = shader_info;
    info.pCode = code;
    Program own = creator;
    check(vkCreateShaderModule(own.device, &info, NULL, &own.module), "vkCreateShaderModule");
    char text[32];
    snprintf(text, sizeof text, "water-%u.comp", number);
    VkDebugUtilsObjectNameInfoEXT named = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                           .objectType = VK_OBJECT_TYPE_SHADER_MODULE,
                                           .objectHandle = (uint64_t)own.module,
                                           .pObjectName = text};
    if (set_name)
        set_name(own.device, &named);
    VkComputePipelineCreateInfo compute = compute_info(&own);
    compute.flags = passed ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0;
    VkPipeline pipeline = VK_NULL_HANDLE;
    check(vkCreateComputePipelines(own.device, VK_NULL_HANDLE, 1, &compute, NULL, &pipeline), "create pipeline");
    vkDestroyPipeline(own.device, pipeline, NULL);
    vkDestroyShaderModule(own.device, own.module, NULL);
}

static int hitch(int frame)
{
    return least + (frame / every * 5) % (most - least + 1);
}

static void create_some(int frame)
{
    static uint32_t number;
    for (int i = hitch(frame); i > 0; i--)
        create(same && number ? 1 : ++number);
}

static sem_t asked, done;
static int asked_frame; /* 0: no more */

static void *load(void *unused)
{
    prctl(PR_SET_NAME, "loader");
    while (sem_wait(&asked) == 0 && asked_frame) {
        create_some(asked_frame);
        sem_post(&done);
    }
    return unused;
}

/* When what was asked for before is done. */
static void ask(int frame, int wait)
{
    sem_wait(&done);
    asked_frame = frame;
    sem_post(&asked);
    if (wait) {
        sem_wait(&done);
        sem_post(&done);
    }
}

/* ---- frames ---- */

static void make_swapchains(void)
{
    for (int i = 0; i < swapchain_count; i++) {
        VkSwapchainKHR old = swapchains[i];
        VkSwapchainCreateInfoKHR info = {
            .sType = VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR,
            .surface = surface,
            .minImageCount = 3,
            .imageFormat = VK_FORMAT_B8G8R8A8_UNORM,
            .imageExtent = {16, 16},
            .imageArrayLayers = 1,
            .imageUsage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT,
            .preTransform = VK_SURFACE_TRANSFORM_IDENTITY_BIT_KHR,
            .compositeAlpha = VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR,
            .presentMode = VK_PRESENT_MODE_FIFO_KHR,
            .oldSwapchain = old,
        };
        check(vkCreateSwapchainKHR(program.device, &info, NULL, &swapchains[i]), "vkCreateSwapchainKHR");
        vkDestroySwapchainKHR(program.device, old, NULL);
    }
}

static void present(int number)
{
    uint32_t images[MOST_SWAPCHAINS] = {0};
    for (int i = 0; i < swapchain_count && !loop; i++)
        check(vkAcquireNextImageKHR(program.device, swapchains[i], UINT64_MAX, VK_NULL_HANDLE, VK_NULL_HANDLE,
                                    &images[i]) < 0,
              "vkAcquireNextImageKHR");
    VkPresentInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PRESENT_INFO_KHR,
                             .swapchainCount = (uint32_t)swapchain_count,
                             .pSwapchains = swapchains,
                             .pImageIndices = images};
    uint64_t before = now();
    check(vkQueuePresentKHR(queue, &info) < 0, "vkQueuePresentKHR");
    uint64_t after = now();
    for (int i = 0; number && i < swapchain_count; i++)
        printf("frame %d %d %llu %llu\n", i + 1, number, (unsigned long long)before, (unsigned long long)after);
}

static void run(int frames)
{
    pthread_t loader;
    int number = 0;
    int loads = strcmp(by, "present") != 0;
    sem_init(&asked, 0, 0);
    sem_init(&done, 0, 1);
    if (loads)
        pthread_create(&loader, NULL, load, NULL);
    for (int frame = 1; frame <= frames; frame++) {
        if (frame == recreate)
            make_swapchains();
        if (frame == frames)
            usleep((useconds_t)pause_ms * 1000);
        if (every && frame > 1 && frame % every == 0) {
            printf("compiles %d %d\n", number + 1, hitch(frame));
            if (loads)
                ask(frame, strcmp(by, "loader") == 0);
            else
                create_some(frame);
        } else {
            usleep((useconds_t)pace);
        }
        for (int i = 0; i <= generated; i++)
            present(++number);
    }
    if (loads) {
        ask(0, 0);
        pthread_join(loader, NULL);
    }
}

static void start(void)
{
    const char *extensions[] = {VK_KHR_SURFACE_EXTENSION_NAME, VK_EXT_HEADLESS_SURFACE_EXTENSION_NAME,
                                VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    const char *extension = VK_KHR_SWAPCHAIN_EXTENSION_NAME;
    Wanted wanted = {.api = VK_MAKE_API_VERSION(0, 1, (uint32_t)api, 0),
                     .instance_extension_count = 3,
                     .instance_extensions = extensions,
                     .extension_count = 1,
                     .extensions = &extension};
    check(open_instance(&program, &wanted), "vkCreateInstance");
    PFN_vkCreateHeadlessSurfaceEXT create_surface =
        (PFN_vkCreateHeadlessSurfaceEXT)vkGetInstanceProcAddr(program.instance, "vkCreateHeadlessSurfaceEXT");
    VkHeadlessSurfaceCreateInfoEXT headless = {.sType = VK_STRUCTURE_TYPE_HEADLESS_SURFACE_CREATE_INFO_EXT};
    check(create_surface(program.instance, &headless, NULL, &surface), "vkCreateHeadlessSurfaceEXT");
    set_name =
        (PFN_vkSetDebugUtilsObjectNameEXT)vkGetInstanceProcAddr(program.instance, "vkSetDebugUtilsObjectNameEXT");
    check(open_device(&program, &wanted), "vkCreateDevice");
    creator = program;
    if (devices > 1)
        check(open_device(&creator, &wanted), "vkCreateDevice");
    vkGetDeviceQueue(program.device, 0, 0, &queue);
    check(open_layout(&creator), "vkCreatePipelineLayout");
    make_swapchains();
}

static void read_option(const char *text)
{
    static const struct {
        const char *name;
        int *number;
    } numbers[] = {
        {"every=", &every},     {"least=", &least},        {"most=", &most},      {"pace=", &pace},
        {"loop=", &loop},       {"recreate=", &recreate},  {"pause=", &pause_ms}, {"swapchains=", &swapchain_count},
        {"api=", &api},         {"create=", &creations},   {"same=", &same},      {"passed=", &passed},
        {"devices=", &devices}, {"generated=", &generated}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(text, numbers[i].name, length) == 0) {
            *numbers[i].number = atoi(text + length);
            return;
        }
    }
    check(strncmp(text, "by=", 3), text);
    by = text + 3;
}

int main(int argument_count, char **arguments)
{
    prctl(PR_SET_NAME, "render");
    int frames = argument_count > 1 ? atoi(arguments[1]) : 0, loops;
    for (int i = 2; i < argument_count; i++)
        read_option(arguments[i]);
    loops = loop;
    loop = 0;
    start();
    run(frames);
    loop = loops;
    uint64_t begin = now();
    for (int i = 0; i < loops; i++)
        present(0);
    if (loops)
        printf("present %.1f\n", (double)(now() - begin) / loops);
    begin = now();
    for (int i = 0; i < creations; i++)
        create(1);
    if (creations)
        printf("pipeline %.1f\n", (double)(now() - begin) / creations);
    vkDeviceWaitIdle(program.device);
    for (int i = 0; i < swapchain_count; i++)
        vkDestroySwapchainKHR(program.device, swapchains[i], NULL);
    vkDestroySurfaceKHR(program.instance, surface, NULL);
    if (devices > 1)
        vkDestroyDevice(program.device, NULL);
    close_program(&creator);
    return 0;
}
