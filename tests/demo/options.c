#include "options.h"

#include "../recipes/device.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: pipelines [options]\n"
    "Creates many distinct Vulkan pipelines, as a game or a compute program does, and says how long it took.\n"
    "\n"
    "What is created:\n"
    "  --count N                 pipelines to create (default 400)\n"
    "  --compute                 compute pipelines only (default: compute and graphics in turn)\n"
    "  --graphics                graphics pipelines only\n"
    "  --ray-tracing             ray tracing pipelines only (VK_KHR_ray_tracing_pipeline)\n"
    "  --gpl                     graphics pipeline libraries; each of N takes four libraries, a fast link\n"
    "                            and a link with LINK_TIME_OPTIMIZATION: six pipelines\n"
    "  --seed S                  choose other variants (default 1); the same S gives the same order\n"
    "\n"
    "How it is created:\n"
    "  --batch K                 K create infos in one call (default 1)\n"
    "  --deferred J              ray tracing pipelines in deferred operations, each joined by J threads\n"
    "  --threads T               T threads, each with a part of the pipelines (default 1)\n"
    "  --cache none|object|FILE  the program's own VkPipelineCache: none (default), empty, or from FILE\n"
    "                            (empty when there is no FILE)\n"
    "  --cache-save FILE         write that cache's data to FILE in the end\n"
    "  --feedback                chain VkPipelineCreationFeedbackCreateInfo\n"
    "  --fail-on-compile-required, --early-return\n"
    "                            set the flag of that name; both turn --cache-control on\n"
    "  --derivatives             make pipelines derivatives of earlier ones\n"
    "\n"
    "With VK_KHR_pipeline_binary, for which --batch and --threads are 1 and --api 1.3:\n"
    "  --source plain|capture|internal|create|unused\n"
    "                            where binaries come from: nowhere, the extension is not used; CAPTURE_DATA; the\n"
    "                            internal cache, then CAPTURE_DATA; the internal cache after a plain creation;\n"
    "                            nowhere, the extension is enabled\n"
    "  --archive FILE            the program's own file of them, read in the beginning and written in the end\n"
    "  --any-global-key          use binaries of another global key, too, which no driver has to bear\n"
    "  --no-modules              create from binaries without shader modules\n"
    "  --disable-internal-cache  VkDevicePipelineBinaryInternalCacheControlKHR\n"
    "\n"
    "Instance, device and process:\n"
    "  --api 1.0|1.1|1.2|1.3     apiVersion to ask for (default 1.1)\n"
    "  --features13              chain VkPhysicalDeviceVulkan13Features (needs --api 1.3); its\n"
    "                            pipelineCreationCacheControl is FALSE without --cache-control\n"
    "  --cache-control           enable pipelineCreationCacheControl\n"
    "  --device INDEX|NAME       a device by number or by part of its name (default: the first GPU, else\n"
    "                            the first device)\n"
    "  --repeat-instances N      create and destroy instance and device N times before\n"
    "  --no-destroy              end without destroying anything, by returning from main\n"
    "  --exit return|exit|_exit|abort\n"
    "                            the same, ended in this way\n"
    "  --json                    print one JSON object\n"
    "  --memory                  with the process's bytes of memory: resident at most up to the last creation, and\n"
    "                            resident and of no file a second later\n"
    "\n"
    "Exit status: 0 when every pipeline was created (or was refused as its flags asked for),\n"
    "1 on a failure, 2 on a wrong command line.\n";

bool uses_binaries(const Options *options)
{
    return options->source > SOURCE_PLAIN;
}

// ---- The table ---------------------------------------------------------------------------------------------------

typedef enum { NUMBER, TEXT, CHOICE, SET, FLAG } Type;

static const char *const apis[] = {"1.0", "1.1", "1.2", "1.3", NULL};
static const char *const exits[] = {"destroy", "return", "exit", "_exit", "abort", NULL};
static const char *const sources[] = {"", "plain", "capture", "internal", "create", "unused", NULL};

