/*
 * paths [--feedback] [--flags2] [--statistics] [--cache] [--times N] MODE...: creates pipelines in every way that the modes know, and
 * prints a line about each call (report.c).
 *
 * The modes run one after another, or, with --times, each so often and all at the same time; what they print comes in
 * the order of the command line. "all" stands for every mode.
 */
#include <pthread.h>
#include <stdlib.h>

#include "modes.h"

static const struct {
    const char *name;
    void (*run)(Path *path);
} modes[] = {
    {"caches", mode_caches},
    {"constants", mode_constants},
    {"derivatives", mode_derivatives},
    {"descriptor_heap", mode_descriptor_heap},
    {"device_group", mode_device_group},
    {"executables", mode_executables},
    {"feedback", mode_feedback},
    {"flags", mode_flags},
    {"inline_modules", mode_inline_modules},
    {"libraries", mode_libraries},
    {"private_data", mode_private_data},
    {"rendering", mode_rendering},
    {"robustness", mode_robustness},
    {"shader_objects", mode_shader_objects},
    {"stages", mode_stages},
    {"subgroups", mode_subgroups},
};

#define MOST_RUNS 256

typedef struct Run {
    Path path;
    void (*mode)(Path *path);
    pthread_t thread;
    char *text;
    size_t size;
} Run;

static Run runs[MOST_RUNS];
static uint32_t run_count;

static bool add_runs(const char *name, uint32_t times)
{
    bool found = false;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        if (strcmp(name, "all") != 0 && strcmp(name, modes[i].name) != 0)
            continue;
        found = true;
        for (uint32_t j = 0; j < times; j++) {
            if (run_count == MOST_RUNS)
                die("more than %d runs", MOST_RUNS);
            runs[run_count].path.name = modes[i].name;
            runs[run_count++].mode = modes[i].run;
        }
    }
    return found;
}

static void *run_one(void *argument)
{
    Run *run = argument;
    run->path.out = open_memstream(&run->text, &run->size);
    if (!run->path.out)
        die("no memory");
    run->mode(&run->path);
    fclose(run->path.out);
    return NULL;
}

static void run_all(const Context *context, const Options *options, VkPipelineCache cache)
{
    for (uint32_t i = 0; i < run_count; i++) {
        runs[i].path.context = context;
        runs[i].path.options = options;
        runs[i].path.cache = cache;
        if (!options->times)
            run_one(&runs[i]);
        else if (pthread_create(&runs[i].thread, NULL, run_one, &runs[i]) != 0)
            die("no more threads");
    }
    for (uint32_t i = 0; i < run_count; i++) {
        if (options->times)
            pthread_join(runs[i].thread, NULL);
        fputs(runs[i].text, stdout);
        free(runs[i].text);
    }
}

static bool read_option(char **arguments, int *at, Options *options)
{
    const char *option = arguments[*at];
    if (strcmp(option, "--feedback") == 0)
        options->feedback = true;
    else if (strcmp(option, "--flags2") == 0)
        options->flags2 = true;
    else if (strcmp(option, "--statistics") == 0)
        options->statistics = true;
    else if (strcmp(option, "--cache") == 0)
        options->cache = true;
    else if (strcmp(option, "--times") == 0 && arguments[*at + 1])
        options->times = (uint32_t)strtoul(arguments[++*at], NULL, 10);
    else
        return false;
    return true;
}

int main(int count, char **arguments)
{
    Options options = {.times = 0};
    int at = 1;
    while (at < count && read_option(arguments, &at, &options))
        at++;
    DeviceOptions device = {.group = false};
    for (; at < count; at++) {
        if (!add_runs(arguments[at], options.times ? options.times : 1))
            die("there is no mode '%s'", arguments[at]);
        device.group |= strcmp(arguments[at], "device_group") == 0;
        device.reserved_slots |= strcmp(arguments[at], "private_data") == 0;
    }
    Context context;
    context_create(&context, &device);
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (options.cache && vkCreatePipelineCache(context.device, &info, NULL, &cache) != VK_SUCCESS)
        die("vkCreatePipelineCache failed");
    run_all(&context, &options, cache);
    vkDestroyPipelineCache(context.device, cache, NULL);
    context_destroy(&context);
    return 0;
}
