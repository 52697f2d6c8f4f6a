/* debug_names [EXTENSION] - creates three pipelines, and names them and their shader modules with
 * vkSetDebugUtilsObjectNameEXT if the instance is to have that extension. */
#include "device.h"
#include "shader.h"
#include <string.h>

static PFN_vkSetDebugUtilsObjectNameEXT set_name;

static void name(VkDevice device, VkObjectType type, uint64_t handle, const char *text)
{
    VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                          .objectType = type,
                                          .objectHandle = handle,
                                          .pObjectName = text};
    if (set_name)
        set_name(device, &info);
}

int main(int count, char **arguments)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &application,
                                 .enabledExtensionCount = count > 1 ? 1 : 0,
                                 .ppEnabledExtensionNames = (const char *const *)&arguments[1]};
    VkInstance instance;
    VkDevice device = VK_NULL_HANDLE;
    VkShaderModule module, other;
    VkPipelineLayout layout;
    VkPipeline pipelines[3];
    if (!vkCreateInstance(&info, NULL, &instance))
        device = create_device_on(instance, NULL, NULL);
    if (!device || create_shader(device, &module, &layout))
        return 1;
    set_name = (PFN_vkSetDebugUtilsObjectNameEXT)vkGetDeviceProcAddr(device, "vkSetDebugUtilsObjectNameEXT");
    if (count == 1)
        set_name = NULL; /* the loader returns it all the same */
    else if (!set_name)
        return 2;
    name(device, VK_OBJECT_TYPE_DEVICE, (uint64_t)(uintptr_t)device, "a device");
    name(device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)module, "an early name");
    name(device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)module, "hero.comp");
    if (create_compute(device, VK_NULL_HANDLE, module, layout, "main", NULL, &pipelines[0]))
        return 3;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[0], "the hero's cape");
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[0], NULL);
    vkDestroyShaderModule(device, module, NULL);
    /* A module that may get the first one's handle, and has no name; a pipeline with a long name. */
    if (vkCreateShaderModule(device, &shader_info, NULL, &other) ||
        create_compute(device, VK_NULL_HANDLE, other, layout, "twin", NULL, &pipelines[1]))
        return 4;
    char many[200];
    memset(many, 'n', sizeof many);
    many[sizeof many - 1] = 0;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[1], many);
    /* The same pipeline as the first one, which is a hit; its name is that of the fingerprint. */
    if (create_compute(device, VK_NULL_HANDLE, other, layout, "main", NULL, &pipelines[2]))
        return 5;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[2], "the hero's other cape");
    for (int i = 0; i < 3; i++)
        vkDestroyPipeline(device, pipelines[i], NULL);
    vkDestroyPipelineLayout(device, layout, NULL);
    vkDestroyShaderModule(device, other, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    return 0;
}
