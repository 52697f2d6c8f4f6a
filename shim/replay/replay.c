/* replay.c - creates recorded Vulkan objects
 *
 *   pylayer-replay VENDOR-DEVICE-UUID   (hexadecimal: vendorID, deviceID, pipelineCacheUUID)
 *
 * Standard input has objects, each after what it is made of, the instance and the device first: a Frame, the object,
 * zeros to a multiple of 8. It may have data of a VkPipelineCache, too: pipelines that follow are created with a cache
 * that has all of it. Standard output has a line for each event:
 *
 *   lacks NAME              the device is created without this extension or feature
 *   fails WHY               there is no device; the process ends
 *   ready                   the device is there
 *   done RESULT             the VkResult of a pipeline that was asked for, or of a cache
 *   refused WHY             one that never reached the driver
 *
 * Whatever the driver prints goes to standard error. Nothing here trusts an object, but a driver that gets an impossible
 * one may do anything: this process has nothing to lose.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "replay.h"

typedef enum {
    KEEP,       /* others are made of it, and it stays */
    CREATE,     /* and tell the result */
    LOOK_UP,    /* the same, if nothing has to be compiled: VK_PIPELINE_COMPILE_REQUIRED otherwise */
    LOAD_CACHE, /* no object: data of a VkPipelineCache */
} Wish;

typedef struct {
    uint32_t size, wish;
    uint8_t digest[16];
} Frame;

typedef struct Made {
    uint8_t digest[16]; /* the first member: of the object that it was made of */
    uint64_t handle;
    uint16_t kind;
    VkResult result; /* of its creation; the handle is valid if it is VK_SUCCESS */
    struct Made *before;
} Made;

typedef VkResult(VKAPI_PTR *CreateObject)(VkDevice, const void *, const VkAllocationCallbacks *, uint64_t *);
typedef VkResult(VKAPI_PTR *CreatePipelines)(VkDevice, VkPipelineCache, uint32_t, const void *,
                                             const VkAllocationCallbacks *, uint64_t *);
typedef VkResult(VKAPI_PTR *CreateRayTracing)(VkDevice, VkDeferredOperationKHR, VkPipelineCache, uint32_t, const void *,
                                              const VkAllocationCallbacks *, uint64_t *);
typedef void(VKAPI_PTR *DestroyObject)(VkDevice, uint64_t, const VkAllocationCallbacks *);

FILE *lines;
static VkDevice device;
static PFN_vkGetDeviceProcAddr get_device_proc;
static PFN_vkVoidFunction creates[STATE_KIND_COUNT], destroys[STATE_KIND_COUNT];
static const char *wanted; /* as is_wanted writes it */
static void *by_digest;    /* a tree of everything that stays, by digest */
static Made *newest;
static VkPipelineCache cache; /* all that was loaded */

#define DEVICE_FUNCTION(name) ((PFN_##name)get_device_proc(device, #name))

/* ---- instance and device ----------------------------------------------------------------------- */

static bool is_wanted(const VkPhysicalDeviceProperties *properties)
{
    char text[64];
    int at = snprintf(text, sizeof text, "%x-%x-", properties->vendorID, properties->deviceID);
    for (size_t i = 0; i < VK_UUID_SIZE; i++, at += 2)
        snprintf(text + at, 3, "%02x", properties->pipelineCacheUUID[i]);
    return strcmp(text, wanted) == 0;
}

static VkPhysicalDevice find_physical(void)
{
    PFN_vkEnumeratePhysicalDevices enumerate =
        (PFN_vkEnumeratePhysicalDevices)get_instance_proc(instance, "vkEnumeratePhysicalDevices");
    PFN_vkGetPhysicalDeviceProperties ask =
        (PFN_vkGetPhysicalDeviceProperties)get_instance_proc(instance, "vkGetPhysicalDeviceProperties");
    VkPhysicalDevice found[64];
    uint32_t count = 64;
    enumerate(instance, &count, found);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        ask(found[i], &properties);
        if (is_wanted(&properties))
            return found[i];
    }
    return VK_NULL_HANDLE;
}

/* Some commands of 1.1 and 1.2 were an extension's before. */
static PFN_vkVoidFunction find_command(const char *name)
{
    char extensions[64];
    snprintf(extensions, sizeof extensions, "%sKHR", name);
    PFN_vkVoidFunction found = get_device_proc(device, name);
    return found ? found : get_device_proc(device, extensions);
}

/* Ends the process if there is no device. */
static void begin(const Object *object)
{
    bool is_instance = object->kind == STATE_INSTANCE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    if (is_instance ? instance != VK_NULL_HANDLE : device || !instance || !(physical = find_physical())) {
        fprintf(lines, "fails the device is not there\n");
        exit(3);
    }
    VkResult result = is_instance ? fit_instance(object) : fit_device(object, physical, &device);
    if (result != VK_SUCCESS) {
        fprintf(lines, "fails %s returned %d\n", is_instance ? "vkCreateInstance" : "vkCreateDevice", result);
        exit(3);
    }
    if (is_instance)
        return;
    get_device_proc = (PFN_vkGetDeviceProcAddr)get_instance_proc(instance, "vkGetDeviceProcAddr");
    for (int kind = STATE_DEVICE + 1; kind < STATE_KIND_COUNT; kind++) {
        creates[kind] = find_command(kinds[kind].create);
        destroys[kind] = find_command(kinds[kind].destroy);
    }
    fprintf(lines, "ready\n");
}

static void destroy(const Made *made)
{
    if (made->result == VK_SUCCESS && destroys[made->kind])
        ((DestroyObject)destroys[made->kind])(device, made->handle, NULL);
}

