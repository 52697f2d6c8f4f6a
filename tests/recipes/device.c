/* device.c - the instance, and a device with the features that words name, such as a recipe's first line. */
#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void must(VkResult result, const char *call)
{
    if (result != VK_SUCCESS)
        die("%s: VkResult %d", call, result);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die("no memory");
    return memory;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- features ------------------------------------------------------------------------------------------------ */

/* Every feature struct is this, with as many members as it has. */
enum { MOST_MEMBERS = 20, MAX_EXTENSIONS = 2 * FEATURE_COUNT };
typedef struct FeatureStruct {
    VkStructureType sType;
    void *pNext;
    VkBool32 members[MOST_MEMBERS];
} FeatureStruct;

#define TYPE(name) VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##name
#define CORE_13(name) offsetof(VkPhysicalDeviceVulkan13Features, name)

/* The feature structs that the word asks for, all of which the driver must have. */
typedef struct Row {
    const char *word;
    Feature feature;
    const char *extension; /* NULL: none with Vulkan 1.3 */
    VkStructureType type;
    uint32_t least;   /* so many members must be there */
    uint32_t enabled; /* so many are enabled, where the driver has them */
    size_t core;      /* of Vulkan 1.3: the first member in VkPhysicalDeviceVulkan13Features */
    uint32_t version; /* of Vulkan, which needs no such extension any more; 0: there is none */
} Row;

/* The words of a line `device` are those of rows and core_rows, and
 *   all, without=WORD,...  everything but rays, layouts, binaries, maintenance8, and these
 *   extension=NAME         an extension more, which has no features
 *   off=WORD,...           extensions of which the features are not enabled
 *   least                  of each extension the features that it must have, and no more
 *   separate               Vulkan 1.3's features by a struct each
 *   modules                with a module of each shader, for elements of which the recipe has made none
 *   slots, group           with VkDevicePrivateDataCreateInfo, VkDeviceGroupDeviceCreateInfo
 *   no-internal-cache      with VkDevicePipelineBinaryInternalCacheControlKHR
 *   unasked-identifiers    pipelines may have identifiers although the extension is not enabled
 *   vulkan14               with a VkPhysicalDeviceVulkan14Features that enables nothing
 *   unknown=N              with a structure that nobody knows, behind N of the others
 *   allocator              everything with allocation callbacks */
static const Row rows[] = {
    {"control", CONTROL_FEATURE, VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME,
     TYPE(PIPELINE_CREATION_CACHE_CONTROL_FEATURES), 1, 1, CORE_13(pipelineCreationCacheControl), VK_API_VERSION_1_3},
    {"rendering", RENDERING, NULL, TYPE(DYNAMIC_RENDERING_FEATURES), 1, 1, CORE_13(dynamicRendering), 0},
    {"subgroups", SUBGROUPS, NULL, TYPE(SUBGROUP_SIZE_CONTROL_FEATURES), 1, 2, CORE_13(subgroupSizeControl), 0},
    {"private", PRIVATE_DATA, NULL, TYPE(PRIVATE_DATA_FEATURES), 1, 1, CORE_13(privateData), 0},
    {"multiview", MULTIVIEW, NULL, TYPE(MULTIVIEW_FEATURES), 1, 3, 0, 0},
    {"libraries", LIBRARIES, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME,
     TYPE(GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT), 1, 1, 0, 0},
    {"robustness", ROBUSTNESS, VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME, TYPE(PIPELINE_ROBUSTNESS_FEATURES_EXT), 1, 1,
     0, 0},
    /* VUID-VkPipelineRobustnessCreateInfo-robustBufferAccess2-06931: that it is supported will do. */
    {"robustness2", ROBUSTNESS_2, VK_EXT_ROBUSTNESS_2_EXTENSION_NAME, TYPE(ROBUSTNESS_2_FEATURES_EXT), 1, 0, 0, 0},
    {"executables", EXECUTABLES, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
     TYPE(PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR), 1, 1, 0, 0},
    {"mesh", MESH_SHADERS, VK_EXT_MESH_SHADER_EXTENSION_NAME, TYPE(MESH_SHADER_FEATURES_EXT), 2, 2, 0, 0},
    {"identifiers", IDENTIFIERS, VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME,
     TYPE(SHADER_MODULE_IDENTIFIER_FEATURES_EXT), 1, 1, 0, 0},
    {"maintenance5", MAINTENANCE_5, VK_KHR_MAINTENANCE_5_EXTENSION_NAME, TYPE(MAINTENANCE_5_FEATURES_KHR), 1, 1, 0, 0},
    {"shader-objects", SHADER_OBJECTS, "VK_EXT_shader_object", TYPE_SHADER_OBJECT_FEATURES, 1, 1, 0, 0},
    {"local-read", LOCAL_READ, "VK_KHR_dynamic_rendering_local_read", TYPE_LOCAL_READ_FEATURES, 1, 1, 0, 0},
    {"heap", DESCRIPTOR_HEAP, "VK_EXT_descriptor_heap", TYPE_DESCRIPTOR_HEAP_FEATURES, 1, 1, 0, 0},
    {"binaries", BINARIES, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, TYPE(PIPELINE_BINARY_FEATURES_KHR), 1, 1, 0, 0},
    {"maintenance8", MAINTENANCE_8, "VK_KHR_maintenance8", TYPE_MAINTENANCE_8_FEATURES, 1, 1, 0, 0},
    {"layouts", LAYOUTS, VK_EXT_MUTABLE_DESCRIPTOR_TYPE_EXTENSION_NAME, TYPE(MUTABLE_DESCRIPTOR_TYPE_FEATURES_EXT), 1,
     1, 0, 0},
    {"layouts", LAYOUTS, VK_EXT_CUSTOM_BORDER_COLOR_EXTENSION_NAME, TYPE(CUSTOM_BORDER_COLOR_FEATURES_EXT), 1, 1, 0, 0},
    {"layouts", LAYOUTS, VK_EXT_DESCRIPTOR_BUFFER_EXTENSION_NAME, TYPE(DESCRIPTOR_BUFFER_FEATURES_EXT), 1, 1, 0, 0},
    {"layouts", LAYOUTS, NULL, TYPE(SAMPLER_YCBCR_CONVERSION_FEATURES), 1, 1, 0, 0},
    {"layouts", LAYOUTS, NULL, TYPE(DESCRIPTOR_INDEXING_FEATURES), 0, 20, 0, 0},
    {"layouts", LAYOUTS, NULL, TYPE(BUFFER_DEVICE_ADDRESS_FEATURES), 1, 1, 0, 0},
    {"layouts", LAYOUTS, NULL, TYPE(INLINE_UNIFORM_BLOCK_FEATURES), 1, 1, CORE_13(inlineUniformBlock), 0},
    {"rays", RAYS, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME, TYPE(RAY_TRACING_PIPELINE_FEATURES_KHR), 1, 5, 0, 0},
    {"rays", RAYS, VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME, TYPE(ACCELERATION_STRUCTURE_FEATURES_KHR), 1, 1, 0, 0},
    {"rays", RAYS, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, TYPE(BUFFER_DEVICE_ADDRESS_FEATURES), 1, 1, 0,
     VK_API_VERSION_1_2},
};

static const struct {
    const char *word;
    Feature feature;
    size_t member; /* of VkPhysicalDeviceFeatures */
} core_rows[] = {
    {"int64", INT64, offsetof(VkPhysicalDeviceFeatures, shaderInt64)},
    {"tessellation", TESSELLATION, offsetof(VkPhysicalDeviceFeatures, tessellationShader)},
    {"geometry", GEOMETRY_SHADERS, offsetof(VkPhysicalDeviceFeatures, geometryShader)},
    {"vertex-stores", VERTEX_STORES, offsetof(VkPhysicalDeviceFeatures, vertexPipelineStoresAndAtomics)},
    {"fragment-stores", FRAGMENT_STORES, offsetof(VkPhysicalDeviceFeatures, fragmentStoresAndAtomics)},
};

/* Extensions without features, which those of the left side need. */
static const struct {
    Feature feature;
    const char *extension;
    uint32_t version; /* as in rows */
} needed[] = {
    {LIBRARIES, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, 0},
    {RAYS, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME, 0},
    {LAYOUTS, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, 0},
    {LAYOUTS, VK_EXT_SAMPLER_FILTER_MINMAX_EXTENSION_NAME, 0},
    {RAYS, VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME, 0},
    {RAYS, VK_KHR_SPIRV_1_4_EXTENSION_NAME, VK_API_VERSION_1_2},
    {RAYS, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_API_VERSION_1_2},
    {RAYS, VK_EXT_DESCRIPTOR_INDEXING_EXTENSION_NAME, VK_API_VERSION_1_2},
};

static VkBool32 *member_at(void *structure, size_t offset)
{
    return (VkBool32 *)(void *)((char *)structure + offset);
}

/* ---- what the driver has ----------------------------------------------------------------------------------------- */

/* A vkCreateDevice call that grows. */
typedef struct Request {
    const Words *words;
    uint32_t api;
    FeatureStruct structs[COUNT_OF(rows)];
    VkPhysicalDeviceVulkan13Features core;
    VkPhysicalDeviceFeatures2 base;
    struct {
        VkBaseOutStructure head;
        VkBool32 members[32]; /* more than it has */
    } vulkan14;
    VkBaseOutStructure unknown;
    const char *extensions[MAX_EXTENSIONS];
    uint32_t extension_count;
    void *chain;
} Request;

static void chain(Request *request, void *structure)
{
    VkBaseOutStructure *node = structure;
    node->pNext = request->chain;
    request->chain = node;
}

static bool is_wanted(const Request *request, const char *word, Feature feature)
{
    const char *without = words_value(request->words, "without");
    if (without && listed(without, word))
        return false;
    if (words_value(request->words, word) || (words_value(request->words, "all") && feature < NOT_IN_ALL))
        return true;
    return feature == MAINTENANCE_5 && words_value(request->words, "binaries"); /* which cannot do without */
}

static bool is_extension(const Request *request, const char *name, uint32_t version)
{
    return name && (!version || request->api < version);
}

static bool is_listed(const char *name, uint32_t count, const VkExtensionProperties *all)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].extensionName, name) == 0)
            return true;
    return false;
}

