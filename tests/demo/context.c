#include "context.h"

#include "../pipeline_binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_EXTENSIONS = 16 };

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
    if (result != VK_SUCCESS)
        die("vkCreateInstance: VkResult %d", result);
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

typedef struct {
    const char *names[MAX_EXTENSIONS];
    uint32_t count;
} Extensions;

static bool device_has(VkPhysicalDevice physical, const char *name)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    VkExtensionProperties *all = calloc(count + 1, sizeof *all);
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    bool found = false;
    for (uint32_t i = 0; i < count; ++i)
        found = found || strcmp(all[i].extensionName, name) == 0;
    free(all);
    return found;
}

static void require(const Context *context, Extensions *extensions, const char *name)
{
    if (!device_has(context->physical, name))
        die("%s has no %s", context->properties.deviceName, name);
    extensions->names[extensions->count++] = name;
}

// An extension that became part of a Vulkan version.
static void require_before(const Context *context, Extensions *extensions, uint32_t version, const char *name)
{
    if (context->api < version)
        require(context, extensions, name);
}

static Extensions choose_extensions(const Context *context, const Options *options)
{
    Extensions e = {.count = 0};
    if (options->feedback)
        require_before(context, &e, VK_API_VERSION_1_3, VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME);
    if (options->cache_control)
        require_before(context, &e, VK_API_VERSION_1_3, VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME);
    if (options->kind == KIND_LIBRARIES) {
        require(context, &e, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME);
        require(context, &e, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME);
    }
    if (options->kind == KIND_RAY_TRACING) {
        // VUID-vkCreateDevice-ppEnabledExtensionNames-01387: with all that they build on.
        require(context, &e, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME);
        require(context, &e, VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME);
        require(context, &e, VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME);
        require_before(context, &e, VK_API_VERSION_1_2, VK_KHR_SPIRV_1_4_EXTENSION_NAME);
        require_before(context, &e, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME);
        require_before(context, &e, VK_API_VERSION_1_2, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
        require_before(context, &e, VK_API_VERSION_1_2, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME);
    }
    if (uses_binaries(options)) {
        require(context, &e, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
        require(context, &e, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
    }
    return e;
}

typedef struct {
    VkPhysicalDeviceVulkan13Features vulkan13;
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control;
    VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT libraries;
    VkPhysicalDeviceRayTracingPipelineFeaturesKHR ray_tracing;
    VkPhysicalDeviceAccelerationStructureFeaturesKHR acceleration;
    VkPhysicalDeviceBufferDeviceAddressFeatures addresses;
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5;
    VkPhysicalDevicePipelineBinaryFeaturesKHR binaries;
    VkPhysicalDeviceFeatures2 features2;
} Features;

static void chain(Features *features, void *structure, VkStructureType type)
{
    VkBaseOutStructure *base = structure;
    base->sType = type;
    base->pNext = features->features2.pNext;
    features->features2.pNext = base;
}

// The feature structs of what the command line asks for, with nothing in them yet.
static void chain_features(const Options *options, Features *f)
{
    memset(f, 0, sizeof *f);
    f->features2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    // VUID-VkDeviceCreateInfo-pNext-06532: the one struct or the other, never both.
    if (options->features13)
        chain(f, &f->vulkan13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
    else if (options->cache_control)
        chain(f, &f->cache_control, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES);
    if (options->kind == KIND_LIBRARIES)
        chain(f, &f->libraries, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT);
    if (options->kind == KIND_RAY_TRACING) {
        chain(f, &f->ray_tracing, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_FEATURES_KHR);
        chain(f, &f->acceleration, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ACCELERATION_STRUCTURE_FEATURES_KHR);
        chain(f, &f->addresses, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES);
    }
    if (uses_binaries(options)) {
        chain(f, &f->maintenance5, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR);
        chain(f, &f->binaries, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR);
    }
}

static void query_features(const Context *context, Features *features)
{
    const char *name =
        context->api < VK_API_VERSION_1_1 ? "vkGetPhysicalDeviceFeatures2KHR" : "vkGetPhysicalDeviceFeatures2";
    PFN_vkGetPhysicalDeviceFeatures2 query =
        (PFN_vkGetPhysicalDeviceFeatures2)vkGetInstanceProcAddr(context->instance, name);
    if (!query)
        die("no %s", name);
    query(context->physical, &features->features2);
}

static VkBool32 wanted(const Context *context, bool ask, VkBool32 supported, const char *name)
{
    if (ask && !supported)
        die("%s has no feature %s", context->properties.deviceName, name);
    return ask;
}

static void choose_features(const Context *context, const Options *options, Features *enabled)
{
    Features have;
    chain_features(options, &have);
    query_features(context, &have);
    chain_features(options, enabled);
    bool control = options->cache_control, rays = options->kind == KIND_RAY_TRACING;
    enabled->vulkan13.pipelineCreationCacheControl =
        wanted(context, control && options->features13, have.vulkan13.pipelineCreationCacheControl,
               "pipelineCreationCacheControl");
    enabled->cache_control.pipelineCreationCacheControl =
        wanted(context, control && !options->features13, have.cache_control.pipelineCreationCacheControl,
               "pipelineCreationCacheControl");
    enabled->libraries.graphicsPipelineLibrary = wanted(
        context, options->kind == KIND_LIBRARIES, have.libraries.graphicsPipelineLibrary, "graphicsPipelineLibrary");
    enabled->ray_tracing.rayTracingPipeline =
        wanted(context, rays, have.ray_tracing.rayTracingPipeline, "rayTracingPipeline");
    enabled->acceleration.accelerationStructure =
        wanted(context, rays, have.acceleration.accelerationStructure, "accelerationStructure");
    enabled->addresses.bufferDeviceAddress =
        wanted(context, rays, have.addresses.bufferDeviceAddress, "bufferDeviceAddress");
    enabled->maintenance5.maintenance5 =
        wanted(context, uses_binaries(options), have.maintenance5.maintenance5, "maintenance5");
    enabled->binaries.pipelineBinaries =
        wanted(context, uses_binaries(options), have.binaries.pipelineBinaries, "pipelineBinaries");
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
    Extensions extensions = choose_extensions(context, options);
    Features features = {.features2.pNext = NULL};
    bool chained = needs_features2(options);
    if (chained)
        choose_features(context, options, &features);
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = chained ? &features.features2 : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = extensions.count,
        .ppEnabledExtensionNames = extensions.names,
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
    if (result != VK_SUCCESS)
        die("vkCreateDevice: VkResult %d", result);
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
