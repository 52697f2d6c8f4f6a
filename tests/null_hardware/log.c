/* What reaches the driver of instances, devices and pipelines: one line a call, of words and key=value pairs. */
#include "null_hardware.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers that this must build with. */
#define TYPE_PIPELINE_BINARY_FEATURES 1000483000
typedef struct {
    VkStructureType sType;
    const void *pNext;
    const void *keys_and_data;
    VkPipeline pipeline;
    const void *pipeline_create_info;
} binary_create_info;
typedef VkResult(VKAPI_PTR *PFN_create_binaries)(VkDevice, const binary_create_info *, const VkAllocationCallbacks *,
                                                 void *);
typedef VkResult(VKAPI_PTR *PFN_get_key)(VkDevice, const void *, void *);

static int log_file = -1;

__attribute__((constructor)) static void open_log(void)
{
    const char *value = getenv("NULL_HARDWARE_LOG");
    if (!value || !*value)
        return;
    log_file = strcmp(value, "1") == 0 ? STDERR_FILENO : open(value, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

int log_enabled(void)
{
    return log_file >= 0;
}

typedef struct {
    char text[4096]; /* what does not fit is cut off */
    size_t length;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t space = sizeof out->text - 1 - out->length; /* one for the line's end */
    int length = vsnprintf(out->text + out->length, space, format, arguments);
    va_end(arguments);
    if (length > 0)
        out->length += (size_t)length < space ? (size_t)length : space - 1;
}

/* One write a line, so that the lines of threads and processes do not mix. */
static void end(line *out)
{
    out->text[out->length++] = '\n';
    ssize_t written = write(log_file, out->text, out->length);
    (void)written; /* there is nowhere to say that it failed */
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void add_names(line *out, const char *key, uint32_t count, const char *const *names)
{
    add(out, " %s=", key);
    for (uint32_t i = 0; i < count; i++)
        add(out, "%s%s", i ? "," : "", names[i]);
}

/* The structure types of a chain, without the loader's own. */
static void add_chain(line *out, const void *chain)
{
    const char *separator = "";
    add(out, " chain=");
    for (const VkBaseInStructure *next = chain; next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO ||
            next->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
            continue;
        add(out, "%s%d", separator, (int)next->sType);
        separator = ",";
    }
}

void log_instance(const VkInstanceCreateInfo *info, VkResult result)
{
    if (!log_enabled())
        return;
    line out = {.length = 0};
    const VkApplicationInfo *application = info->pApplicationInfo;
    uint32_t version = application ? application->apiVersion : 0;
    add(&out, "null_hardware: vkCreateInstance result=%d api=%u.%u.%u application=\"%s\" engine=\"%s\"", result,
        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version),
        application && application->pApplicationName ? application->pApplicationName : "",
        application && application->pEngineName ? application->pEngineName : "");
    add_chain(&out, info->pNext);
    add_names(&out, "extensions", info->enabledExtensionCount, info->ppEnabledExtensionNames);
    end(&out);
}

void log_device(const VkDeviceCreateInfo *info, VkResult result)
{
    if (!log_enabled())
        return;
    int cache_control = 0, binaries = 0;
    for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
        switch ((int)next->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
            cache_control |= (int)((const VkPhysicalDeviceVulkan13Features *)next)->pipelineCreationCacheControl;
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES:
            cache_control |=
                (int)((const VkPhysicalDevicePipelineCreationCacheControlFeatures *)next)->pipelineCreationCacheControl;
            break;
        case TYPE_PIPELINE_BINARY_FEATURES: /* sType, pNext, pipelineBinaries: as any structure of one feature */
            binaries |=
                (int)((const VkPhysicalDevicePipelineCreationCacheControlFeatures *)next)->pipelineCreationCacheControl;
            break;
        }
    }
    line out = {.length = 0};
    add(&out, "null_hardware: vkCreateDevice result=%d pipelineCreationCacheControl=%d pipelineBinaries=%d", result,
        cache_control, binaries);
    add_chain(&out, info->pNext);
    add_names(&out, "extensions", info->enabledExtensionCount, info->ppEnabledExtensionNames);
    end(&out);
}

/* ---- pipeline caches ---- */

static VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                                        const VkAllocationCallbacks *allocator, VkPipelineCache *cache)
{
    VkResult result = driver_of(device)->CreatePipelineCache(device, info, allocator, cache);
    line out = {.length = 0};
    add(&out, "null_hardware: vkCreatePipelineCache result=%d cache=0x%llx size=%zu flags=0x%x", result,
        result == VK_SUCCESS ? (unsigned long long)*cache : 0, info->initialDataSize, info->flags);
    end(&out);
    return result;
}

static void VKAPI_CALL destroy_cache(VkDevice device, VkPipelineCache cache, const VkAllocationCallbacks *allocator)
{
    driver_of(device)->DestroyPipelineCache(device, cache, allocator);
    line out = {.length = 0};
    add(&out, "null_hardware: vkDestroyPipelineCache cache=0x%llx", (unsigned long long)cache);
    end(&out);
}

static VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data)
{
    VkResult result = driver_of(device)->GetPipelineCacheData(device, cache, size, data);
    line out = {.length = 0};
    add(&out, "null_hardware: vkGetPipelineCacheData result=%d cache=0x%llx size=%zu data=%d", result,
        (unsigned long long)cache, *size, data != NULL);
    end(&out);
    return result;
}

