// A program that uses VK_KHR_pipeline_binary as it is meant to be used: it asks for a pipeline's key, looks into its own
// archive, creates from binaries, and otherwise gets them from the driver for the next time. The pipelines are the demo's.
// It says how long each step took: without layers that is the least that creating from binaries costs.

#include "archive.h"
#include "extension.h"
#include "recipes.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { CALL_COMPUTE, CALL_GRAPHICS, CALL_RAYS } Call;

// Where the binaries come from that the archive lacks.
typedef enum {
    SOURCE_PLAIN,    // nowhere: the program does not use the extension
    SOURCE_CAPTURE,  // compiled with CAPTURE_DATA
    SOURCE_INTERNAL, // the driver's internal cache, and where it has none, as above
    SOURCE_CREATE,   // created as ever, then asked of the internal cache
    SOURCE_UNUSED,   // nowhere: the program enables the extension and calls none of its commands
} Source;

typedef struct {
    const char *archive;
    Source source;
    bool any_global_key;
    bool no_modules;
    Wanted wanted;
} Settings;

typedef struct {
    uint64_t pipelines, created, failed;
    uint64_t from_archive, from_internal, captured, compiled;
    uint64_t import_failed, from_binaries_failed, read_failed;
    uint64_t feedback_untouched;
    uint64_t key_ns, lookup_ns, import_ns, create_ns;
    VkResult import_result; // the last that was no success
} Tally;

// Binaries that a pipeline was made from live as long as it does: nothing in the specification allows less.
typedef struct {
    VkPipeline pipeline;
    VkPipelineBinaryKHR *binaries;
    uint32_t count;
} Made;

typedef struct {
    Settings settings;
    Options options;
    Context context;
    Objects objects;
    Kitchen kitchen;
    Extension extension;
    Archive archive;
    ArchiveState archive_state;
    Tally tally;
    Made *made;
    uint32_t made_count;
} Program;

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die("out of memory");
    return memory;
}

// ---- Create infos ----------------------------------------------------------------------------------------------

// All three begin alike: sType, pNext, flags.
static VkComputePipelineCreateInfo *head_of(Recipe *recipe, Call call)
{
    switch (call) {
    case CALL_COMPUTE:
        return &recipe->compute;
    case CALL_GRAPHICS:
        return (VkComputePipelineCreateInfo *)(void *)&recipe->graphics;
    default:
        return (VkComputePipelineCreateInfo *)(void *)&recipe->rays;
    }
}

static VkResult create(Program *program, Recipe *recipe, Call call, VkPipeline *pipeline)
{
    VkDevice device = program->context.device;
    uint64_t start = now_ns();
    VkResult result;
    *pipeline = VK_NULL_HANDLE;
    if (call == CALL_COMPUTE)
        result = vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &recipe->compute, NULL, pipeline);
    else if (call == CALL_GRAPHICS)
        result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &recipe->graphics, NULL, pipeline);
    else
        result = program->context.create_ray_tracing_pipelines(device, VK_NULL_HANDLE, VK_NULL_HANDLE, 1, &recipe->rays,
                                                               NULL, pipeline);
    program->tally.create_ns += now_ns() - start;
    return result;
}

static VkResult create_with_capture(Program *program, Recipe *recipe, Call call, VkPipeline *pipeline)
{
    VkComputePipelineCreateInfo *head = head_of(recipe, call);
    const void *chain = head->pNext;
    const VkPipelineCreateFlags2CreateInfoKHR flags = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
        .pNext = chain,
        .flags = head->flags | VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR,
    };
    head->pNext = &flags;
    VkResult result = create(program, recipe, call, pipeline);
    head->pNext = chain;
    return result;
}

// VUID-VkPipelineShaderStageCreateInfo-stage-08771: not needed beside binaries.
static void remove_modules(Recipe *recipe, Call call)
{
    if (call == CALL_COMPUTE)
        recipe->compute.stage.module = VK_NULL_HANDLE;
    for (uint32_t i = 0; i < recipe->stage_count; ++i)
        recipe->stages[i].module = VK_NULL_HANDLE;
}

static VkResult create_from(Program *program, Recipe *recipe, Call call, const VkPipelineBinaryKHR *binaries,
                            uint32_t count, VkPipeline *pipeline)
{
    VkComputePipelineCreateInfo *head = head_of(recipe, call);
    const void *chain = head->pNext;
    const VkPipelineBinaryInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                          .pNext = chain,
                                          .binaryCount = count,
                                          .pPipelineBinaries = binaries};
    if (program->settings.no_modules)
        remove_modules(recipe, call);
    head->pNext = count ? &info : chain;
    VkResult result = create(program, recipe, call, pipeline);
    head->pNext = chain;
    return result;
}

