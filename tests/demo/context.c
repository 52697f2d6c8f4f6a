#include "context.h"

#include "../pipeline_binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- Instance --------------------------------------------------------------------------------------------------

bool uses_binaries(const Options *options)
{
    return options->source > SOURCE_PLAIN;
}

static bool needs_features2(const Options *options)
{
    return options->cache_control || options->features13 || options->kind == KIND_RAY_TRACING ||
           options->kind == KIND_LIBRARIES || uses_binaries(options);
}

void context_create_instance(Context *context, const Options *options)
{
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "pipelines",
        .applicationVersion = 1,
        .pEngineName = "demo",
        .apiVersion = options->api,
    };
    static const char *const features2 = VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME;
    // Part of Vulkan 1.1; before that, asking for a feature of an extension takes this one.
    bool extend = options->api < VK_API_VERSION_1_1 && needs_features2(options);
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &application,
        .enabledExtensionCount = extend ? 1 : 0,
        .ppEnabledExtensionNames = extend ? &features2 : NULL,
    };
    uint64_t start = now_ns();
    VkResult result = vkCreateInstance(&info, NULL, &context->instance);
    context->create_instance_ns = now_ns() - start;
    must(result, "vkCreateInstance");
}

// ---- Choice of the device --------------------------------------------------------------------------------------

static VkPhysicalDevice by_name(const VkPhysicalDevice *devices, uint32_t count, const char *wanted)
{
    char *end;
    unsigned long index = strtoul(wanted, &end, 10);
    if (*wanted && *end == '\0') {
        if (index >= count)
            die("no device %lu: there are %u", index, count);
        return devices[index];
    }
    for (uint32_t i = 0; i < count; ++i) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (strstr(properties.deviceName, wanted))
            return devices[i];
    }
    die("no device is called '%s'", wanted);
}

static VkPhysicalDevice first_gpu(const VkPhysicalDevice *devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU &&
            properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_OTHER)
            return devices[i];
    }
    return devices[0];
}

static void choose_device(Context *context, const Options *options)
{
    uint32_t count = 16;
    VkPhysicalDevice devices[16];
    VkResult result = vkEnumeratePhysicalDevices(context->instance, &count, devices);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        die("vkEnumeratePhysicalDevices: VkResult %d", result);
    if (count == 0)
        die("no Vulkan device");
    context->physical = options->device ? by_name(devices, count, options->device) : first_gpu(devices, count);
    vkGetPhysicalDeviceProperties(context->physical, &context->properties);
    uint32_t device_api = context->properties.apiVersion;
    context->api = options->api < device_api ? options->api : device_api;
    if (options->features13 && context->api < VK_API_VERSION_1_3)
        die("--features13: %s has no Vulkan 1.3", context->properties.deviceName);
}

// ---- Extensions and features -----------------------------------------------------------------------------------

static bool device_has(VkPhysicalDevice physical, const char *name)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    VkExtensionProperties *all = allocate(count, sizeof *all);
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    bool found = false;
    for (uint32_t i = 0; i < count; ++i)
        found = found || strcmp(all[i].extensionName, name) == 0;
    free(all);
    return found;
}

// What the command line needs of a device.
typedef struct {
    bool wanted;
    const char *extension;
    uint32_t version;     // of Vulkan, from which on it is no extension; 0: there is none
    VkStructureType type; // of the struct whose first feature is needed; 0: none is
} Need;

enum { NEEDS = 13 };

static void list_needs(const Options *options, Need needs[NEEDS])
{
#define FEATURES(name) VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##name
    bool libraries = options->kind == KIND_LIBRARIES, rays = options->kind == KIND_RAY_TRACING;
    bool binaries = uses_binaries(options);
    const uint32_t v12 = VK_API_VERSION_1_2, v13 = VK_API_VERSION_1_3;
    const Need all[NEEDS] = {
        {options->feedback, VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME, v13, 0},
        // VUID-VkDeviceCreateInfo-pNext-06532: the struct of Vulkan 1.3 or this one, never both.
        {options->cache_control && !options->features13, VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME, v13,
         FEATURES(PIPELINE_CREATION_CACHE_CONTROL_FEATURES)},
        {libraries, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, 0, 0},
        {libraries, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME, 0,
         FEATURES(GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT)},
        // VUID-vkCreateDevice-ppEnabledExtensionNames-01387: with all that they build on.
        {rays, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME, 0, FEATURES(RAY_TRACING_PIPELINE_FEATURES_KHR)},
        {rays, VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME, 0, FEATURES(ACCELERATION_STRUCTURE_FEATURES_KHR)},
        {rays, VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME, 0, 0},
        {rays, VK_KHR_SPIRV_1_4_EXTENSION_NAME, v12, 0},
        {rays, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, v12, 0},
        {rays, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, v12, FEATURES(BUFFER_DEVICE_ADDRESS_FEATURES)},
        {rays, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME, v12, 0},
        {binaries, VK_KHR_MAINTENANCE_5_EXTENSION_NAME, 0, FEATURES(MAINTENANCE_5_FEATURES_KHR)},
        {binaries, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, 0, FEATURES(PIPELINE_BINARY_FEATURES_KHR)},
    };
    memcpy(needs, all, sizeof all);
}

