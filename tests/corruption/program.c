// A program with a VkPipelineCache and pipeline binaries of its own, as the demo's parts make it.
#include "corruption.h"

#include <stdlib.h>
#include <string.h>

static void must(VkResult result, const char *call)
{
    if (result != VK_SUCCESS)
        die("%s: VkResult %d", call, result);
}

void program_open(Program *program)
{
    char *line[] = {"corruption", "--count", "8", "--api", "1.3", "--cache-control", NULL};
    memset(program, 0, sizeof *program);
    program->options = options_parse(sizeof line / sizeof *line - 1, line);
    program->recipes = calloc(PIPELINES, sizeof *program->recipes);
    program->probes = calloc(PIPELINES, sizeof *program->probes);
    if (!program->recipes || !program->probes)
        die("out of memory");
    context_create_instance(&program->context, &program->options);
}

static void fill_recipes(Program *program, Recipe *recipes, VkPipelineCreateFlags flags)
{
    Kitchen kitchen = {.objects = &program->objects, .options = &program->options, .flags = flags};
    memset(recipes, 0, PIPELINES * sizeof *recipes);
    for (uint32_t i = 0; i < PIPELINES; ++i)
        (i % 2 ? graphics_recipe : compute_recipe)(&recipes[i], &kitchen, i / 2);
}

void program_open_device(Program *program)
{
    const Wanted wanted = {.binaries = true};
    extension_create_device(&program->extension, &program->context, &program->options, &wanted);
    objects_create(&program->objects, &program->context, &program->options);
    fill_recipes(program, program->recipes, 0);
    // Nothing compiles that corrupted data lacks: that takes milliseconds, and is no matter here.
    fill_recipes(program, program->probes, VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT);
}

void program_close_device(Program *program)
{
    objects_destroy(&program->objects, program->context.device);
    vkDestroyDevice(program->context.device, NULL);
}

void program_close(Program *program)
{
    vkDestroyInstance(program->context.instance, NULL);
    free(program->recipes);
    free(program->probes);
}

static VkResult create(Program *program, Recipe *recipe, uint32_t number, const void *chain, VkPipelineCache cache,
                       VkPipeline *pipeline)
{
    VkDevice device = program->context.device;
    *pipeline = VK_NULL_HANDLE;
    if (number % 2) {
        VkGraphicsPipelineCreateInfo info = recipe->graphics;
        info.pNext = chain ? chain : info.pNext;
        return vkCreateGraphicsPipelines(device, cache, 1, &info, NULL, pipeline);
    }
    VkComputePipelineCreateInfo info = recipe->compute;
    info.pNext = chain ? chain : info.pNext;
    return vkCreateComputePipelines(device, cache, 1, &info, NULL, pipeline);
}

static Outcome outcome_of(Program *program, VkResult result, VkPipeline pipeline)
{
    vkDestroyPipeline(program->context.device, pipeline, NULL);
    return result == VK_SUCCESS ? CREATED : result == VK_PIPELINE_COMPILE_REQUIRED ? MISSED : FAILED;
}

Outcome probe_pipeline(Program *program, uint32_t number, VkPipelineCache cache)
{
    VkPipeline pipeline;
    VkResult result = create(program, &program->probes[number], number, NULL, cache, &pipeline);
    return outcome_of(program, result, pipeline);
}

void compile_pipeline(Program *program, uint32_t number, VkPipelineCache cache)
{
    VkPipeline pipeline;
    must(create(program, &program->recipes[number], number, NULL, cache, &pipeline), "vkCreate*Pipelines");
    vkDestroyPipeline(program->context.device, pipeline, NULL);
}

// ---- Caches ----------------------------------------------------------------------------------------------------

VkPipelineCache open_cache(Program *program, const Bytes *data)
{
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                            .initialDataSize = data->size,
                                            .pInitialData = data->size ? data->bytes : NULL};
    VkPipelineCache cache = VK_NULL_HANDLE;
    return vkCreatePipelineCache(program->context.device, &info, NULL, &cache) == VK_SUCCESS ? cache : VK_NULL_HANDLE;
}

Bytes read_cache(Program *program, VkPipelineCache cache)
{
    size_t size = 0;
    must(vkGetPipelineCacheData(program->context.device, cache, &size, NULL), "vkGetPipelineCacheData");
    Bytes data = {malloc(size + 1), size};
    must(vkGetPipelineCacheData(program->context.device, cache, &data.size, data.bytes), "vkGetPipelineCacheData");
    return data;
}

// ---- Binaries --------------------------------------------------------------------------------------------------

static void read_binary(Program *program, VkPipelineBinaryKHR binary, VkPipelineBinaryKeyKHR *key,
                        VkPipelineBinaryDataKHR *data)
{
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    VkDevice device = program->context.device;
    *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    must(program->extension.get_data(device, &info, key, &data->dataSize, NULL), "vkGetPipelineBinaryDataKHR");
    data->pData = malloc(data->dataSize + 1);
    must(program->extension.get_data(device, &info, key, &data->dataSize, data->pData), "vkGetPipelineBinaryDataKHR");
}

Entry capture_pipeline(Program *program, uint32_t number)
{
    VkDevice device = program->context.device;
    VkPipeline pipeline;
    VkPipelineCreateFlags2CreateInfoKHR flags = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
                                                 .flags = VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR};
    must(create(program, &program->recipes[number], number, &flags, VK_NULL_HANDLE, &pipeline), "vkCreate*Pipelines");
    VkPipelineBinaryKHR binaries[MAX_BINARIES];
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pipeline = pipeline};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = MAX_BINARIES,
                                              .pPipelineBinaries = binaries};
    must(program->extension.create_binaries(device, &info, NULL, &handles), "vkCreatePipelineBinariesKHR");
    Entry entry = {.count = handles.pipelineBinaryCount};
    entry.key = (VkPipelineBinaryKeyKHR){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, .keySize = sizeof number, .key = {0}};
    memcpy(entry.key.key, &number, sizeof number); // the program finds its pipelines by their numbers
    entry.keys = calloc(MAX_BINARIES, sizeof *entry.keys);
    entry.data = calloc(MAX_BINARIES, sizeof *entry.data);
    for (uint32_t i = 0; i < entry.count; ++i) {
        read_binary(program, binaries[i], &entry.keys[i], &entry.data[i]);
        program->extension.destroy_binary(device, binaries[i], NULL);
    }
    vkDestroyPipeline(device, pipeline, NULL);
    return entry;
}

Outcome import_pipeline(Program *program, uint32_t number, const Entry *entry)
{
    VkDevice device = program->context.device;
    VkPipelineBinaryKHR binaries[MAX_BINARIES + 1] = {VK_NULL_HANDLE};
    VkPipeline pipeline;
    const VkPipelineBinaryKeysAndDataKHR data = {entry->count, entry->keys, entry->data};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pKeysAndDataInfo = &data};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = entry->count,
                                              .pPipelineBinaries = binaries};
    Outcome outcome = MISSED;
    if (program->extension.create_binaries(device, &info, NULL, &handles) == VK_SUCCESS) {
        const VkPipelineBinaryInfoKHR from = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                              .binaryCount = entry->count,
                                              .pPipelineBinaries = binaries};
        VkResult result = create(program, &program->recipes[number], number, &from, VK_NULL_HANDLE, &pipeline);
        outcome = outcome_of(program, result, pipeline);
    }
    for (uint32_t i = 0; i < entry->count; ++i)
        if (binaries[i])
            program->extension.destroy_binary(device, binaries[i], NULL);
    return outcome;
}
