#include "options.h"

#include "../recipes/device.h"

#include <stdlib.h>
#include <string.h>

bool uses_binaries(const Options *options)
{
    return options->source > SOURCE_PLAIN;
}

static char **words;
static int word_count;

// Whether there is such an option; its words become NULL. The last value counts.
static bool take(const char *name, const char **value)
{
    bool found = false;
    for (int i = 1; i < word_count; ++i) {
        if (!words[i] || strcmp(words[i], name) != 0)
            continue;
        found = true;
        words[i] = NULL;
        if (!value)
            continue;
        if (i + 1 == word_count)
            die("%s needs a value", name);
        *value = words[++i];
        words[i] = NULL;
    }
    return found;
}

static bool flag(const char *name)
{
    return take(name, NULL);
}

static const char *text(const char *name)
{
    const char *value = NULL;
    take(name, &value);
    return value;
}

static uint32_t number(const char *name, uint32_t otherwise)
{
    const char *value = text(name);
    char *end = "";
    unsigned long result = value ? strtoul(value, &end, 10) : otherwise;
    if (end == value || *end || result > UINT32_MAX)
        die("wrong value '%s' for %s", value, name);
    return (uint32_t)result;
}

// The place of the value in a list with commas.
static uint32_t choice(const char *name, const char *list, uint32_t otherwise)
{
    const char *value = text(name);
    char item[16];
    for (uint32_t i = 0; value && next_item(&list, item, sizeof item); ++i)
        if (strcmp(value, item) == 0)
            return i;
    if (value)
        die("wrong value '%s' for %s", value, name);
    return otherwise;
}

static void check(Options *o)
{
    if (!o->count || !o->threads || !o->batch || o->batch > MAX_BATCH)
        die("--count, --threads and --batch need a number, of at most %d in a batch", MAX_BATCH);
    if (o->source && (o->batch > 1 || o->threads > 1 || o->deferred || o->api < VK_API_VERSION_1_3))
        die("--source does not go with --batch, --threads or --deferred, and needs --api 1.3");
    for (int i = 1; i < word_count; ++i)
        if (words[i])
            die("unexpected argument '%s'", words[i]);
    if (o->cache_file)
        o->cache = strcmp(o->cache_file, "none") == 0     ? CACHE_NONE
                   : strcmp(o->cache_file, "object") == 0 ? CACHE_OBJECT
                                                          : CACHE_FILE;
    if (o->cache_save && o->cache == CACHE_NONE)
        die("--cache-save needs --cache object or --cache FILE");
    if (o->fail_on_compile_required || o->early_return)
        o->cache_control = true; // VUID-VkGraphicsPipelineCreateInfo-pipelineCreationCacheControl-02878
    if (o->threads > o->count)
        o->threads = o->count;
}

Options options_parse(int argc, char **argv)
{
    words = argv;
    word_count = argc;
    Options options = {
        .kind = flag("--compute")       ? KIND_COMPUTE
                : flag("--graphics")    ? KIND_GRAPHICS
                : flag("--ray-tracing") ? KIND_RAY_TRACING
                : flag("--gpl")         ? KIND_LIBRARIES
                                        : KIND_MIXED,
        .count = number("--count", 400),
        .distinct = number("--distinct", UINT32_MAX),
        .batch = number("--batch", 1),
        .threads = number("--threads", 1),
        .deferred = number("--deferred", 0),
        .seed = number("--seed", 1),
        .cache_file = text("--cache"),
        .cache_save = text("--cache-save"),
        .source = choice("--source", ",plain,capture,internal,create,unused", SOURCE_NONE),
        .archive = text("--archive"),
        .any_global_key = flag("--any-global-key"),
        .no_modules = flag("--no-modules"),
        .disable_internal_cache = flag("--disable-internal-cache"),
        .feedback = flag("--feedback"),
        .fail_on_compile_required = flag("--fail-on-compile-required"),
        .early_return = flag("--early-return"),
        .derivatives = flag("--derivatives"),
        .api = VK_MAKE_API_VERSION(0, 1, choice("--api", "1.0,1.1,1.2,1.3", 1), 0),
        .features13 = flag("--features13"),
        .cache_control = flag("--cache-control"),
        .device = text("--device"),
        .exit_mode = choice("--exit", "destroy,return,exit,_exit,abort", EXIT_DESTROY),
        .repeat_instances = number("--repeat-instances", 0),
        .json = flag("--json"),
        .memory = flag("--memory"),
    };
    if (flag("--no-destroy") && options.exit_mode == EXIT_DESTROY)
        options.exit_mode = EXIT_RETURN;
    check(&options);
    return options;
}