// ---- Binaries --------------------------------------------------------------------------------------------------

static void destroy_binaries(const Program *program, VkPipelineBinaryKHR *binaries, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i)
        if (binaries[i])
            program->extension.destroy_binary(program->context.device, binaries[i], NULL);
    free(binaries);
}

// Both calls. On failure nothing is left of them.
static VkResult fetch_binaries(const Program *program, const VkPipelineBinaryCreateInfoKHR *info, Made *out)
{
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR};
    VkResult result = program->extension.create_binaries(program->context.device, info, NULL, &handles);
    out->count = 0;
    out->binaries = NULL;
    if (result != VK_SUCCESS)
        return result;
    handles.pPipelineBinaries = allocate(handles.pipelineBinaryCount, sizeof *handles.pPipelineBinaries);
    uint32_t room = handles.pipelineBinaryCount;
    result = program->extension.create_binaries(program->context.device, info, NULL, &handles);
    if (result != VK_SUCCESS) {
        destroy_binaries(program, handles.pPipelineBinaries, room);
        return result;
    }
    out->count = handles.pipelineBinaryCount;
    out->binaries = handles.pPipelineBinaries;
    return VK_SUCCESS;
}

static VkResult import_binaries(Program *program, const Entry *entry, Made *out)
{
    const VkPipelineBinaryKeysAndDataKHR data = {entry->count, entry->keys, entry->data};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pKeysAndDataInfo = &data};
    VkPipelineBinaryHandlesInfoKHR handles = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
        .pipelineBinaryCount = entry->count,
        .pPipelineBinaries = allocate(entry->count, sizeof(VkPipelineBinaryKHR)),
    };
    // Outputs: each is a binary, or VK_NULL_HANDLE.
    memset(handles.pPipelineBinaries, 0xab, entry->count * sizeof(VkPipelineBinaryKHR));
    uint64_t start = now_ns();
    VkResult result = program->extension.create_binaries(program->context.device, &info, NULL, &handles);
    program->tally.import_ns += now_ns() - start;
    out->count = entry->count;
    out->binaries = handles.pPipelineBinaries;
    if (result != VK_SUCCESS) {
        destroy_binaries(program, handles.pPipelineBinaries, entry->count);
        *out = (Made){.pipeline = VK_NULL_HANDLE};
    }
    return result;
}

// A size that grew between the calls is asked for again.
static VkResult read_binary(const Program *program, VkPipelineBinaryKHR binary, VkPipelineBinaryKeyKHR *key,
                            VkPipelineBinaryDataKHR *data)
{
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    VkResult result;
    *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    do {
        free(data->pData);
        *data = (VkPipelineBinaryDataKHR){0, NULL};
        result = program->extension.get_data(program->context.device, &info, key, &data->dataSize, NULL);
        if (result != VK_SUCCESS)
            return result;
        data->pData = allocate(data->dataSize, 1);
        result = program->extension.get_data(program->context.device, &info, key, &data->dataSize, data->pData);
    } while (result == VK_ERROR_NOT_ENOUGH_SPACE_KHR);
    return result;
}

static void keep_binaries(Program *program, const VkPipelineBinaryKeyKHR *key, const Made *made)
{
    Entry entry = {.key = *key, .count = made->count};
    entry.keys = allocate(made->count, sizeof *entry.keys);
    entry.data = allocate(made->count, sizeof *entry.data);
    bool whole = archive_find(&program->archive, key) == NULL;
    for (uint32_t i = 0; whole && i < made->count; ++i)
        whole = read_binary(program, made->binaries[i], &entry.keys[i], &entry.data[i]) == VK_SUCCESS;
    if (whole) {
        archive_add(&program->archive, &entry);
        return;
    }
    for (uint32_t i = 0; i < made->count; ++i)
        free(entry.data[i].pData);
    free(entry.keys);
    free(entry.data);
}

static VkResult probe(Program *program, Recipe *recipe, Call call, Made *out)
{
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, head_of(recipe, call)};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pPipelineCreateInfo = &keyed};
    return fetch_binaries(program, &info, out);
}

// ---- One pipeline ----------------------------------------------------------------------------------------------

