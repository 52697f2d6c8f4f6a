/*
 * How much memory a process needs for COUNT pipelines, all of which it keeps.
 *
 *   memory COUNT none|empty|FILE [NEW_FILE]
 *
 * none: without a VkPipelineCache. empty: with one that begins empty. FILE: with one that is loaded from this file, which
 * is read as games read theirs: into memory that is freed after vkCreatePipelineCache. NEW_FILE gets the cache's data in
 * the end. Prints one JSON object of bytes. `before` is measured when the device and the shaders exist, `at_once` right
 * after the last creation, and `settled` when a second has passed, in which whatever works beside the program ends. The
 * peak is the process's from its start to the last creation.
 *
 * It takes the first GPU, and asks of it what the demo asks of one; DEVICE=NAME or NUMBER chooses another.
 */
#include "../demo/recipes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static Context context;
static Objects objects;
static Options options = {.kind = KIND_MIXED, .api = VK_API_VERSION_1_1, .seed = 1};
static Kitchen kitchen = {.objects = &objects, .options = &options};

typedef struct {
    unsigned long long resident, peak, proportional, private_dirty, private_clean, anonymous;
} Memory;

static void must(VkResult result, const char *call)
{
    if (result != VK_SUCCESS)
        die("%s: VkResult %d", call, result);
}

/* Bytes that a file of /proc gives for a key in KiB. */
static unsigned long long bytes_of(const char *path, const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            kib = strtoull(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

static Memory memory_now(void)
{
    static const char status[] = "/proc/self/status", rollup[] = "/proc/self/smaps_rollup";
    return (Memory){bytes_of(status, "VmRSS:"),         bytes_of(status, "VmHWM:"),
                    bytes_of(rollup, "Pss:"),           bytes_of(rollup, "Private_Dirty:"),
                    bytes_of(rollup, "Private_Clean:"), bytes_of(rollup, "Anonymous:")};
}

static void print_memory(const char *name, Memory memory)
{
    printf("\"%s\": {\"resident\": %llu, \"peak\": %llu, \"proportional\": %llu, \"private_dirty\": %llu, "
           "\"private_clean\": %llu, \"anonymous\": %llu}",
           name, memory.resident, memory.peak, memory.proportional, memory.private_dirty, memory.private_clean,
           memory.anonymous);
}

static VkPipelineCache create_cache(const char *path)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    void *data = NULL;
    FILE *file = strcmp(path, "empty") ? fopen(path, "rb") : NULL;
    if (file) {
        fseek(file, 0, SEEK_END);
        info.initialDataSize = (size_t)ftell(file);
        rewind(file);
        info.pInitialData = data = malloc(info.initialDataSize);
        if (!data || fread(data, 1, info.initialDataSize, file) != info.initialDataSize)
            die("%s cannot be read", path);
        fclose(file);
    }
    must(vkCreatePipelineCache(context.device, &info, NULL, &cache), "vkCreatePipelineCache");
    free(data);
    return cache;
}

static void save_cache(VkPipelineCache cache, const char *path)
{
    size_t size = 0;
    must(vkGetPipelineCacheData(context.device, cache, &size, NULL), "vkGetPipelineCacheData");
    void *data = malloc(size);
    FILE *file = fopen(path, "wb");
    if (!data || !file)
        die("%s cannot be written", path);
    must(vkGetPipelineCacheData(context.device, cache, &size, data), "vkGetPipelineCacheData");
    if (fwrite(data, 1, size, file) != size || fclose(file))
        die("%s cannot be written", path);
    free(data);
}

static VkPipeline create(uint64_t number, VkPipelineCache cache)
{
    static Recipe recipe;
    VkPipeline pipeline;
    memset(&recipe, 0, sizeof recipe);
    if (number % 2) {
        graphics_recipe(&recipe, &kitchen, number / 2);
        must(vkCreateGraphicsPipelines(context.device, cache, 1, &recipe.graphics, NULL, &pipeline),
             "vkCreateGraphicsPipelines");
    } else {
        compute_recipe(&recipe, &kitchen, number / 2);
        must(vkCreateComputePipelines(context.device, cache, 1, &recipe.compute, NULL, &pipeline),
             "vkCreateComputePipelines");
    }
    return pipeline;
}

int main(int argument_count, char **arguments)
{
    if (argument_count < 3 || argument_count > 4)
        die("usage: memory COUNT none|empty|FILE [NEW_FILE]");
    uint32_t count = (uint32_t)strtoul(arguments[1], NULL, 10);
    options.device = getenv("DEVICE");
    context_create_instance(&context, &options);
    context_create_device(&context, &options);
    objects_create(&objects, &context, &options);
    VkPipeline *pipelines = calloc(count ? count : 1, sizeof *pipelines);
    if (!pipelines)
        die("out of memory");

    Memory before = memory_now();
    uint64_t start = now_ns();
    VkPipelineCache cache = strcmp(arguments[2], "none") ? create_cache(arguments[2]) : VK_NULL_HANDLE;
    for (uint32_t i = 0; i < count; ++i)
        pipelines[i] = create(i, cache);
    uint64_t create_ns = now_ns() - start;
    Memory at_once = memory_now();
    nanosleep(&(struct timespec){1, 0}, NULL);
    Memory settled = memory_now();

    printf("{\"pipelines\": %u, \"create_ns\": %llu, ", count, (unsigned long long)create_ns);
    print_memory("before", before);
    printf(", ");
    print_memory("at_once", at_once);
    printf(", ");
    print_memory("settled", settled);
    printf("}\n");
    fflush(stdout);

    if (argument_count > 3 && cache)
        save_cache(cache, arguments[3]);
    for (uint32_t i = 0; i < count; ++i)
        vkDestroyPipeline(context.device, pipelines[i], NULL);
    free(pipelines);
    vkDestroyPipelineCache(context.device, cache, NULL);
    objects_destroy(&objects, context.device);
    context_destroy(&context);
    return 0;
}
