/* debug_names [EXTENSION] - creates three pipelines, and names them and their shader modules with
 * vkSetDebugUtilsObjectNameEXT if the instance is to have that extension. */
#include "program.h"
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
    Wanted wanted = {.instance_extension_count = count > 1 ? 1 : 0,
                     .instance_extensions = (const char *const *)&arguments[1]};
    Program program = {0};
    VkPipeline pipelines[3];
    if (open_program(&program, &wanted))
        return 1;
    VkDevice device = program.device;
    set_name = (PFN_vkSetDebugUtilsObjectNameEXT)vkGetDeviceProcAddr(device, "vkSetDebugUtilsObjectNameEXT");
    if (count == 1)
        set_name = NULL; /* the loader returns it all the same */
    else if (!set_name)
        return 2;
    name(device, VK_OBJECT_TYPE_DEVICE, (uint64_t)(uintptr_t)device, "a device");
    name(device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)program.module, "an early name");
    name(device, VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)program.module, "hero.comp");
    if (create_compute(&program, VK_NULL_HANDLE, "main", &pipelines[0]))
        return 3;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[0], "the hero's cape");
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[0], NULL);
    vkDestroyShaderModule(device, program.module, NULL);
    /* A module that may get the first one's handle, and has no name; a pipeline with a long name. */
    if (vkCreateShaderModule(device, &shader_info, NULL, &program.module) ||
        create_compute(&program, VK_NULL_HANDLE, "twin", &pipelines[1]))
        return 4;
    char many[200];
    memset(many, 'n', sizeof many);
    many[sizeof many - 1] = 0;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[1], many);
    /* The same pipeline as the first one, which is a hit; its name is that of the fingerprint. */
    if (create_compute(&program, VK_NULL_HANDLE, "main", &pipelines[2]))
        return 5;
    name(device, VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[2], "the hero's other cape");
    for (int i = 0; i < 3; i++)
        vkDestroyPipeline(device, pipelines[i], NULL);
    close_program(&program);
    return 0;
}