/* Fills the structs of what is wanted and listed with what the driver has; the others have no type. */
static void query(Device *device, Request *request)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL);
    VkExtensionProperties *all = allocate(count + 1, sizeof *all);
    vkEnumerateDeviceExtensionProperties(device->physical, NULL, &count, all);
    request->base.sType = TYPE(FEATURES_2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool extends = is_extension(request, rows[i].extension, rows[i].version);
        if (!is_wanted(request, rows[i].word, rows[i].feature) ||
            (extends && !is_listed(rows[i].extension, count, all)))
            continue;
        request->structs[i].sType = rows[i].type;
        request->structs[i].pNext = request->base.pNext;
        request->base.pNext = &request->structs[i];
    }
    free(all);
    PFN_vkGetPhysicalDeviceFeatures2 get = (PFN_vkGetPhysicalDeviceFeatures2)vkGetInstanceProcAddr(
        device->instance,
        request->api < VK_API_VERSION_1_1 ? "vkGetPhysicalDeviceFeatures2KHR" : "vkGetPhysicalDeviceFeatures2");
    if (get)
        get(device->physical, &request->base);
}

static void note_what_is_there(Device *device, const Request *request)
{
    bool lacks[FEATURE_COUNT] = {false};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        device->has[rows[i].feature] = true;
        for (uint32_t member = 0; member < rows[i].least; member++)
            lacks[rows[i].feature] |= !request->structs[i].members[member];
    }
    for (int i = 0; i < FEATURE_COUNT; i++)
        device->has[i] &= !lacks[i];
    device->has[IDENTIFIERS] &= device->has[CONTROL_FEATURE];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].feature != MULTIVIEW)
            continue;
        device->has[VIEW_GEOMETRY] = request->structs[i].members[1];
        device->has[VIEW_TESSELLATION] = request->structs[i].members[2];
    }
}

