/* Objects that are not dispatchable, and the commands that are under way: what must not be used or destroyed when. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define OBJECT_MAGIC 0x6a626f2d74736574ull
#define NAME_OF(name, text) text,
static const char *const kind_names[KIND_COUNT] = {OBJECT_KINDS(NAME_OF)};

void *object_of(uint64_t handle, ObjectKind kind)
{
    Object *found = (Object *)(uintptr_t)handle;
    if (!found || found->magic != OBJECT_MAGIC + kind) {
        violation("a %s that does not exist, or no longer", kind_names[kind]);
        abort();
    }
    return found;
}

void *object_make(DriverDevice *device, ObjectKind kind, size_t size, const VkAllocationCallbacks *allocator)
{
    Object *made = NULL;
    if (act_or_error(DO_ALLOCATE) != VK_SUCCESS)
        return NULL;
    if (allocator)
        made = allocator->pfnAllocation(allocator->pUserData, size, sizeof(void *), VK_SYSTEM_ALLOCATION_SCOPE_OBJECT);
    else
        made = malloc(size);
    if (!made)
        return NULL;
    memset(made, 0, size);
    made->magic = OBJECT_MAGIC + kind;
    made->kind = kind;
    made->device = device;
    made->has_allocator = allocator != NULL;
    atomic_fetch_add(&device->alive[kind], 1);
    return made;
}

void object_check_allocator(const Object *object, const VkAllocationCallbacks *allocator)
{
    if (object->has_allocator != (allocator != NULL))
        violation("a %s with another allocator than it was made with", kind_names[object->kind]);
}

void object_free(DriverDevice *device, Object *object, const VkAllocationCallbacks *allocator)
{
    object_check_allocator(object, allocator);
    if (object->device != device)
        violation("a %s of another device is destroyed", kind_names[object->kind]);
    atomic_fetch_sub(&object->device->alive[object->kind], 1);
    object->magic = 0;
    if (object->has_allocator && allocator)
        allocator->pfnFree(allocator->pUserData, object);
    else if (!object->has_allocator && !allocator)
        free(object);
}

/* ---- commands that are under way ---- */

static atomic_bool ending;
static atomic_uint calls;

static void at_exit(void)
{
    atomic_store(&ending, true);
    if (atomic_load(&calls) && !somebody_hangs())
        violation("exit() while a command of the driver is under way");
}

static void register_at_exit(void)
{
    atexit(at_exit);
}

void watch_exit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_at_exit);
}

DriverDevice *command_begin(VkDevice handle)
{
    DriverDevice *device = device_of(handle);
    atomic_fetch_add(&device->calls, 1);
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&ending))
        violation("a command after the driver's exit handlers ran");
    return device;
}

void command_end(DriverDevice **device)
{
    atomic_fetch_sub(&(*device)->calls, 1);
    atomic_fetch_sub(&calls, 1);
}

void check_device_end(DriverDevice *device)
{
    if (atomic_load(&device->calls) && !somebody_hangs())
        violation("vkDestroyDevice while a command of the device is under way");
    for (ObjectKind kind = 0; kind < KIND_COUNT; kind++)
        if (atomic_load(&device->alive[kind]))
            violation("vkDestroyDevice with %d objects alive: %s", atomic_load(&device->alive[kind]), kind_names[kind]);
}
