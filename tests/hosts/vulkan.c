/* vulkan.c - an instance, a device, and small compute pipelines that differ in the size of their workgroup. */
#include "host.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../layer/program.h"
#include "../pipeline_binary.h"

VkDevice host_device;
static Program program;
static const char *layers[2];
static Wanted wanted_instance = {.layers = layers};
unsigned host_next_pipeline;

static void step_names(char **arguments)
{
    wanted_instance.application = arguments[0];
    wanted_instance.engine = arguments[1];
}

static void step_layer(char **arguments)
{
    layers[wanted_instance.layer_count++] = arguments[0];
}

/* Of the names and layers of the steps before. */
static void step_instance(char **unused)
{
    say("instance %d", open_instance(&program, &wanted_instance));
}

static void make_device(const void *features, const char *const *extensions, uint32_t extension_count)
{
    Wanted wanted = {.features = features, .extension_count = extension_count, .extensions = extensions};
    VkResult result = open_device(&program, &wanted);
    host_device = program.device;
    say("device %d", result);
}

static void step_device(char **unused)
{
    make_device(NULL, NULL, 0);
}

/* A device of another kind: of a program that uses pipeline binaries. */
static void step_binary_device(char **unused)
{
    static const char *const extensions[] = {"VK_KHR_create_renderpass2", "VK_KHR_depth_stencil_resolve",
                                             "VK_KHR_dynamic_rendering", "VK_KHR_maintenance5",
                                             "VK_KHR_pipeline_binary"};
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, .maintenance5 = VK_TRUE};
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR,
        .pNext = &maintenance,
        .pipelineBinaries = VK_TRUE};
    make_device(&binaries, extensions, sizeof extensions / sizeof *extensions);
}

/* The steps behind it are about another instance and device, the next ones behind `other` about these again. */
static void step_other(char **unused)
{
    static Program others;
    Program swapped = program;
    program = others;
    others = swapped;
    host_device = program.device;
}

static VkResult create_pipeline(unsigned number)
{
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    Program own = {.device = host_device};
    VkResult result = vkCreatePipelineLayout(host_device, &layout_info, NULL, &own.layout);
    if (!result)
        result = use_numbered(&own, host_cache, number);
    vkDestroyPipelineLayout(host_device, own.layout, NULL);
    return result;
}

VkResult host_create_pipelines(unsigned first, unsigned count)
{
    VkResult result = VK_SUCCESS;
    for (unsigned i = first; i < first + count && !result; i++)
        result = create_pipeline(i);
    return result;
}

/* The next so many that this process has not had. */
static void step_pipelines(char **arguments)
{
    unsigned count = (unsigned)atoi(arguments[0]);
    say("pipelines %d", host_create_pipelines(host_next_pipeline, count));
    host_next_pipeline += count;
}

/* The first so many, once more. */
static void step_again(char **arguments)
{
    say("again %d", host_create_pipelines(0, (unsigned)atoi(arguments[0])));
}

static void step_destroy_device(char **unused)
{
    vkDestroyDevice(host_device, NULL);
    host_device = program.device = VK_NULL_HANDLE;
    say("device destroyed");
}

static void step_destroy_instance(char **unused)
{
    vkDestroyInstance(program.instance, NULL);
    program = (Program){0};
    say("instance destroyed");
}

static const char *store_directory(void)
{
    return getenv("VK_INSTANCE_LAYERS") ? getenv("PYLAYER_STORE") : NULL;
}

/* Cells in a journal: how often their magic stands where a record may begin. */
static int cells_in(const char *path)
{
    static char content[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(content, 1, sizeof content, file) : 0;
    if (file)
        fclose(file);
    int cells = 0;
    for (size_t at = 0; at + 8 <= size; at += 8)
        cells += memcmp(content + at, "CELL", 4) == 0;
    return cells;
}

/* Until the layer's journal holds so many cells. Nothing to wait for without the layer. */
static void step_await_journal(char **arguments)
{
    const char *store = store_directory();
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/store/*/*.journal", store ? store : "");
    for (int i = 0; store && i < 20000; i++) {
        glob_t found;
        bool written = glob(pattern, 0, NULL, &found) == 0 && cells_in(found.gl_pathv[0]) >= atoi(arguments[0]);
        globfree(&found);
        if (written)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (store)
        die("no journal in %s", store);
}

/* What commands of VK_KHR_get_physical_device_properties2 say of the device and of pipeline binaries. */
static void print_properties(uint32_t api_version, uint32_t extension_count, const char *command)
{
    static const char *const extension = VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME;
    Program own = {0};
    if (open_instance(&own, &(Wanted){.api = api_version,
                                      .instance_extension_count = extension_count,
                                      .instance_extensions = &extension}))
        die("no instance");
    PFN_vkGetPhysicalDeviceProperties2KHR get_properties =
        (PFN_vkGetPhysicalDeviceProperties2KHR)vkGetInstanceProcAddr(own.instance, command);
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = extension_count ? &binary : NULL};
    if (get_properties)
        get_properties(own.physical, &properties);
    if (!extension_count)
        vkGetPhysicalDeviceProperties2(own.physical, &properties);
    say("%s internal=%u control=%u prefers=%u precompiled=%u compressed=%u", properties.properties.deviceName,
        binary.pipelineBinaryInternalCache, binary.pipelineBinaryInternalCacheControl,
        binary.pipelineBinaryPrefersInternalCache, binary.pipelineBinaryPrecompiledInternalCache,
        binary.pipelineBinaryCompressedData);
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    vkGetPhysicalDeviceFeatures2(own.physical, &features);
    say("%u", features.features.robustBufferAccess);
    vkDestroyInstance(own.instance, NULL);
}

/* On Vulkan 1.1 by both names; on 1.0 by the extension's, with the extension and, as some programs do, without: what is
 * found then may answer, and the loader's function has to. */
static void step_properties(char **unused)
{
    print_properties(VK_API_VERSION_1_1, 1, "vkGetPhysicalDeviceProperties2");
    print_properties(VK_API_VERSION_1_1, 1, "vkGetPhysicalDeviceProperties2KHR");
    print_properties(VK_API_VERSION_1_0, 1, "vkGetPhysicalDeviceProperties2KHR");
    print_properties(VK_API_VERSION_1_0, 0, "vkGetPhysicalDeviceProperties2KHR");
}

const Step vulkan_steps[] = {
    {"names", 2, step_names},
    {"layer", 1, step_layer},
    {"instance", 0, step_instance},
    {"device", 0, step_device},
    {"binary-device", 0, step_binary_device},
    {"other", 0, step_other},
    {"pipelines", 1, step_pipelines},
    {"again", 1, step_again},
    {"destroy-device", 0, step_destroy_device},
    {"destroy-instance", 0, step_destroy_instance},
    {"await-journal", 1, step_await_journal},
    {"properties", 0, step_properties},
    {0},
};