/* ---- what is enabled --------------------------------------------------------------------------------------------- */

static void add_extension(Request *request, const char *name, uint32_t version)
{
    for (uint32_t i = 0; i < request->extension_count; i++)
        if (name && strcmp(request->extensions[i], name) == 0)
            return;
    if (is_extension(request, name, version))
        request->extensions[request->extension_count++] = name;
}

/* Vulkan 1.3's features by their own structs, or by the one for all: either has to survive what a layer adds. With
 * off=FEATURE,... an extension is there and its features are off; recipes do as if these were on. */
static void enable(Device *device, Request *request)
{
    bool separate = words_value(request->words, "separate") != NULL, least = words_value(request->words, "least");
    const char *off = words_value(request->words, "off");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FeatureStruct *one = &request->structs[i];
        if (!one->sType || !device->has[rows[i].feature])
            continue;
        add_extension(request, rows[i].extension, rows[i].version);
        uint32_t enabled = off && listed(off, rows[i].word) ? 0 : least ? rows[i].least : rows[i].enabled;
        memset(&one->members[enabled], 0, (MOST_MEMBERS - enabled) * sizeof(VkBool32));
        if (rows[i].core && !separate)
            memcpy(member_at(&request->core, rows[i].core), one->members, rows[i].enabled * sizeof(VkBool32));
        else
            chain(request, one);
    }
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (device->has[needed[i].feature])
            add_extension(request, needed[i].extension, needed[i].version);
    add_extension(request, words_value(request->words, "extension"), 0);
    request->core.sType = TYPE(VULKAN_1_3_FEATURES);
    if (!separate)
        chain(request, &request->core);
    request->vulkan14.head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES;
    if (words_value(request->words, "vulkan14"))
        chain(request, &request->vulkan14);
}

