/*
 * driver.c - see fuzz.h. Instances, devices and caches; pipelines are in pipelines.c.
 *
 * What it is given must be what a valid program could have said, or what the program said: handles that live, no cache
 * merged into itself, allocations of the size that was asked for.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

unsigned live_objects[OBJECT_KINDS];

typedef struct Dispatchable {
    void *table;
} Dispatchable;

/* The loader's table pointer is the dispatch key: one for an instance and its physical device, another for a device. */
static Dispatchable instance_object, physical_object, device_object;
VkPhysicalDevice driver_physical_device;

/* ---- objects ------------------------------------------------------------------------------------ */

Object *object_new(enum ObjectKind kind)
{
    Object *object = calloc(1, sizeof *object);
    if (!object)
        abort();
    object->kind = kind;
    live_objects[kind]++;
    return object;
}

/* Memory that is freed is the sanitizer's to see. */
Object *object_of(uint64_t handle, enum ObjectKind kind)
{
    Object *object = (Object *)(uintptr_t)handle;
    expect(object && object->kind == kind, "a handle of another kind");
    return object;
}

void object_free(uint64_t handle, enum ObjectKind kind)
{
    if (!handle)
        return;
    free(object_of(handle, kind));
    live_objects[kind]--;
}

VkResult sometimes_fails(void)
{
    static const VkResult errors[] = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY,
                                      VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_DEVICE_LOST, VK_ERROR_UNKNOWN};
    return chance(1) ? errors[below(5)] : VK_SUCCESS;
}

/* ---- instance ----------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *,
                                                      VkInstance *instance)
{
    touch(info, sizeof *info);
    chain_touch(info->pNext);
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        touch(info->ppEnabledExtensionNames[i], strlen(info->ppEnabledExtensionNames[i]) + 1);
    VkResult result = sometimes_fails();
    if (result != VK_SUCCESS)
        return result;
    instance_object.table = physical_object.table = &instance_object;
    driver_physical_device = (VkPhysicalDevice)(void *)&physical_object;
    *instance = (VkInstance)(void *)&instance_object;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance, const VkAllocationCallbacks *)
{
}

static const uint32_t versions[] = {VK_API_VERSION_1_0, VK_API_VERSION_1_1, VK_API_VERSION_1_2, VK_API_VERSION_1_3,
                                    VK_MAKE_API_VERSION(0, 1, 4, 0)};

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice, VkPhysicalDeviceProperties *properties)
{
    properties->apiVersion = chance(1) ? take32() : versions[4 - below(5)];
    properties->driverVersion = take8();
    memset(properties->deviceName, 'x', sizeof properties->deviceName - chance(15));
    properties->deviceName[sizeof properties->deviceName - 1] = 0;
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    get_properties(physical, &properties->properties);
    VkPhysicalDevicePipelineBinaryPropertiesKHR *binary = (void *)(uintptr_t)pnext_find(
        properties->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR);
    if (!binary)
        return;
    binary->pipelineBinaryInternalCache = chance(8);
    binary->pipelineBinaryInternalCacheControl = chance(8);
    binary->pipelineBinaryCompressedData = chance(8);
}

static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *features)
{
    for (VkBaseOutStructure *node = features->pNext; node; node = node->pNext)
        *(VkBool32 *)(void *)((char *)node + sizeof *node) = !chance(3);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice, const char *, uint32_t *count,
                                                           VkExtensionProperties *properties)
{
    static const char *const names[] = {"VK_EXT_pipeline_creation_cache_control", "VK_EXT_pipeline_creation_feedback",
                                        "VK_KHR_pipeline_binary", "VK_KHR_maintenance5"};
    uint32_t missing = below(5);
    uint32_t there = 4 - (missing == 4 ? 4 : 0);
    if (!properties) {
        *count = there;
        return sometimes_fails();
    }
    uint32_t written = *count < there ? *count : there;
    for (uint32_t i = 0; i < written; i++)
        strcpy(properties[i].extensionName, missing && i == missing ? "VK_other" : names[i]);
    *count = written;
    return written < there ? VK_INCOMPLETE : VK_SUCCESS;
}

/* ---- device ------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *, VkDevice *device)
{
    touch(info, sizeof *info);
    chain_touch(info->pNext);
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        touch(info->ppEnabledExtensionNames[i], strlen(info->ppEnabledExtensionNames[i]) + 1);
    VkResult result = chance(2) ? VK_ERROR_FEATURE_NOT_PRESENT : VK_SUCCESS;
    if (result == VK_SUCCESS) {
        device_object.table = &device_object;
        *device = (VkDevice)(void *)&device_object;
    }
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice, const VkAllocationCallbacks *)
{
    for (int kind = 0; kind < OBJECT_KINDS; kind++)
        expect(live_objects[kind] == 0, "the device goes before its objects");
}

/* ---- caches ------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice, const VkPipelineCacheCreateInfo *info,
                                                   const VkAllocationCallbacks *, VkPipelineCache *cache)
{
    touch(info, sizeof *info);
    touch(info->pInitialData, info->initialDataSize);
    VkResult result = sometimes_fails();
    *cache = result == VK_SUCCESS ? (VkPipelineCache)object_new(OBJECT_CACHE) : VK_NULL_HANDLE;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_cache(VkDevice, VkPipelineCache cache, const VkAllocationCallbacks *)
{
    object_free((uint64_t)cache, OBJECT_CACHE);
}

/* The size changes from call to call, and what is written may be less. */
static VKAPI_ATTR VkResult VKAPI_CALL get_cache_data(VkDevice, VkPipelineCache cache, size_t *size, void *data)
{
    object_of((uint64_t)cache, OBJECT_CACHE);
    VkResult result = sometimes_fails();
    if (result != VK_SUCCESS)
        return result;
    size_t there = chance(4) ? take8() : 32;
    if (!data) {
        *size = there;
        return VK_SUCCESS;
    }
    bool incomplete = *size < there;
    *size = incomplete ? *size - chance(4) * (*size > 0) : there;
    memset(data, take8(), *size);
    return incomplete ? VK_INCOMPLETE : VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL merge_caches(VkDevice, VkPipelineCache into, uint32_t count,
                                                   const VkPipelineCache *sources)
{
    object_of((uint64_t)into, OBJECT_CACHE);
    expect(count > 0, "VUID-vkMergePipelineCaches-srcCacheCount-arraylength");
    for (uint32_t i = 0; i < count; i++) {
        object_of((uint64_t)sources[i], OBJECT_CACHE);
        expect(sources[i] != into, "VUID-vkMergePipelineCaches-dstCache-00770");
    }
    return sometimes_fails();
}

/* ---- modules ------------------------------------------------------------------------------------ */

static VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice, const VkShaderModuleCreateInfo *info,
                                                    const VkAllocationCallbacks *, VkShaderModule *module)
{
    touch(info->pCode, info->codeSize);
    VkResult result = sometimes_fails();
    *module = result == VK_SUCCESS ? (VkShaderModule)object_new(OBJECT_MODULE) : VK_NULL_HANDLE;
    return result;
}

static VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice, VkShaderModule module, const VkAllocationCallbacks *)
{
    object_free((uint64_t)module, OBJECT_MODULE);
}

static void fill_identifier(VkShaderModuleIdentifierEXT *identifier)
{
    identifier->identifierSize = chance(1) ? take32() : 1 + below(32);
    identifier->identifier[0] = take8();
}

static VKAPI_ATTR void VKAPI_CALL module_identifier(VkDevice, VkShaderModule module, VkShaderModuleIdentifierEXT *to)
{
    object_of((uint64_t)module, OBJECT_MODULE);
    fill_identifier(to);
}

static VKAPI_ATTR void VKAPI_CALL code_identifier(VkDevice, const VkShaderModuleCreateInfo *info,
                                                  VkShaderModuleIdentifierEXT *to)
{
    touch(info->pCode, info->codeSize);
    fill_identifier(to);
}

/* ---- names -------------------------------------------------------------------------------------- */

static const Name instance_names[] = {
    NAME("vkCreateInstance", create_instance),
    NAME("vkDestroyInstance", destroy_instance),
    NAME("vkGetPhysicalDeviceProperties", get_properties),
    NAME("vkGetPhysicalDeviceProperties2", get_properties2),
    NAME("vkGetPhysicalDeviceProperties2KHR", get_properties2),
    NAME("vkGetPhysicalDeviceFeatures2", get_features2),
    NAME("vkGetPhysicalDeviceFeatures2KHR", get_features2),
    NAME("vkEnumerateDeviceExtensionProperties", enumerate_extensions),
    NAME("vkCreateDevice", create_device),
    {NULL, NULL},
};

static const Name device_names[] = {
    NAME("vkDestroyDevice", destroy_device),
    NAME("vkCreatePipelineCache", create_cache),
    NAME("vkDestroyPipelineCache", destroy_cache),
    NAME("vkGetPipelineCacheData", get_cache_data),
    NAME("vkMergePipelineCaches", merge_caches),
    NAME("vkCreateShaderModule", create_module),
    NAME("vkDestroyShaderModule", destroy_module),
    NAME("vkGetShaderModuleIdentifierEXT", module_identifier),
    NAME("vkGetShaderModuleCreateInfoIdentifierEXT", code_identifier),
    {NULL, NULL},
};

static PFN_vkVoidFunction find(const Name *names, const char *name)
{
    while (names->name && strcmp(names->name, name) != 0)
        names++;
    return names->function;
}

PFN_vkVoidFunction VKAPI_CALL driver_device_function(VkDevice device, const char *name)
{
    PFN_vkVoidFunction found = find(device_names, name);
    return found ? found : find(pipeline_names, name);
}

PFN_vkVoidFunction VKAPI_CALL driver_instance_function(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction found = find(instance_names, name);
    return found ? found : driver_device_function(VK_NULL_HANDLE, name);
}