/* The layer writes what it has when the device is destroyed. */
static void end(void)
{
    if (device) {
        if (cache)
            DEVICE_FUNCTION(vkDestroyPipelineCache)(device, cache, NULL);
        for (const Made *made = newest; made; made = made->before)
            destroy(made);
        DEVICE_FUNCTION(vkDestroyDevice)(device, NULL);
    }
    if (instance)
        ((PFN_vkDestroyInstance)get_instance_proc(instance, "vkDestroyInstance"))(instance, NULL);
}

/* ---- objects ----------------------------------------------------------------------------------- */

static int compare_digests(const void *one, const void *other)
{
    return memcmp(one, other, sizeof((Made *)0)->digest);
}

static void keep_made(const Made *made)
{
    Made *kept = malloc(sizeof *kept);
    if (!kept)
        abort();
    *kept = *made;
    kept->before = newest;
    newest = kept;
    if (!tsearch(kept, &by_digest, compare_digests))
        abort();
}

/* Writes the handles into the image. Returns NULL, or why that cannot be. */
static const char *link_handles(const Object *object, VkResult *result)
{
    for (uint32_t i = 0; i < object->handles; i++) {
        const ObjectHandle *handle = &object->handle[i];
        const Made *const *found = tfind(handle->digest, &by_digest, compare_digests);
        const Made *made = found ? *found : NULL;
        if (!made || kinds[made->kind].makes != (VkObjectType)handle->type)
            return "it is made of an object that is not there";
        if (made->result != VK_SUCCESS) {
            *result = made->result;
            return "an object that it is made of cannot be created";
        }
        memcpy(object->image + handle->place, &made->handle, sizeof made->handle);
    }
    return creates[object->kind] ? NULL : "the device has no command that creates it";
}

static VkResult create(const Object *object, uint64_t *handle)
{
    PFN_vkVoidFunction function = creates[object->kind];
    if (object->kind < STATE_GRAPHICS)
        return ((CreateObject)function)(device, object->image, NULL, handle);
    if (object->kind < STATE_RAY_TRACING)
        return ((CreatePipelines)function)(device, cache, 1, object->image, NULL, handle);
    return ((CreateRayTracing)function)(device, VK_NULL_HANDLE, cache, 1, object->image, NULL, handle);
}

/* Lets the creation of a pipeline fail if the driver would have to compile. VkPipelineCreateFlags2CreateInfo replaces
 * the flags. */
static void only_look_up(const Object *object)
{
    VkComputePipelineCreateInfo *info =
        (VkComputePipelineCreateInfo *)object->image; /* flags are at one place in all */
    info->flags |= VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
    for (const VkBaseInStructure *each = info->pNext; each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR)
            ((VkPipelineCreateFlags2CreateInfoKHR *)each)->flags |=
                VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
}

static VkResult load_cache(const uint8_t *data, size_t size)
{
    VkPipelineCacheCreateInfo info = {VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, NULL, 0, size, data};
    VkPipelineCache loaded;
    VkResult result = DEVICE_FUNCTION(vkCreatePipelineCache)(device, &info, NULL, &loaded);
    if (result != VK_SUCCESS || !cache) {
        cache = result == VK_SUCCESS ? loaded : cache;
        return result;
    }
    result = DEVICE_FUNCTION(vkMergePipelineCaches)(device, cache, 1, &loaded);
    DEVICE_FUNCTION(vkDestroyPipelineCache)(device, loaded, NULL);
    return result;
}

static void replay(const Frame *frame, const Object *object)
{
    Made made = {.kind = object->kind, .result = VK_ERROR_UNKNOWN};
    memcpy(made.digest, frame->digest, sizeof made.digest);
    const char *problem = link_handles(object, &made.result);
    if (frame->wish == LOOK_UP && object->kind >= STATE_GRAPHICS)
        only_look_up(object);
    if (!problem)
        made.result = create(object, &made.handle);
    if (frame->wish == KEEP) {
        keep_made(&made);
        return;
    }
    if (problem)
        fprintf(lines, "refused %s\n", problem);
    else
        fprintf(lines, "done %d\n", made.result);
    destroy(&made);
}

/* Returns false at the end of the input. */
static bool take_frame(void)
{
    Frame frame;
    if (fread(&frame, sizeof frame, 1, stdin) != 1 || frame.size > MAX_OBJECT)
        return false;
    size_t padded = (frame.size + 7u) & ~7u;
    uint8_t *data = malloc(padded + 1);
    if (!data || fread(data, 1, padded, stdin) != padded) {
        free(data);
        return false;
    }
    if (frame.wish == LOAD_CACHE) {
        fprintf(lines, "done %d\n", device ? load_cache(data, frame.size) : VK_ERROR_INITIALIZATION_FAILED);
        free(data);
        return true;
    }
    Object object;
    const char *problem = object_open(&object, data, frame.size);
    if (!problem && object.kind <= STATE_DEVICE)
        begin(&object);
    else if (!problem && device)
        replay(&frame, &object);
    else if (frame.wish != KEEP)
        fprintf(lines, "refused %s\n", problem ? problem : "there is no device");
    free(object.image);
    free(data);
    return true;
}

int main(int count, char **arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a driver that hangs does not outlive the command */
    int output = dup(STDOUT_FILENO);
    lines = output < 0 ? NULL : fdopen(output, "w");
    if (!lines || count != 2 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return 2;
    setlinebuf(lines);
    wanted = arguments[1];
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    get_instance_proc = loader ? (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr") : NULL;
    if (!get_instance_proc) {
        fprintf(lines, "fails libvulkan.so.1 cannot be opened\n");
        return 3;
    }
    while (take_frame())
        ;
    end();
    return 0;
}