static bool make_from_archive(Program *program, Recipe *recipe, Call call, const Entry *entry, Made *made)
{
    Tally *tally = &program->tally;
    if (entry->count == 0)
        return create(program, recipe, call, &made->pipeline) == VK_SUCCESS;
    VkResult result = import_binaries(program, entry, made);
    if (result != VK_SUCCESS) {
        ++tally->import_failed;
        tally->import_result = result;
        return false;
    }
    result = create_from(program, recipe, call, made->binaries, made->count, &made->pipeline);
    if (result != VK_SUCCESS) {
        ++tally->from_binaries_failed;
        destroy_binaries(program, made->binaries, made->count);
        *made = (Made){.pipeline = VK_NULL_HANDLE};
        return false;
    }
    ++tally->from_archive;
    return true;
}

static bool make_from_internal_cache(Program *program, Recipe *recipe, Call call, const VkPipelineBinaryKeyKHR *key,
                                     Made *made)
{
    if (probe(program, recipe, call, made) != VK_SUCCESS)
        return false;
    if (create_from(program, recipe, call, made->binaries, made->count, &made->pipeline) != VK_SUCCESS) {
        destroy_binaries(program, made->binaries, made->count);
        *made = (Made){.pipeline = VK_NULL_HANDLE};
        return false;
    }
    keep_binaries(program, key, made);
    ++program->tally.from_internal;
    return true;
}

static void make_with_capture(Program *program, Recipe *recipe, Call call, const VkPipelineBinaryKeyKHR *key,
                              Made *made)
{
    Made captured;
    if (create_with_capture(program, recipe, call, &made->pipeline) != VK_SUCCESS)
        return;
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pipeline = made->pipeline};
    const VkReleaseCapturedPipelineDataInfoKHR release = {
        .sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR, .pipeline = made->pipeline};
    if (fetch_binaries(program, &info, &captured) == VK_SUCCESS)
        keep_binaries(program, key, &captured);
    else
        ++program->tally.read_failed;
    destroy_binaries(program, captured.binaries, captured.count);
    program->extension.release_captured(program->context.device, &release, NULL);
    ++program->tally.captured;
}

static void make_and_ask(Program *program, Recipe *recipe, Call call, const VkPipelineBinaryKeyKHR *key, Made *made)
{
    Made found;
    ++program->tally.compiled;
    if (create(program, recipe, call, &made->pipeline) != VK_SUCCESS)
        return;
    if (probe(program, recipe, call, &found) == VK_SUCCESS)
        keep_binaries(program, key, &found);
    destroy_binaries(program, found.binaries, found.count);
}

static void make(Program *program, Recipe *recipe, Call call, bool may_be_keyed, Made *made)
{
    const Extension *extension = &program->extension;
    bool internal_cache =
        extension->properties.pipelineBinaryInternalCache && !program->settings.wanted.disable_internal_cache;
    Source source = may_be_keyed ? program->settings.source : SOURCE_PLAIN;
    if (source == SOURCE_PLAIN || source == SOURCE_UNUSED) {
        ++program->tally.compiled;
        create(program, recipe, call, &made->pipeline);
        return;
    }
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, head_of(recipe, call)};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    uint64_t start = now_ns();
    VkResult result = extension->get_key(program->context.device, &keyed, &key);
    uint64_t keyed_at = now_ns();
    if (result != VK_SUCCESS)
        die("vkGetPipelineKeyKHR: VkResult %d", result);
    const Entry *entry = archive_find(&program->archive, &key);
    program->tally.key_ns += keyed_at - start;
    program->tally.lookup_ns += now_ns() - keyed_at;
    if (entry && make_from_archive(program, recipe, call, entry, made))
        return;
    if (source == SOURCE_INTERNAL && internal_cache && make_from_internal_cache(program, recipe, call, &key, made))
        return;
    if (internal_cache && (source == SOURCE_CREATE || extension->properties.pipelineBinaryPrefersInternalCache))
        make_and_ask(program, recipe, call, &key, made);
    else
        make_with_capture(program, recipe, call, &key, made);
}

// ---- All pipelines ---------------------------------------------------------------------------------------------

static VkPipeline add(Program *program, Recipe *recipe, Call call, bool may_be_keyed)
{
    Made made = {.pipeline = VK_NULL_HANDLE};
    make(program, recipe, call, may_be_keyed, &made);
    program->tally.feedback_untouched += program->options.feedback && recipe->feedback.flags == FEEDBACK_UNTOUCHED;
    ++program->tally.pipelines;
    ++*(made.pipeline ? &program->tally.created : &program->tally.failed);
    program->made[program->made_count++] = made;
    return made.pipeline;
}

