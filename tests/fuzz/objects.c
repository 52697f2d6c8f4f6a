/* Hostile objects for the replayer of pylayer rebuild, under sanitizers (shim/source.c). Whatever is accepted must refer
 * to its own image alone, without circles. Instances and devices are fitted to a driver that has little. */
#include <stdlib.h>
#include <string.h>

#include "shim/replay/replay.h"
#include "shim/source.h"

/* What the root may lead to. */
static void put_part(uint8_t *out, uint32_t room)
{
    static const uint32_t type = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    const struct {
        const void *data;
        uint32_t size;
    } parts[] = {{&type, sizeof type}, {"VK_KHR_surface", 15}};
    uint32_t which = below(2), size = parts[which].size < room ? parts[which].size : room;
    memcpy(out, parts[which].data, size);
}

/* An object with pointers and handles that are mostly right, and small numbers in its image. */
static size_t make(uint8_t *out)
{
    uint32_t kind = 1 + below(12), root = (uint32_t)(kinds[kind].root_size + 7) / 8 * 8, image = root + 8 * below(64);
    ObjectHeader header = {OBJECT_MAGIC, OBJECT_VERSION, (uint16_t)kind, 0, image, below(10), below(4), 239, 0, 0};
    size_t at = sizeof header;
    memcpy(out, &header, sizeof header);
    memset(out + at, 0, image);
    for (uint32_t i = 0; i < image; i += 4 + 4 * below(8))
        out[at + i] = (uint8_t)below(4);
    for (uint32_t place = root; place < image; place += 8 + 8 * below(6))
        put_part(out + at + place, image - place);
    memcpy(out + at, &kinds[kind].root_type, sizeof kinds[kind].root_type);
    at += image;
    for (uint32_t i = 0, place = 8; i < header.pointers; i++, at += sizeof(ObjectPointer), place += 8 + 8 * below(2)) {
        ObjectPointer pointer = {place,
                                 (place < root ? root : place) + 8 * below(image > root ? (image - root) / 8 : 1)};
        memcpy(out + at, &pointer, sizeof pointer);
    }
    for (uint32_t i = 0; i < header.handles; i++, at += sizeof(ObjectHandle)) {
        ObjectHandle handle = {16 * (header.pointers + 1) + 8 * i, below(30), {0}};
        memcpy(out + at, &handle, sizeof handle);
    }
    return at;
}

static size_t mutate(uint8_t *data, size_t size)
{
    static const uint32_t values[] = {0, 1, 7, 8, 16, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff};
    for (uint32_t i = below(4); i > 0; i--) {
        uint32_t value = below(2) ? values[below(sizeof values / sizeof *values)] : below(256);
        memcpy(data + 4 * (take32() % ((uint32_t)size / 4)), &value, sizeof value);
    }
    return below(8) ? size : take32() % (size + 1);
}

static void check(const Object *object)
{
    for (uint32_t i = 0; i < object->pointers; i++) {
        const ObjectPointer *pointer = &object->pointer[i];
        void *target = *(void **)(object->image + pointer->place);
        if (!object_has(object, target, 1) || target != object->image + pointer->target ||
            pointer->target <= pointer->place)
            abort();
    }
    for (uint32_t i = 0; i < object->handles; i++)
        if (!object_has(object, object->image + object->handle[i].place, 8))
            abort();
}

/* ---- a driver ---------------------------------------------------------------------------------- */

FILE *lines;

static VkResult VKAPI_CALL extensions(uint32_t *count, VkExtensionProperties *out)
{
    *out = (VkExtensionProperties){.extensionName = "VK_KHR_surface"};
    *count = 1;
    return VK_SUCCESS;
}

static VkResult VKAPI_CALL instance_extensions(const char *layer, uint32_t *count, VkExtensionProperties *out)
{
    return extensions(count, out);
}

static VkResult VKAPI_CALL device_extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                             VkExtensionProperties *out)
{
    return extensions(count, out);
}

/* Answers each structure with one feature. */
static void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    out->features.robustBufferAccess = VK_TRUE;
    for (VkBaseOutStructure *each = out->pNext; each; each = each->pNext)
        *(VkBool32 *)(each + 1) = VK_FALSE;
}

/* These read little: parts may lie on each other, and a driver that crashes on that costs a process. */
static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks,
                                           VkInstance *out)
{
    return info->pNext || info->enabledLayerCount ? VK_SUCCESS : VK_ERROR_UNKNOWN;
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice device, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *callbacks, VkDevice *out)
{
    return info->enabledLayerCount ? VK_SUCCESS : VK_ERROR_UNKNOWN;
}

static PFN_vkVoidFunction VKAPI_CALL get_proc(VkInstance of, const char *name)
{
#define FUNCTION(known, function)                                                                                      \
    if (strcmp(name, known) == 0)                                                                                      \
    return (PFN_vkVoidFunction)(function)
    FUNCTION("vkEnumerateInstanceExtensionProperties", instance_extensions);
    FUNCTION("vkEnumerateDeviceExtensionProperties", device_extensions);
    FUNCTION("vkGetPhysicalDeviceFeatures2", features);
    FUNCTION("vkCreateInstance", create_instance);
    FUNCTION("vkCreateDevice", create_device);
    return NULL;
}

static void fit(const Object *object)
{
    VkDevice device;
    if (object->kind == STATE_INSTANCE && fit_instance(object) == VK_SUCCESS)
        abort();
    if (object->kind == STATE_DEVICE && fit_device(object, (VkPhysicalDevice)&device, &device) == VK_SUCCESS)
        abort();
}

static unsigned long accepted;

__attribute__((destructor)) static void end(void)
{
    expect(accepted, "no object was accepted");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size)
{
    uint8_t made[4096];
    source_open(input, input_size);
    get_instance_proc = get_proc;
    lines = lines ? lines : fopen("/dev/null", "w");
    size_t size = mutate(made, make(made));
    uint8_t *data = malloc(size + 1); /* of its own size, for AddressSanitizer */
    memcpy(data, made, size);
    Object object;
    if (!object_open(&object, data, size)) {
        accepted++;
        check(&object);
        fit(&object);
    }
    free(object.image);
    free(data);
    return 0;
}