/* Nothing else of Vulkan 1.0: robust access for all pipelines would make those alike that differ in it, and drivers'
 * keys depend on what is enabled. */
static void enable_core(Device *device, Request *request)
{
    VkPhysicalDeviceFeatures wanted = {0};
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(core_rows); i++) {
        bool there = *member_at(&request->base.features, core_rows[i].member) &&
                     is_wanted(request, core_rows[i].word, core_rows[i].feature);
        *member_at(&wanted, core_rows[i].member) = there;
        device->has[core_rows[i].feature] = there;
        any |= there;
    }
    request->base.features = wanted;
    if (any)
        chain(request, &request->base);
}

static void insert_unknown(Request *request)
{
    VkBaseOutStructure *before = NULL, *behind = request->chain;
    for (uint32_t place = words_number(request->words, "unknown", 0); behind && place > 0; place--) {
        before = behind;
        behind = behind->pNext;
    }
    request->unknown = (VkBaseOutStructure){.sType = TYPE_UNKNOWN, .pNext = behind};
    if (before)
        before->pNext = &request->unknown;
    else
        request->chain = &request->unknown;
}

static VkResult create(Device *device, Request *request)
{
    VkDevicePipelineBinaryInternalCacheControlKHR no_cache = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, .disableInternalCache = VK_TRUE};
    VkDevicePrivateDataCreateInfo slots = {.sType = VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO,
                                           .privateDataSlotRequestCount = 1};
    VkDeviceGroupDeviceCreateInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO,
                                           .physicalDeviceCount = 1,
                                           .pPhysicalDevices = &device->physical};
    device->no_internal_cache = device->has[BINARIES] && words_value(request->words, "no-internal-cache");
    if (device->no_internal_cache)
        chain(request, &no_cache);
    if (device->has[PRIVATE_DATA] && words_value(request->words, "slots"))
        chain(request, &slots);
    if (words_value(request->words, "group"))
        chain(request, &group);
    if (words_value(request->words, "unknown"))
        insert_unknown(request);
    Request before;
    memcpy(&before, request, sizeof before);
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = request->chain,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = request->extension_count,
                               .ppEnabledExtensionNames = request->extensions};
    uint64_t start = now_ns();
    VkResult result = vkCreateDevice(device->physical, &info, device->allocator, &device->handle);
    device->device_ns = now_ns() - start;
    if (memcmp(&before, request, sizeof before) != 0)
        die("vkCreateDevice changed what it was given");
    return result;
}

/* ---- commands ------------------------------------------------------------------------------------------ */

static void resolve(Device *device)
{
    Commands *commands = &device->commands;
#define RESOLVE(type, member, name) commands->member = (type)vkGetDeviceProcAddr(device->handle, #name);
    COMMANDS(RESOLVE)
    /* Drivers have commands of extensions whose features are off, or have them not. */
    device->has[BINARIES] &= commands->destroy_binary != NULL;
}

VkRayTracingShaderGroupCreateInfoKHR ray_group(bool hit, uint32_t stage)
{
    return (VkRayTracingShaderGroupCreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_RAY_TRACING_SHADER_GROUP_CREATE_INFO_KHR,
        .type = hit ? VK_RAY_TRACING_SHADER_GROUP_TYPE_TRIANGLES_HIT_GROUP_KHR
                    : VK_RAY_TRACING_SHADER_GROUP_TYPE_GENERAL_KHR,
        .generalShader = hit ? VK_SHADER_UNUSED_KHR : stage,
        .closestHitShader = hit ? stage : VK_SHADER_UNUSED_KHR,
        .anyHitShader = VK_SHADER_UNUSED_KHR,
        .intersectionShader = VK_SHADER_UNUSED_KHR,
    };
}

VkResult join_to_the_end(const Device *device, VkDeferredOperationKHR operation)
{
    VkResult result = VK_THREAD_IDLE_KHR;
    while (result == VK_THREAD_IDLE_KHR)
        result = device->commands.join_deferred(device->handle, operation);
    return result;
}

typedef struct Join {
    const Device *device;
    VkDeferredOperationKHR operation;
    pthread_t thread;
} Join;

static void *join(void *argument)
{
    const Join *join = argument;
    allocator_allow_thread();
    return (void *)(intptr_t)join_to_the_end(join->device, join->operation);
}