static VkResult VKAPI_CALL merge_caches(VkDevice device, VkPipelineCache into, uint32_t count,
                                        const VkPipelineCache *caches)
{
    VkResult result = driver_of(device)->MergePipelineCaches(device, into, count, caches);
    line out = {.length = 0};
    add(&out, "null_hardware: vkMergePipelineCaches result=%d cache=0x%llx count=%u", result, (unsigned long long)into,
        count);
    end(&out);
    return result;
}

/* ---- pipelines ---- */

/* Of each pipeline: the flags that count (the newer ones replace the older), and how many binaries it is made of.
 * All create infos begin with sType, pNext and flags, as that of compute pipelines does. */
static void log_pipelines(const char *function, VkResult result, double microseconds, VkPipelineCache cache,
                          uint32_t count, const void *infos, size_t info_size, const VkPipeline *pipelines)
{
    line out = {.length = 0};
    add(&out, "null_hardware: %s result=%d us=%.0f cache=0x%llx count=%u pipelines=", function, result, microseconds,
        (unsigned long long)cache, count);
    for (uint32_t i = 0; i < count; i++) {
        const VkComputePipelineCreateInfo *info =
            (const VkComputePipelineCreateInfo *)((const char *)infos + i * info_size);
        uint64_t flags = info->flags;
        uint32_t binaries = 0;
        for (const VkBaseInStructure *next = info->pNext; next; next = next->pNext) {
            if ((int)next->sType == TYPE_PIPELINE_CREATE_FLAGS_2)
                flags = ((const flags2_info *)next)->flags;
            if ((int)next->sType == TYPE_PIPELINE_BINARY_INFO)
                binaries = ((const binary_info *)next)->count;
        }
        add(&out, "%s%s/flags:0x%llx/binaries:%u", i ? "," : "", pipelines[i] ? "made" : "none",
            (unsigned long long)flags, binaries);
    }
    if (count == 1)
        add_chain(&out, ((const VkBaseInStructure *)infos)->pNext);
    end(&out);
}

static VkResult VKAPI_CALL create_graphics(VkDevice device, VkPipelineCache cache, uint32_t count,
                                           const VkGraphicsPipelineCreateInfo *infos,
                                           const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    double start = now();
    VkResult result = driver_of(device)->CreateGraphicsPipelines(device, cache, count, infos, allocator, pipelines);
    log_pipelines("vkCreateGraphicsPipelines", result, now() - start, cache, count, infos, sizeof *infos, pipelines);
    return result;
}

static VkResult VKAPI_CALL create_compute(VkDevice device, VkPipelineCache cache, uint32_t count,
                                          const VkComputePipelineCreateInfo *infos,
                                          const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    double start = now();
    VkResult result = driver_of(device)->CreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    log_pipelines("vkCreateComputePipelines", result, now() - start, cache, count, infos, sizeof *infos, pipelines);
    return result;
}

static VkResult VKAPI_CALL create_ray_tracing(VkDevice device, VkDeferredOperationKHR operation, VkPipelineCache cache,
                                              uint32_t count, const VkRayTracingPipelineCreateInfoKHR *infos,
                                              const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    double start = now();
    VkResult result =
        driver_of(device)->CreateRayTracingPipelines(device, operation, cache, count, infos, allocator, pipelines);
    log_pipelines("vkCreateRayTracingPipelinesKHR", result, now() - start, cache, count, infos, sizeof *infos,
                  pipelines);
    return result;
}

static VkResult VKAPI_CALL create_binaries(VkDevice device, const binary_create_info *info,
                                           const VkAllocationCallbacks *allocator, void *binaries)
{
    VkResult result =
        ((PFN_create_binaries)driver_of(device)->CreatePipelineBinaries)(device, info, allocator, binaries);
    line out = {.length = 0};
    add(&out, "null_hardware: vkCreatePipelineBinariesKHR result=%d from=%s", result,
        info->keys_and_data ? "data"
        : info->pipeline    ? "pipeline"
                            : "internal");
    end(&out);
    return result;
}

static VkResult VKAPI_CALL get_key(VkDevice device, const void *info, void *key)
{
    VkResult result = ((PFN_get_key)driver_of(device)->GetPipelineKey)(device, info, key);
    line out = {.length = 0};
    add(&out, "null_hardware: vkGetPipelineKeyKHR result=%d of=%s", result, info ? "pipeline" : "device");
    end(&out);
    return result;
}

const entry_point log_entry_points[] = {ENTRY("vkCreatePipelineCache", create_cache),
                                        ENTRY("vkDestroyPipelineCache", destroy_cache),
                                        ENTRY("vkGetPipelineCacheData", get_cache_data),
                                        ENTRY("vkMergePipelineCaches", merge_caches),
                                        ENTRY("vkCreateGraphicsPipelines", create_graphics),
                                        ENTRY("vkCreateComputePipelines", create_compute),
                                        ENTRY("vkCreateRayTracingPipelinesKHR", create_ray_tracing),
                                        ENTRY("vkCreatePipelineBinariesKHR", create_binaries),
                                        ENTRY("vkGetPipelineKeyKHR", get_key),
                                        {NULL, NULL}};
