/* Handles that no driver made, and which of this layer's functions answers to a name. */
#include "null_hardware.h"

#include <stdatomic.h>
#include <string.h>

VkResult succeed(void)
{
    return VK_SUCCESS;
}

uint64_t new_handle(void)
{
    static atomic_uint_least64_t last;
    /* Far below any address, so that a handle that is followed as a pointer fails at once. */
    return 16 * (atomic_fetch_add(&last, 1) + 1);
}

VkResult create_handle(VkDevice device, const void *info, const VkAllocationCallbacks *allocator, uint64_t *handle)
{
    (void)device, (void)info, (void)allocator;
    *handle = new_handle();
    return VK_SUCCESS;
}

VkResult set_loader_data(VkDevice device, void *object)
{
    return find_known(device)->set_loader_data(device, object);
}

void device_was_created(const VkDeviceCreateInfo *info, VkResult result, Known *created)
{
    (void)info, (void)result, (void)created;
}

void device_is_destroyed(void)
{
}

/* ---- which function answers to a name ---- */

static PFN_vkVoidFunction find_in(const entry_point *table, const char *name)
{
    size_t length = strlen(name);
    size_t core = length;
    if (length > 3 && (strcmp(name + length - 3, "KHR") == 0 || strcmp(name + length - 3, "EXT") == 0))
        core -= 3;
    for (; table->name; table++) {
        size_t known_length = strlen(table->name);
        if ((known_length == length || known_length == core) && strncmp(table->name, name, known_length) == 0)
            return table->function;
    }
    return NULL;
}

PFN_vkVoidFunction own_command(const char *name)
{
    static const char *const ignored[] = {
        /* Commands are recorded nowhere. */
        "vkCmd",
        /* Names and labels: the driver would write to the object behind the handle, which may be one of ours. */
        "vkSetDebugUtilsObject", "vkDebugMarkerSetObject", "vkQueueBeginDebugUtilsLabel", "vkQueueEndDebugUtilsLabel",
        "vkQueueInsertDebugUtilsLabel"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (strncmp(name, ignored[i], strlen(ignored[i])) == 0)
            return (PFN_vkVoidFunction)succeed;
    const entry_point *const tables[] = {memory_entry_points, execution_entry_points, surface_entry_points};
    PFN_vkVoidFunction function = NULL;
    for (size_t i = 0; !function && i < sizeof tables / sizeof *tables; i++)
        function = find_in(tables[i], name);
    return function;
}
