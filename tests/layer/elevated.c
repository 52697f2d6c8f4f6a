/*
 * elevated LIBRARY [told] - uses the layer as the loader would, which looks for layers in the system's directories
 * alone when a process is elevated: an instance, a device, a compute pipeline. Prints whether the process is elevated,
 * and which libraries it holds. With `told` the layer is told so by a getauxval of the program's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vk_layer.h>

#include "program.h"

static int told;

/* Comes before libc's for every library of the process. */
unsigned long getauxval(unsigned long type)
{
    static unsigned long (*real)(unsigned long);
    if (told && type == AT_SECURE)
        return 1;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getauxval");
    return real ? real(type) : 0;
}

static int print_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    if (strstr(info->dlpi_name, "_policy") || strstr(info->dlpi_name, "python"))
        printf("holds %s\n", info->dlpi_name);
    return 0;
}

static PFN_vkGetInstanceProcAddr get_below;
static PFN_vkCreateInstance create_below;

/* What comes below the layer: the loader itself, which must not see the layer's links. */
static VKAPI_ATTR VkResult VKAPI_CALL create_instance_below(const VkInstanceCreateInfo *info,
                                                            const VkAllocationCallbacks *allocator, VkInstance *handle)
{
    VkInstanceCreateInfo bare = *info;
    bare.pNext = NULL;
    return create_below(&bare, allocator, handle);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL next_instance(VkInstance instance, const char *name)
{
    if (strcmp(name, "vkCreateInstance") == 0)
        return (PFN_vkVoidFunction)create_instance_below;
    return get_below(instance, name);
}

int main(int count, char **arguments)
{
    told = count > 2 && strcmp(arguments[2], "told") == 0;
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    PFN_vkNegotiateLoaderLayerInterfaceVersion negotiate = NULL;
    if (library)
        *(void **)&negotiate = dlsym(library, "vkNegotiateLoaderLayerInterfaceVersion");
    VkNegotiateLayerInterface layer = {.sType = LAYER_NEGOTIATE_INTERFACE_STRUCT, .loaderLayerInterfaceVersion = 2};
    if (!negotiate || negotiate(&layer) != VK_SUCCESS) {
        fprintf(stderr, "no layer: %s\n", library ? "does not negotiate" : dlerror());
        return 1;
    }
    void *below = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
#define FROM_LOADER(name) *(void **)&name = dlsym(below, #name);
    CALLED_FUNCTIONS(FROM_LOADER)
    *(void **)&get_below = dlsym(below, "vkGetInstanceProcAddr");
    create_below = vkCreateInstance;
    VkLayerInstanceLink instance_link = {.pfnNextGetInstanceProcAddr = next_instance};
    VkLayerInstanceCreateInfo instance_layer = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
                                                .function = VK_LAYER_LINK_INFO};
    instance_layer.u.pLayerInfo = &instance_link;
    Program program = {0};
    VkPhysicalDevice physical[8];
    uint32_t physical_count = 8;
    vkCreateInstance = (PFN_vkCreateInstance)layer.pfnGetInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance");
    if (open_instance(&program, &(Wanted){.instance_chain = &instance_layer}) ||
        vkEnumeratePhysicalDevices(program.instance, &physical_count, physical) < 0)
        return 2;
#define FROM_LAYER(name) name = (PFN_##name)layer.pfnGetInstanceProcAddr(program.instance, #name);
    CALLED_FUNCTIONS(FROM_LAYER)
    PFN_vkGetDeviceProcAddr get_device = (PFN_vkGetDeviceProcAddr)get_below(program.instance, "vkGetDeviceProcAddr");
    for (uint32_t i = 0; i < physical_count && !program.device; i++) {
        VkLayerDeviceLink device_link = {.pfnNextGetInstanceProcAddr = get_below,
                                         .pfnNextGetDeviceProcAddr = get_device};
        VkLayerDeviceCreateInfo device_layer = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
                                                .function = VK_LAYER_LINK_INFO};
        device_layer.u.pLayerInfo = &device_link;
        program.physical = physical[i];
        if (open_device(&program, &(Wanted){.features = &device_layer}))
            program.device = VK_NULL_HANDLE;
    }
    if (!program.device)
        return 3;
    VkResult result = open_shader(&program);
    result = result ? result : use_compute(&program, VK_NULL_HANDLE, "main");
    close_program(&program);
    printf("elevated %lu\nresult %d\n", getauxval(AT_SECURE), result);
    dl_iterate_phdr(print_library, NULL);
    return 0;
}