static void add_libraries(Program *program, Recipe *whole, Recipe *part, uint32_t number)
{
    VkPipeline parts[LIBRARY_PARTS];
    graphics_recipe(whole, &program->kitchen, number);
    for (uint32_t i = 0; i < LIBRARY_PARTS; ++i) {
        library_recipe(part, whole, &program->kitchen, i);
        parts[i] = add(program, part, CALL_GRAPHICS, true);
        if (!parts[i])
            return; // nothing to link
    }
    for (int optimized = 0; optimized < 2; ++optimized) {
        linked_recipe(part, &program->kitchen, parts, optimized);
        // RADV 25.0.7 crashes when it is asked for the key of a fast-linked pipeline.
        add(program, part, CALL_GRAPHICS, optimized);
    }
}

static void create_all(Program *program)
{
    Recipe *recipe = allocate(1, sizeof *recipe), *part = allocate(1, sizeof *part);
    Kind kind = program->options.kind;
    for (uint32_t number = 0; number < program->options.count; ++number) {
        if (kind == KIND_LIBRARIES) {
            add_libraries(program, recipe, part, number);
        } else if (kind == KIND_RAY_TRACING) {
            ray_tracing_recipe(recipe, &program->kitchen, number);
            add(program, recipe, CALL_RAYS, true);
        } else {
            bool compute = kind == KIND_MIXED ? number % 2 == 0 : kind == KIND_COMPUTE;
            uint32_t which = kind == KIND_MIXED ? number / 2 : number;
            (compute ? compute_recipe : graphics_recipe)(recipe, &program->kitchen, which);
            add(program, recipe, compute ? CALL_COMPUTE : CALL_GRAPHICS, true);
        }
    }
    free(recipe);
    free(part);
}

static void destroy_all(Program *program)
{
    for (uint32_t i = 0; i < program->made_count; ++i) {
        vkDestroyPipeline(program->context.device, program->made[i].pipeline, NULL);
        destroy_binaries(program, program->made[i].binaries, program->made[i].count);
    }
    free(program->made);
}

// ---- The program -----------------------------------------------------------------------------------------------

static void print(const Program *program, const VkPipelineBinaryKeyKHR *global_key)
{
    const Tally *t = &program->tally;
    static const char *const states[] = {"absent", "loaded", "stale"};
    printf("{\"internal_cache\": %u, \"global_key\": \"", program->extension.properties.pipelineBinaryInternalCache);
    for (uint32_t i = 0; i < global_key->keySize; ++i)
        printf("%02x", global_key->key[i]);
    printf("\", \"archive\": \"%s\"", states[program->archive_state]);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"pipelines", t->pipelines},
        {"created", t->created},
        {"failed", t->failed},
        {"from_archive", t->from_archive},
        {"from_internal", t->from_internal},
        {"captured", t->captured},
        {"compiled", t->compiled},
        {"import_failed", t->import_failed},
        {"from_binaries_failed", t->from_binaries_failed},
        {"read_failed", t->read_failed},
        {"feedback_untouched", t->feedback_untouched},
        {"key_ns", t->key_ns},
        {"lookup_ns", t->lookup_ns},
        {"import_ns", t->import_ns},
        {"create_ns", t->create_ns},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
        printf(", \"%s\": %" PRIu64, numbers[i].name, numbers[i].value);
    printf(", \"import_result\": %d}\n", t->import_result);
}

static const char usage[] =
    "usage: binaries [options]\n"
    "Creates pipelines of the demo program with VK_KHR_pipeline_binary and prints a JSON object.\n"
    "  --count N                 pipelines to create (default 12)\n"
    "  --compute, --graphics, --ray-tracing, --gpl\n"
    "                            of one kind only (default: compute and graphics in turn)\n"
    "  --seed S                  choose other variants (default 1)\n"
    "  --archive FILE            the program's own file of binaries: read in the beginning, written in the end\n"
    "  --any-global-key          use a file that was made under another global key, as no program should\n"
    "  --source plain|capture|internal|create|unused\n"
    "                            where binaries come from that the file lacks: nowhere, the extension is not used;\n"
    "                            CAPTURE_DATA; the internal cache, then CAPTURE_DATA; the internal cache after a\n"
    "                            plain creation (default internal); nowhere, the extension is enabled\n"
    "  --no-modules              create from binaries without shader modules\n"
    "  --disable-internal-cache  VkDevicePipelineBinaryInternalCacheControlKHR\n"
    "  --feedback                chain VkPipelineCreationFeedbackCreateInfo\n";