// What is enabled. Every struct of features is like `one`, with as many of the members as it has.
typedef struct {
    const char *extensions[NEEDS];
    uint32_t extension_count;
    VkPhysicalDeviceFeatures2 all;
    VkPhysicalDeviceVulkan13Features vulkan13;
    struct {
        VkStructureType sType;
        void *pNext;
        VkBool32 members[8];
    } one[NEEDS];
} Request;

static void chain(Request *request, void *structure, VkStructureType type)
{
    VkBaseOutStructure *base = structure;
    base->sType = type;
    base->pNext = request->all.pNext;
    request->all.pNext = base;
}

static void query_features(const Context *context, Request *request)
{
    const char *name =
        context->api < VK_API_VERSION_1_1 ? "vkGetPhysicalDeviceFeatures2KHR" : "vkGetPhysicalDeviceFeatures2";
    PFN_vkGetPhysicalDeviceFeatures2 query =
        (PFN_vkGetPhysicalDeviceFeatures2)vkGetInstanceProcAddr(context->instance, name);
    if (!query)
        die("no %s", name);
    query(context->physical, &request->all);
    memset(&request->all.features, 0, sizeof request->all.features);
}

// Of what there is, only this is enabled. So much of a struct are features.
static void enable_one(const Context *context, VkBool32 *feature, void *features, size_t size, const char *name)
{
    if (!*feature)
        die("%s has no feature of %s", context->properties.deviceName, name);
    memset(features, 0, size);
    *feature = VK_TRUE;
}

static void choose(const Context *context, const Options *options, Request *request)
{
    Need needs[NEEDS];
    list_needs(options, needs);
    if (options->features13)
        chain(request, &request->vulkan13, FEATURES(VULKAN_1_3_FEATURES));
    for (int i = 0; i < NEEDS; ++i) {
        if (needs[i].wanted && needs[i].type)
            chain(request, &request->one[i], needs[i].type);
        if (!needs[i].wanted || (needs[i].version && context->api >= needs[i].version))
            continue;
        if (!device_has(context->physical, needs[i].extension))
            die("%s has no %s", context->properties.deviceName, needs[i].extension);
        request->extensions[request->extension_count++] = needs[i].extension;
    }
    if (!needs_features2(options))
        return;
    request->all.sType = FEATURES(FEATURES_2);
    query_features(context, request);
    for (int i = 0; i < NEEDS; ++i)
        if (request->one[i].sType)
            enable_one(context, request->one[i].members, request->one[i].members, sizeof request->one[i].members,
                       needs[i].extension);
    VkBool32 *control = &request->vulkan13.pipelineCreationCacheControl, *first = &request->vulkan13.robustImageAccess;
    size_t size = sizeof request->vulkan13 - offsetof(VkPhysicalDeviceVulkan13Features, robustImageAccess);
    if (options->features13 && options->cache_control)
        enable_one(context, control, first, size, "Vulkan 1.3");
    else
        memset(first, 0, size);
}

// ---- Device ----------------------------------------------------------------------------------------------------

static void describe_driver(Context *context, const Options *options)
{
    if (context->api < VK_API_VERSION_1_2 &&
        !(context->api >= VK_API_VERSION_1_1 &&
          device_has(context->physical, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))) {
        snprintf(context->driver, sizeof context->driver, "vendor 0x%x, driver version 0x%x",
                 context->properties.vendorID, context->properties.driverVersion);
        return;
    }
    VkPhysicalDeviceRayTracingPipelinePropertiesKHR rays = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_PROPERTIES_KHR};
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                               .pNext = options->kind == KIND_RAY_TRACING ? &rays : NULL};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &driver};
    vkGetPhysicalDeviceProperties2(context->physical, &properties);
    snprintf(context->driver, sizeof context->driver, "%s, %s", driver.driverName, driver.driverInfo);
    context->ray_recursion = rays.maxRayRecursionDepth < 2 ? rays.maxRayRecursionDepth : 2;
}

void context_create_device(Context *context, const Options *options)
{
    choose_device(context, options);
    describe_driver(context, options);
    Request request = {.extension_count = 0};
    choose(context, options, &request);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = request.all.sType ? &request.all : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = request.extension_count,
        .ppEnabledExtensionNames = request.extensions,
    };
    const VkDevicePipelineBinaryInternalCacheControlKHR no_cache = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR,
        .pNext = info.pNext,
        .disableInternalCache = VK_TRUE};
    if (uses_binaries(options) && options->disable_internal_cache)
        info.pNext = &no_cache;
    uint64_t start = now_ns();
    VkResult result = vkCreateDevice(context->physical, &info, NULL, &context->device);
    context->create_device_ns = now_ns() - start;
    must(result, "vkCreateDevice");
    if (options->kind != KIND_RAY_TRACING)
        return;
#define COMMAND(member, name) context->member = (PFN_##name)vkGetDeviceProcAddr(context->device, #name)
    COMMAND(create_ray_tracing_pipelines, vkCreateRayTracingPipelinesKHR);
    COMMAND(create_deferred_operation, vkCreateDeferredOperationKHR);
    COMMAND(deferred_operation_join, vkDeferredOperationJoinKHR);
    COMMAND(get_deferred_operation_result, vkGetDeferredOperationResultKHR);
    COMMAND(destroy_deferred_operation, vkDestroyDeferredOperationKHR);
#undef COMMAND
}

void context_destroy(Context *context)
{
    vkDestroyDevice(context->device, NULL);
    vkDestroyInstance(context->instance, NULL);
}
