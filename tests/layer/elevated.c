/*
 * elevated LIBRARY [told] - uses the layer as the loader would, which looks for layers in the system's directories alone
 * when a process is elevated: an instance, a device, a compute pipeline. Prints whether the process is elevated, and
 * which libraries it holds. With `told` the layer is told so by a getauxval of the program's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

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
    (void)size, (void)unused;
    if (strstr(info->dlpi_name, "_policy") || strstr(info->dlpi_name, "python"))
        printf("holds %s\n", info->dlpi_name);
    return 0;
}

static VkResult use(VkDevice device, PFN_vkGetDeviceProcAddr next)
{
    PFN_vkCreateComputePipelines create = (PFN_vkCreateComputePipelines)next(device, "vkCreateComputePipelines");
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    VkComputePipelineCreateInfo info = compute_info(&(Program){0}, "main");
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = ((PFN_vkCreateShaderModule)next(device, "vkCreateShaderModule"))(device, &shader_info, NULL,
                                                                                       &info.stage.module);
    if (result || (result = vkCreatePipelineLayout(device, &layout_info, NULL, &info.layout)))
        return result;
    result = create(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
    ((PFN_vkDestroyPipeline)next(device, "vkDestroyPipeline"))(device, pipeline, NULL);
    vkDestroyPipelineLayout(device, info.layout, NULL);
    ((PFN_vkDestroyShaderModule)next(device, "vkDestroyShaderModule"))(device, info.stage.module, NULL);
    return result;
}

/* What comes below the layer: the loader itself, which must not see the layer's links. */
static VKAPI_ATTR VkResult VKAPI_CALL create_instance_below(const VkInstanceCreateInfo *info,
                                                            const VkAllocationCallbacks *allocator, VkInstance *handle)
{
    VkInstanceCreateInfo bare = *info;
    bare.pNext = NULL;
    return vkCreateInstance(&bare, allocator, handle);
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL next_instance(VkInstance instance, const char *name)
{
    if (strcmp(name, "vkCreateInstance") == 0)
        return (PFN_vkVoidFunction)create_instance_below;
    return vkGetInstanceProcAddr(instance, name);
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
    VkLayerInstanceLink instance_link = {.pfnNextGetInstanceProcAddr = next_instance};
    VkLayerInstanceCreateInfo instance_layer = {.sType = VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO,
                                                .function = VK_LAYER_LINK_INFO};
    instance_layer.u.pLayerInfo = &instance_link;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo instance_info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pNext = &instance_layer, .pApplicationInfo = &application};
    VkInstance instance;
    PFN_vkCreateInstance create_instance =
        (PFN_vkCreateInstance)layer.pfnGetInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance");
    VkPhysicalDevice physical[8];
    uint32_t physical_count = 8;
    if (create_instance(&instance_info, NULL, &instance) ||
        vkEnumeratePhysicalDevices(instance, &physical_count, physical) < 0)
        return 2;
    PFN_vkCreateDevice create_device = (PFN_vkCreateDevice)layer.pfnGetInstanceProcAddr(instance, "vkCreateDevice");
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDevice device = VK_NULL_HANDLE;
    for (uint32_t i = 0; i < physical_count && !device; i++) {
        VkLayerDeviceLink device_link = {.pfnNextGetInstanceProcAddr = vkGetInstanceProcAddr,
                                         .pfnNextGetDeviceProcAddr = vkGetDeviceProcAddr};
        VkLayerDeviceCreateInfo device_layer = {.sType = VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO,
                                                .function = VK_LAYER_LINK_INFO};
        device_layer.u.pLayerInfo = &device_link;
        VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                          .pNext = &device_layer,
                                          .queueCreateInfoCount = 1,
                                          .pQueueCreateInfos = &queue};
        if (create_device(physical[i], &device_info, NULL, &device) != VK_SUCCESS)
            device = VK_NULL_HANDLE;
    }
    if (!device)
        return 3;
    VkResult result = use(device, layer.pfnGetDeviceProcAddr);
    ((PFN_vkDestroyDevice)layer.pfnGetDeviceProcAddr(device, "vkDestroyDevice"))(device, NULL);
    ((PFN_vkDestroyInstance)layer.pfnGetInstanceProcAddr(instance, "vkDestroyInstance"))(instance, NULL);
    printf("elevated %lu\nresult %d\n", getauxval(AT_SECURE), result);
    dl_iterate_phdr(print_library, NULL);
    return 0;
}