static _Noreturn void wrong(const char *text)
{
    fprintf(stderr, "binaries: %s\n%s", text, usage);
    exit(2);
}

static Source parse_source(const char *text)
{
    static const char *const names[] = {"plain", "capture", "internal", "create", "unused"};
    for (int i = 0; i < 5; ++i)
        if (strcmp(text, names[i]) == 0)
            return (Source)i;
    wrong("no such source");
}

static void parse(int argc, char **argv, Settings *settings, Options *options)
{
    enum { COUNT = 1, SEED, ARCHIVE, ANY, SOURCE, NO_MODULES, DISABLE, FEEDBACK };
    int kind = KIND_MIXED;
    const struct option table[] = {{"count", required_argument, NULL, COUNT},
                                   {"compute", no_argument, &kind, KIND_COMPUTE},
                                   {"graphics", no_argument, &kind, KIND_GRAPHICS},
                                   {"ray-tracing", no_argument, &kind, KIND_RAY_TRACING},
                                   {"gpl", no_argument, &kind, KIND_LIBRARIES},
                                   {"seed", required_argument, NULL, SEED},
                                   {"archive", required_argument, NULL, ARCHIVE},
                                   {"any-global-key", no_argument, NULL, ANY},
                                   {"source", required_argument, NULL, SOURCE},
                                   {"no-modules", no_argument, NULL, NO_MODULES},
                                   {"disable-internal-cache", no_argument, NULL, DISABLE},
                                   {"feedback", no_argument, NULL, FEEDBACK},
                                   {NULL, 0, NULL, 0}};
    settings->source = SOURCE_INTERNAL;
    *options = (Options){.count = 12, .batch = 1, .threads = 1, .seed = 1, .api = VK_API_VERSION_1_3};
    for (int name; (name = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (name) {
        case 0: // a kind, which getopt has stored
            break;
        case COUNT:
            options->count = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case SEED:
            options->seed = strtoull(optarg, NULL, 10);
            break;
        case ARCHIVE:
            settings->archive = optarg;
            break;
        case ANY:
            settings->any_global_key = true;
            break;
        case SOURCE:
            settings->source = parse_source(optarg);
            break;
        case NO_MODULES:
            settings->no_modules = true;
            break;
        case DISABLE:
            settings->wanted.disable_internal_cache = true;
            break;
        case FEEDBACK:
            options->feedback = true;
            break;
        default:
            wrong("wrong option");
        }
    }
    if (optind < argc || options->count == 0)
        wrong("wrong arguments");
    options->kind = (Kind)kind;
    settings->wanted.binaries = settings->source != SOURCE_PLAIN;
}

int main(int argc, char **argv)
{
    Program program;
    memset(&program, 0, sizeof program);
    parse(argc, argv, &program.settings, &program.options);
    context_create_instance(&program.context, &program.options);
    extension_create_device(&program.extension, &program.context, &program.options, &program.settings.wanted);
    objects_create(&program.objects, &program.context, &program.options);
    program.kitchen = (Kitchen){
        .objects = &program.objects, .options = &program.options, .ray_recursion = program.context.ray_recursion};
    program.made = allocate((size_t)program.options.count * (LIBRARY_PARTS + 2), sizeof *program.made);
    VkPipelineBinaryKeyKHR global_key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    if (program.settings.wanted.binaries && program.settings.source != SOURCE_UNUSED) {
        VkResult result = program.extension.get_key(program.context.device, NULL, &global_key);
        if (result != VK_SUCCESS)
            die("vkGetPipelineKeyKHR: VkResult %d", result);
        program.archive_state =
            archive_load(&program.archive, program.settings.archive, &global_key, program.settings.any_global_key);
    }
    create_all(&program);
    if (program.settings.wanted.binaries && program.settings.archive)
        archive_save(&program.archive, program.settings.archive);
    destroy_all(&program);
    objects_destroy(&program.objects, program.context.device);
    context_destroy(&program.context);
    print(&program, &global_key);
    archive_destroy(&program.archive);
    return program.tally.failed ? 1 : 0;
}