static const struct {
    const char *name;
    int argument;
    Type type;
    size_t field;
    uint32_t least, most; // NUMBER; SET: least
    const char *const *choices;
} table[] = {
#define AT(field) offsetof(Options, field)
    {"count", required_argument, NUMBER, AT(count), 1, 100000, NULL},
    {"compute", no_argument, SET, AT(kind), KIND_COMPUTE, 0, NULL},
    {"graphics", no_argument, SET, AT(kind), KIND_GRAPHICS, 0, NULL},
    {"ray-tracing", no_argument, SET, AT(kind), KIND_RAY_TRACING, 0, NULL},
    {"gpl", no_argument, SET, AT(kind), KIND_LIBRARIES, 0, NULL},
    {"seed", required_argument, NUMBER, AT(seed), 0, UINT32_MAX, NULL},
    {"batch", required_argument, NUMBER, AT(batch), 1, 4096, NULL},
    {"deferred", required_argument, NUMBER, AT(deferred), 1, 256, NULL},
    {"threads", required_argument, NUMBER, AT(threads), 1, 256, NULL},
    {"cache", required_argument, TEXT, AT(cache_file), 0, 0, NULL},
    {"cache-save", required_argument, TEXT, AT(cache_save), 0, 0, NULL},
    {"feedback", no_argument, FLAG, AT(feedback), 0, 0, NULL},
    {"fail-on-compile-required", no_argument, FLAG, AT(fail_on_compile_required), 0, 0, NULL},
    {"early-return", no_argument, FLAG, AT(early_return), 0, 0, NULL},
    {"derivatives", no_argument, FLAG, AT(derivatives), 0, 0, NULL},
    {"source", required_argument, CHOICE, AT(source), 0, 0, sources},
    {"archive", required_argument, TEXT, AT(archive), 0, 0, NULL},
    {"any-global-key", no_argument, FLAG, AT(any_global_key), 0, 0, NULL},
    {"no-modules", no_argument, FLAG, AT(no_modules), 0, 0, NULL},
    {"disable-internal-cache", no_argument, FLAG, AT(disable_internal_cache), 0, 0, NULL},
    {"api", required_argument, CHOICE, AT(api), 0, 0, apis},
    {"features13", no_argument, FLAG, AT(features13), 0, 0, NULL},
    {"cache-control", no_argument, FLAG, AT(cache_control), 0, 0, NULL},
    {"device", required_argument, TEXT, AT(device), 0, 0, NULL},
    {"repeat-instances", required_argument, NUMBER, AT(repeat_instances), 0, 100000, NULL},
    {"no-destroy", no_argument, SET, AT(exit_mode), EXIT_RETURN, 0, NULL},
    {"exit", required_argument, CHOICE, AT(exit_mode), 0, 0, exits},
    {"json", no_argument, FLAG, AT(json), 0, 0, NULL},
    {"memory", no_argument, FLAG, AT(memory), 0, 0, NULL},
#undef AT
};
enum { TABLE_SIZE = sizeof table / sizeof *table };

static _Noreturn void wrong(int row, const char *value)
{
    fprintf(stderr, "pipelines: wrong value '%s' for --%s (see --help)\n", value, table[row].name);
    exit(2);
}

static uint32_t number(int row, const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value < table[row].least || value > table[row].most)
        wrong(row, text);
    return (uint32_t)value;
}

static uint32_t choice(int row, const char *text)
{
    for (uint32_t i = 0; table[row].choices[i]; ++i)
        if (strcmp(text, table[row].choices[i]) == 0)
            return i;
    wrong(row, text);
}

static void apply(Options *options, int row, const char *value)
{
    void *field = (char *)options + table[row].field;
    uint32_t word = table[row].least; // of numbers and of enumerations
    switch (table[row].type) {
    case TEXT:
        memcpy(field, &value, sizeof value);
        return;
    case FLAG:
        *(bool *)field = true;
        return;
    case NUMBER:
        word = number(row, value);
        break;
    case CHOICE:
        word = choice(row, value);
        break;
    case SET:
        break;
    }
    memcpy(field, &word, sizeof word);
}

static void check(Options *o)
{
    if (o->cache_file)
        o->cache = strcmp(o->cache_file, "none") == 0     ? CACHE_NONE
                   : strcmp(o->cache_file, "object") == 0 ? CACHE_OBJECT
                                                          : CACHE_FILE;
    if (o->fail_on_compile_required || o->early_return)
        o->cache_control = true; // VUID-VkGraphicsPipelineCreateInfo-pipelineCreationCacheControl-02878
    if (o->features13 && o->api < VK_API_VERSION_1_3)
        die("--features13 needs --api 1.3");
    if (o->api < VK_API_VERSION_1_1 && o->kind == KIND_RAY_TRACING)
        die("--ray-tracing needs --api 1.1 or newer");
    if (o->deferred && o->kind != KIND_RAY_TRACING)
        die("--deferred needs --ray-tracing");
    if (o->deferred && o->early_return)
        die("--early-return does not go with --deferred"); // VUID-vkCreateRayTracingPipelinesKHR-deferredOperation-03587
    if (o->kind == KIND_LIBRARIES && o->derivatives)
        die("--derivatives does not go with --gpl");
    if (o->cache_save && o->cache == CACHE_NONE)
        die("--cache-save needs --cache object or --cache FILE");
    if (o->source && (o->batch > 1 || o->threads > 1 || o->deferred || o->api < VK_API_VERSION_1_3))
        die("--source does not go with --batch, --threads or --deferred, and needs --api 1.3");
    if (o->threads > o->count)
        o->threads = o->count;
}

Options options_parse(int argc, char **argv)
{
    enum { HELP = TABLE_SIZE };
    struct option names[TABLE_SIZE + 2] = {[HELP] = {"help", no_argument, NULL, HELP}};
    Options options = {.count = 400, .batch = 1, .threads = 1, .seed = 1, .api = 1};
    for (int i = 0; i < TABLE_SIZE; ++i)
        names[i] = (struct option){table[i].name, table[i].argument, NULL, i};
    for (int row; (row = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (row == '?')
            exit(2); // getopt_long has said what is wrong
        if (row == HELP) {
            fputs(usage, stdout);
            exit(0);
        }
        apply(&options, row, optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "pipelines: unexpected argument '%s' (see --help)\n", argv[optind]);
        exit(2);
    }
    options.api = VK_MAKE_API_VERSION(0, 1, options.api, 0);
    check(&options);
    return options;
}
