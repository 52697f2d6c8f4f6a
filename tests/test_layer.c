/* A layer but for its own commands: negotiation, the chains of instance and device, and which call goes where. */
#include "test_layer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static Known *known_objects;

/* Instances and devices are known by the pointer that all their dispatchable objects begin with. */
static void *key_of(const void *dispatchable)
{
    return *(void *const *)dispatchable;
}

Known *find_known(const void *dispatchable)
{
    pthread_mutex_lock(&known_lock);
    Known *found = known_objects;
    while (found && found->key != key_of(dispatchable))
        found = found->next;
    pthread_mutex_unlock(&known_lock);
    return found;
}

static Known *add_known(const void *dispatchable)
{
    Known *made = calloc(1, sizeof *made);
    if (!made)
        abort(); /* a test layer need not survive this */
    made->key = key_of(dispatchable);
    pthread_mutex_lock(&known_lock);
    made->next = known_objects;
    known_objects = made;
    pthread_mutex_unlock(&known_lock);
    return made;
}

static void forget_known(Known *gone)
{
    pthread_mutex_lock(&known_lock);
    Known **link = &known_objects;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&known_lock);
    free(gone->own);
    free(gone);
}

/* ---- instances and devices ---- */

/* The loader's structures share the sType of the create info they hang on. */
static VkLayerInstanceCreateInfo *instance_node(const VkInstanceCreateInfo *info)
{
    VkLayerInstanceCreateInfo *node = (VkLayerInstanceCreateInfo *)info->pNext;
    while (node->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || node->function != VK_LAYER_LINK_INFO)
        node = (VkLayerInstanceCreateInfo *)node->pNext;
    return node;
}

static VkLayerDeviceCreateInfo *device_node(const VkDeviceCreateInfo *info)
{
    VkLayerDeviceCreateInfo *node = (VkLayerDeviceCreateInfo *)info->pNext;
    while (node->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || node->function != VK_LAYER_LINK_INFO)
        node = (VkLayerDeviceCreateInfo *)node->pNext;
    return node;
}

static VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                           VkInstance *instance)
{
    VkLayerInstanceCreateInfo *link = instance_node(info);
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)next(VK_NULL_HANDLE, "vkCreateInstance");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS)
        return result;
    Known *made = add_known(*instance);
    made->instance = *instance;
    made->get_of_instance = next;
    /* Asked for now, because once the instance is complete the loader answers with the first layer's function. */
    made->destroy_instance = (PFN_vkDestroyInstance)next(*instance, "vkDestroyInstance");
    return VK_SUCCESS;
}

static void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
    if (!instance)
        return;
    Known *gone = find_known(instance);
    gone->destroy_instance(instance, allocator);
    forget_known(gone);
}

static VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkDevice *device)
{
    VkLayerDeviceCreateInfo *link = device_node(info);
    PFN_vkGetInstanceProcAddr next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)next_instance(find_known(physical)->instance, "vkCreateDevice");
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = create(physical, info, allocator, device);
    Known *made = result == VK_SUCCESS ? add_known(*device) : NULL;
    if (made) {
        made->device = *device;
        made->get_of_device = next;
        made->destroy_device = (PFN_vkDestroyDevice)next(*device, "vkDestroyDevice");
    }
    device_was_created(info, result, made);
    return result;
}

static void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *allocator)
{
    if (!device)
        return;
    Known *gone = find_known(device);
    device_is_destroyed();
    gone->destroy_device(device, allocator);
    forget_known(gone);
}

/* ---- which function answers to a name ---- */

/* What the driver does not have, because an extension is not enabled, must not appear through a layer. */
static PFN_vkVoidFunction own_or(PFN_vkVoidFunction next, const char *name)
{
    PFN_vkVoidFunction own = next ? own_command(name) : NULL;
    return own ? own : next;
}

static PFN_vkVoidFunction VKAPI_CALL get_of_device(VkDevice device, const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0)
        return (PFN_vkVoidFunction)get_of_device;
    if (strcmp(name, "vkDestroyDevice") == 0)
        return (PFN_vkVoidFunction)destroy_device;
    return own_or(find_known(device)->get_of_device(device, name), name);
}

static PFN_vkVoidFunction VKAPI_CALL get_of_instance(VkInstance instance, const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } always[] = {
        {"vkGetInstanceProcAddr", (PFN_vkVoidFunction)get_of_instance},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkDestroyDevice", (PFN_vkVoidFunction)destroy_device},
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)get_of_device},
    };
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(always[i].name, name) == 0)
            return always[i].function;
    return instance ? own_or(find_known(instance)->get_of_instance(instance, name), name) : NULL;
}

__attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    if (interface->loaderLayerInterfaceVersion < 2)
        return VK_ERROR_INITIALIZATION_FAILED;
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = get_of_instance;
    interface->pfnGetDeviceProcAddr = get_of_device;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
