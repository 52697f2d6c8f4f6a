#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

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
    "Instance, device and process:\n"
    "  --api 1.0|1.1|1.2|1.3     apiVersion to ask for (default 1.1)\n"
    "  --features13              chain VkPhysicalDeviceVulkan13Features (needs --api 1.3); its\n"
    "                            pipelineCreationCacheControl is FALSE without --cache-control\n"
    "  --cache-control           enable pipelineCreationCacheControl\n"
    "  --device INDEX|NAME       a device by number or by part of its name (default: the first GPU, else\n"
    "                            the first device)\n"
    "  --repeat-instances N      create and destroy instance and device N times before\n"
    "  --fork[=exit|_exit|create]\n"
    "                            fork after vkCreateInstance; the child calls exit (default) or _exit at once,\n"
    "                            or creates the pipelines too, and the parent goes on and waits for it\n"
    "  --no-destroy              end without destroying anything, by returning from main\n"
    "  --exit return|exit|_exit|abort\n"
    "                            the same, ended in this way\n"
    "  --json                    print one JSON object\n"
    "\n"
    "Exit status: 0 when every pipeline was created (or was refused as its flags asked for),\n"
    "1 on a failure, 2 on a wrong command line.\n";

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("pipelines: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static _Noreturn void wrong(const char *option, const char *value)
{
    fprintf(stderr, "pipelines: wrong value '%s' for --%s (see --help)\n", value, option);
    exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value < least || value > most)
        wrong(option, text);
    return value;
}

// The position of `text` in the list, which ends with NULL.
static int choice(const char *option, const char *text, const char *const *names)
{
    for (int i = 0; names[i]; ++i)
        if (strcmp(text, names[i]) == 0)
            return i;
    wrong(option, text);
}

static void parse_cache(Options *options, const char *text)
{
    options->cache = strcmp(text, "none") == 0 ? CACHE_NONE : strcmp(text, "object") == 0 ? CACHE_OBJECT : CACHE_FILE;
    options->cache_file = options->cache == CACHE_FILE ? text : NULL;
}

enum {
    OPT_COUNT = 256,
    OPT_COMPUTE,
    OPT_GRAPHICS,
    OPT_RAYS,
    OPT_GPL,
    OPT_SEED,
    OPT_BATCH,
    OPT_DEFERRED,
    OPT_THREADS,
    OPT_CACHE,
    OPT_SAVE,
    OPT_FEEDBACK,
    OPT_FAIL,
    OPT_EARLY,
    OPT_DERIVATIVES,
    OPT_API,
    OPT_FEATURES13,
    OPT_CONTROL,
    OPT_DEVICE,
    OPT_REPEAT,
    OPT_FORK,
    OPT_KEEP,
    OPT_EXIT,
    OPT_JSON,
    OPT_HELP
};

static const struct option long_options[] = {
    {"count", required_argument, NULL, OPT_COUNT},
    {"compute", no_argument, NULL, OPT_COMPUTE},
    {"graphics", no_argument, NULL, OPT_GRAPHICS},
    {"ray-tracing", no_argument, NULL, OPT_RAYS},
    {"gpl", no_argument, NULL, OPT_GPL},
    {"seed", required_argument, NULL, OPT_SEED},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"deferred", required_argument, NULL, OPT_DEFERRED},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"cache-save", required_argument, NULL, OPT_SAVE},
    {"feedback", no_argument, NULL, OPT_FEEDBACK},
    {"fail-on-compile-required", no_argument, NULL, OPT_FAIL},
    {"early-return", no_argument, NULL, OPT_EARLY},
    {"derivatives", no_argument, NULL, OPT_DERIVATIVES},
    {"api", required_argument, NULL, OPT_API},
    {"features13", no_argument, NULL, OPT_FEATURES13},
    {"cache-control", no_argument, NULL, OPT_CONTROL},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"repeat-instances", required_argument, NULL, OPT_REPEAT},
    {"fork", optional_argument, NULL, OPT_FORK},
    {"no-destroy", no_argument, NULL, OPT_KEEP},
    {"exit", required_argument, NULL, OPT_EXIT},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void apply(Options *o, int option, const char *value)
{
    static const char *const apis[] = {"1.0", "1.1", "1.2", "1.3", NULL};
    static const char *const exits[] = {"destroy", "return", "exit", "_exit", "abort", NULL};
    static const char *const forks[] = {"none", "exit", "_exit", "create", NULL};
    switch (option) {
    case OPT_COUNT:
        o->count = (uint32_t)number("count", value, 1, 100000);
        break;
    case OPT_COMPUTE:
        o->kind = KIND_COMPUTE;
        break;
    case OPT_GRAPHICS:
        o->kind = KIND_GRAPHICS;
        break;
    case OPT_RAYS:
        o->kind = KIND_RAY_TRACING;
        break;
    case OPT_GPL:
        o->kind = KIND_LIBRARIES;
        break;
    case OPT_SEED:
        o->seed = number("seed", value, 0, UINT64_MAX);
        break;
    case OPT_BATCH:
        o->batch = (uint32_t)number("batch", value, 1, 4096);
        break;
    case OPT_DEFERRED:
        o->deferred = (uint32_t)number("deferred", value, 1, 256);
        break;
    case OPT_THREADS:
        o->threads = (uint32_t)number("threads", value, 1, 256);
        break;
    case OPT_CACHE:
        parse_cache(o, value);
        break;
    case OPT_SAVE:
        o->cache_save = value;
        break;
    case OPT_FEEDBACK:
        o->feedback = true;
        break;
    case OPT_FAIL:
        o->fail_on_compile_required = true;
        break;
    case OPT_EARLY:
        o->early_return = true;
        break;
    case OPT_DERIVATIVES:
        o->derivatives = true;
        break;
    case OPT_API:
        o->api = VK_MAKE_API_VERSION(0, 1, choice("api", value, apis), 0);
        break;
    case OPT_FEATURES13:
        o->features13 = true;
        break;
    case OPT_CONTROL:
        o->cache_control = true;
        break;
    case OPT_DEVICE:
        o->device = value;
        break;
    case OPT_REPEAT:
        o->repeat_instances = (uint32_t)number("repeat-instances", value, 0, 100000);
        break;
    case OPT_FORK:
        o->fork_mode = value ? (ForkMode)choice("fork", value, forks) : FORK_EXIT;
        break;
    case OPT_KEEP:
        o->exit_mode = EXIT_RETURN;
        break;
    case OPT_EXIT:
        o->exit_mode = (ExitMode)choice("exit", value, exits);
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_HELP:
        fputs(usage, stdout);
        exit(0);
    default:
        exit(2); // getopt_long has said what is wrong
    }
}

static void check(Options *o)
{
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
    if (o->threads > o->count)
        o->threads = o->count;
}

Options options_parse(int argc, char **argv)
{
    Options options = {.count = 400, .batch = 1, .threads = 1, .seed = 1, .api = VK_API_VERSION_1_1};
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;)
        apply(&options, option, optarg);
    if (optind < argc) {
        fprintf(stderr, "pipelines: unexpected argument '%s' (see --help)\n", argv[optind]);
        exit(2);
    }
    check(&options);
    return options;
}
