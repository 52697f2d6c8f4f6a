/*
 * identifiers record|replay DIRECTORY COUNT: the demo program's shaders, kept as SPIR-V and as identifiers
 * (VK_EXT_shader_module_identifier). record writes both, a file each, and creates COUNT compute and COUNT graphics
 * pipelines from modules; replay creates the same from the identifiers in the files, without any SPIR-V. Prints one JSON
 * object.
 */
#define _GNU_SOURCE
#include "../demo/objects.h"
#include "../demo/recipes.h"
#include "../demo/shaders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Identifier {
    uint32_t size;
    uint8_t bytes[VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT];
} Identifier;

static Identifier identifiers[SHADER_COUNT];
static bool replay;
static unsigned long created, missed;

static void create_device(Context *context)
{
    VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT wanted = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT,
        .shaderModuleIdentifier = VK_TRUE};
    VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
        .pNext = &wanted,
        .pipelineCreationCacheControl = VK_TRUE};
    const char *extension = VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &control,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = 1,
                               .ppEnabledExtensionNames = &extension};
    uint32_t one = 1;
    if (vkEnumeratePhysicalDevices(context->instance, &one, &context->physical) < 0 ||
        vkCreateDevice(context->physical, &info, NULL, &context->device) != VK_SUCCESS)
        die("no device with %s", extension);
}

static void file_of(const char *directory, uint32_t shader, const char *suffix, const char *mode, void *data,
                    size_t size)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%u.%s", directory, shader, suffix);
    FILE *file = fopen(name, mode);
    size_t done = !file ? 0 : *mode == 'w' ? fwrite(data, 1, size, file) : fread(data, 1, size, file);
    if (!file || done == 0 || fclose(file) != 0)
        die("%s cannot be used", name);
    if (*mode == 'r')
        identifiers[shader].size = (uint32_t)done;
}

static void keep(const Context *context, const Objects *objects, const char *directory)
{
    PFN_vkGetShaderModuleIdentifierEXT get =
        (PFN_vkGetShaderModuleIdentifierEXT)vkGetDeviceProcAddr(context->device, "vkGetShaderModuleIdentifierEXT");
    for (uint32_t i = 0; i < RAYS_FIRST; i++) {
        VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
        get(context->device, objects->modules[i], &found);
        file_of(directory, i, "identifier", "wb", found.identifier, found.identifierSize);
        file_of(directory, i, "spv", "wb", (void *)(uintptr_t)shaders[i].code_11.words, shaders[i].code_11.bytes);
    }
}

/* The identifier of the module in place of the module. */
static void take_module_away(const Objects *objects, VkPipelineShaderStageCreateInfo *stage,
                             VkPipelineShaderStageModuleIdentifierCreateInfoEXT *chained)
{
    for (uint32_t i = 0; i < RAYS_FIRST && replay; i++)
        if (stage->module != VK_NULL_HANDLE && stage->module == objects->modules[i]) {
            *chained = (VkPipelineShaderStageModuleIdentifierCreateInfoEXT){
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT,
                .identifierSize = identifiers[i].size,
                .pIdentifier = identifiers[i].bytes};
            stage->pNext = chained;
            stage->module = VK_NULL_HANDLE;
        }
}

static void note(VkDevice device, VkResult result, VkPipeline pipeline)
{
    created += result == VK_SUCCESS;
    missed += result == VK_PIPELINE_COMPILE_REQUIRED;
    vkDestroyPipeline(device, pipeline, NULL);
}

static void create(VkDevice device, const Kitchen *kitchen, uint64_t number)
{
    Recipe recipe;
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT chained[MAX_STAGES];
    VkPipeline pipeline = VK_NULL_HANDLE;
    compute_recipe(&recipe, kitchen, number);
    take_module_away(kitchen->objects, &recipe.compute.stage, &chained[0]);
    VkResult result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &recipe.compute, NULL, &pipeline);
    note(device, result, pipeline);
    pipeline = VK_NULL_HANDLE;
    graphics_recipe(&recipe, kitchen, number);
    for (uint32_t i = 0; i < recipe.stage_count; i++)
        take_module_away(kitchen->objects, &recipe.stages[i], &chained[i]);
    result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &recipe.graphics, NULL, &pipeline);
    note(device, result, pipeline);
}

int main(int count, char **arguments)
{
    if (count != 4)
        die("usage: identifiers record|replay DIRECTORY COUNT");
    replay = strcmp(arguments[1], "replay") == 0;
    Options options = {.kind = KIND_MIXED, .api = VK_API_VERSION_1_3};
    Context context = {.api = VK_API_VERSION_1_3};
    Objects objects;
    context_create_instance(&context, &options);
    create_device(&context);
    objects_create(&objects, &context, &options);
    if (!replay)
        keep(&context, &objects, arguments[2]);
    for (uint32_t i = 0; i < RAYS_FIRST && replay; i++)
        file_of(arguments[2], i, "identifier", "rb", identifiers[i].bytes, sizeof identifiers[i].bytes);
    Kitchen kitchen = {.objects = &objects,
                       .options = &options,
                       .flags = replay ? VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT : 0};
    for (uint64_t i = 0; i < strtoull(arguments[3], NULL, 10); i++)
        create(context.device, &kitchen, i);
    printf("{\"created\": %lu, \"missed\": %lu}\n", created, missed);
    objects_destroy(&objects, context.device);
    context_destroy(&context);
    return 0;
}