bool join_with_threads(const Device *device, VkDeferredOperationKHR operation, uint32_t threads)
{
    Join *joins = allocate(threads, sizeof *joins);
    for (uint32_t i = 1; i < threads; i++) {
        joins[i] = (Join){.device = device, .operation = operation};
        if (pthread_create(&joins[i].thread, NULL, join, &joins[i]))
            die("no more threads");
    }
    bool complete = join_to_the_end(device, operation) == VK_SUCCESS;
    for (uint32_t i = 1; i < threads; i++) {
        void *result;
        pthread_join(joins[i].thread, &result);
        complete |= (VkResult)(intptr_t)result == VK_SUCCESS;
    }
    free(joins);
    return complete;
}

/* ---- the instance, and the device ----------------------------------------------------------------------------- */

void instance_create(Device *device, const VkApplicationInfo *application, const char *extension,
                     const VkAllocationCallbacks *allocator)
{
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = application,
                                 .enabledExtensionCount = extension ? 1 : 0,
                                 .ppEnabledExtensionNames = &extension};
    uint64_t start = now_ns();
    must(vkCreateInstance(&info, allocator, &device->instance), "vkCreateInstance");
    device->instance_ns = now_ns() - start;
    device->api = application->apiVersion;
}

bool is_gpu(const VkPhysicalDeviceProperties *properties)
{
    return properties->deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU &&
           properties->deviceType != VK_PHYSICAL_DEVICE_TYPE_OTHER;
}

static VkPhysicalDevice choose(const VkPhysicalDevice *devices, uint32_t count, const char *wanted)
{
    char *end = NULL;
    unsigned long number = wanted ? strtoul(wanted, &end, 10) : 0;
    if (wanted && *wanted && *end == '\0' && number < count)
        return devices[number];
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (wanted ? strstr(properties.deviceName, wanted) != NULL : is_gpu(&properties))
            return devices[i];
    }
    if (wanted || count == 0)
        die("no Vulkan device '%s'", wanted ? wanted : "");
    return devices[0];
}

void device_choose(Device *device, const char *wanted)
{
    VkPhysicalDevice devices[16];
    uint32_t count = COUNT_OF(devices);
    if (vkEnumeratePhysicalDevices(device->instance, &count, devices) < 0)
        count = 0;
    device->physical = choose(devices, count, wanted);
    VkPhysicalDeviceDriverProperties driver = {.sType = TYPE(DRIVER_PROPERTIES)};
    VkPhysicalDeviceRayTracingPipelinePropertiesKHR rays = {.sType = TYPE(RAY_TRACING_PIPELINE_PROPERTIES_KHR),
                                                            .pNext = &driver};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {.sType = TYPE(SUBGROUP_SIZE_CONTROL_PROPERTIES),
                                                           .pNext = &rays};
    VkPhysicalDeviceProperties2 properties = {.sType = TYPE(PROPERTIES_2), .pNext = &sizes};
    vkGetPhysicalDeviceProperties(device->physical, &device->properties);
    if (device->properties.apiVersion < device->api)
        device->api = device->properties.apiVersion;
    if (device->api >= VK_API_VERSION_1_1)
        vkGetPhysicalDeviceProperties2(device->physical, &properties);
    device->least_subgroup = sizes.minSubgroupSize;
    device->largest_subgroup = sizes.maxSubgroupSize;
    device->handle_size = rays.shaderGroupHandleSize;
    device->replay_handle_size = rays.shaderGroupHandleCaptureReplaySize;
    device->most_recursion = rays.maxRayRecursionDepth;
    if (driver.driverName[0])
        snprintf(device->driver, sizeof device->driver, "%s, %s", driver.driverName, driver.driverInfo);
    else
        snprintf(device->driver, sizeof device->driver, "vendor 0x%x, driver version 0x%x", device->properties.vendorID,
                 device->properties.driverVersion);
}

VkResult device_create(Device *device, const Words *words)
{
    Request request = {.words = words, .api = device->api};
    device->allocator = words_value(words, "allocator") ? allocator_begin() : NULL;
    device->unasked_identifiers = words_value(words, "unasked-identifiers");
    query(device, &request);
    note_what_is_there(device, &request);
    enable(device, &request);
    enable_core(device, &request);
    VkResult result = create(device, &request);
    if (result == VK_SUCCESS)
        resolve(device);
    return result;
}

void device_destroy(Device *device)
{
    vkDestroyDevice(device->handle, device->allocator);
    device->handle = VK_NULL_HANDLE;
    device->allocator = NULL;
}
