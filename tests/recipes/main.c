/*
 * recipes - a Vulkan program that does what recipes say, and prints one line for each of their lines.
 *
 *   recipes [allocator]                              recipes from standard input
 *   recipes [--feedback] [--statistics] [--flags2] [--cache] [--times N] [--shared] [--names] FILE...
 *                                                    files, on one device, each with slots of its own
 *
 * A recipe is a line `device FEATURE...` and lines of calls: see the functions run_*. On standard input it stands
 * between `begin SALT` and `end`, and has a device of its own; recipes of other salts have other shaders. A line of a
 * file may begin with a name and a colon. What is printed for it begins with that name and the file's:
 * `derivatives.scene-parent result=0 P0=set`. Files run one after another, or, with --times, each so often and all at
 * the same time. With --shared the first runs before, once, and its caches are in the slots of the others. What is
 * printed says nothing that may differ between two runs of one driver.
 *
 * --feedback, --statistics and --flags2 add these to each pipeline that has none. With --cache the program passes a
 * VkPipelineCache wherever a recipe passes none, and with --names the instance has VK_EXT_debug_utils. What is printed
 * last, `used=1 live=0 foreign=0`, is of `allocator`.
 */
#include "recipes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int slot_of(const char *word, char letter)
{
    if (!word || word[0] != letter || word[1] < '0' || word[1] > '9' || word[2] != '\0')
        return -1;
    int slot = word[1] - '0';
    return slot < SLOTS ? slot : -1;
}

const char done[] = "done";

/* ---- lines --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int least_words;
    const char *(*run)(State *, const Words *);
} simple_lines[] = {
#define SIMPLE_LINE(name, least_words, function) {name, least_words, function},
    LINES(SIMPLE_LINE)};

/* NULL where the line has no more elements; slash by slash. */
static uint32_t cut_elements(char *text, Words *elements)
{
    uint32_t count = 0;
    char *rest = NULL;
    for (char *element = text ? strtok_r(text, "/", &rest) : NULL; element && count < MAX_BATCH;
         element = strtok_r(NULL, "/", &rest))
        elements[count++] = words_cut(element);
    return count;
}

/* Returns done, NULL if something else was printed, or why the line is skipped. */
static const char *run_words(State *state, const Words *words, char *behind)
{
    static const char *const points[] = {"compute", "graphics", "rays"};
    const char *name = words->count ? words->word[0] : "";
    Words elements[MAX_BATCH];
    for (int point = POINT_COMPUTE; point <= POINT_RAYS; point++)
        if (strcmp(name, points[point]) == 0)
            return run_pipelines(state, (Point)point, words, elements, cut_elements(behind, elements));
    for (size_t i = 0; i < COUNT_OF(simple_lines); i++)
        if (words->count >= simple_lines[i].least_words && strcmp(name, simple_lines[i].name) == 0)
            return simple_lines[i].run(state, words);
    return "line";
}

static void run_line(State *state, char *line)
{
    static const char unless[] = "if-required ";
    const char *said = "not-required";
    bool conditional = strncmp(line, unless, strlen(unless)) == 0;
    if (!conditional || state->last == VK_PIPELINE_COMPILE_REQUIRED) {
        line += conditional ? strlen(unless) : 0;
        char *behind = strchr(line, ':');
        if (behind)
            *behind++ = '\0';
        Words words = words_cut(line);
        said = run_words(state, &words, behind);
    }
    if (said)
        fprintf(state->out, "%s%s\n", said == done ? "" : "skip ", said);
}

void state_clear(State *state)
{
    Device *device = state->device;
    canvas_destroy(state);
    if (device->has[BINARIES])
        device->commands.destroy_binary(device->handle, VK_NULL_HANDLE, device->allocator);
    for (int i = 0; i < SLOTS; i++) {
        pipeline_slot_clear(state, &state->pipelines[i]);
        binary_slot_clear(state, &state->binaries[i]);
        binary_data_clear(&state->binary_data[i]);
        if (!state->shared || state->caches[i] != state->shared->caches[i])
            vkDestroyPipelineCache(device->handle, state->caches[i], device->allocator);
        free(state->data[i].bytes);
    }
    for (int i = 0; i < SHADER_COUNT; i++)
        vkDestroyShaderModule(device->handle, state->modules[i], device->allocator);
    for (int i = 0; i < PRIVATE_SLOTS; i++)
        if (state->private_slots[i])
            vkDestroyPrivateDataSlot(device->handle, state->private_slots[i], device->allocator);
    /* Operations that nobody destroyed, which a driver may still use, are no leaks. */
    static struct Operation *left[SLOTS];
    memcpy(left, state->operations, sizeof left);
    *state = (State){.device = device, .out = state->out, .add = state->add};
}

/* ---- recipes on standard input ------------------------------------------------------------------------------------ */

static void end_recipe(State *state)
{
    bool counted = state->device->allocator != NULL;
    if (state->device->handle) {
        state_clear(state);
        objects_destroy(state->device);
        device_destroy(state->device);
    }
    if (counted)
        allocator_report();
    puts("end");
    fflush(stdout);
}

static void run_stdin(State *state)
{
    char line[MAX_LINE];
    /* What was printed is there when a call crashes. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "begin ", 6) == 0) {
            shaders_salt(state, (uint32_t)strtoul(line + 6, NULL, 10));
        } else if (strncmp(line, "device", 6) == 0 && !state->device->handle) {
            Words words = words_cut(line);
            VkResult result = device_create(state->device, &words);
            printf("result=%d\n", result ? result : objects_create(state->device, &words));
        } else if (strcmp(line, "end\n") == 0) {
            end_recipe(state);
        } else if (state->device->handle) {
            run_line(state, line);
        }
    }
}

/* ---- recipes in files ---------------------------------------------------------------------------------------------- */

typedef struct Run {
    State state;
    bool stays; /* for others */
    const char *path;
    pthread_t thread;
    char *text;
    size_t size;
} Run;

/* Without directories and ending. */
static void name_of(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : path);
    name[strcspn(name, ".")] = '\0';
}

static FILE *open_recipe(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        die("%s cannot be read", path);
    return file;
}

/* A line may begin with its name: a word with a colon. */
static char *cut_name(char *line, const char *otherwise, char *name, size_t size)
{
    size_t length = strcspn(line, " :\n");
    bool named = line[length] == ':';
    snprintf(name, size, "%.*s", named ? (int)length : (int)strlen(otherwise), named ? line : otherwise);
    return named ? line + length + 1 + strspn(line + length + 1, " ") : line;
}

static void *run_file(void *argument)
{
    Run *run = argument;
    FILE *file = open_recipe(run->path);
    char line[MAX_LINE], recipe[64], name[128], number[16];
    run->state.out = open_memstream(&run->text, &run->size);
    if (!run->state.out)
        die("no memory");
    name_of(run->path, recipe, sizeof recipe);
    for (int i = 1; fgets(line, sizeof line, file); i++) {
        if (line[0] == '\n' || line[0] == '#' || strncmp(line, "device ", 7) == 0)
            continue;
        snprintf(number, sizeof number, "%d", i);
        char *call = cut_name(line, number, name, sizeof name);
        fprintf(run->state.out, "%s.%s ", recipe, name);
        run_line(&run->state, call);
    }
    fclose(file);
    if (!run->stays)
        state_clear(&run->state);
    fclose(run->state.out);
    return NULL;
}

/* The words of all files' lines `device`. */
static void read_device_lines(char **paths, int count, char *text, size_t size)
{
    char line[MAX_LINE];
    for (int i = 0; i < count; i++) {
        FILE *file = open_recipe(paths[i]);
        while (fgets(line, sizeof line, file))
            if (strncmp(line, "device ", 7) == 0 && strlen(text) + strlen(line) < size)
                strcat(text, line + 7);
        fclose(file);
    }
}

typedef struct Options {
    Additions add;
    bool cache, shared, names, counted;
    uint32_t times;
} Options;

static void begin_run(Run *run, const Options *options, bool first)
{
    run->stays = options->shared && first;
    if (run->stays)
        run_file(run);
    else if (options->times && pthread_create(&run->thread, NULL, run_file, run) != 0)
        die("no more threads");
}

static void end_run(Run *run, const Options *options)
{
    if (options->times && !run->stays)
        pthread_join(run->thread, NULL);
    else if (!run->stays)
        run_file(run);
    fputs(run->text, stdout);
    fflush(stdout); /* a driver may crash in the next */
    free(run->text);
}

static void run_all(Device *device, const Options *options, char **paths, uint32_t count)
{
    uint32_t each = options->times ? options->times : 1, once = options->shared;
    uint32_t run_count = once + (count - once) * each;
    Run *runs = allocate(run_count, sizeof *runs);
    for (uint32_t i = 0; i < run_count; i++) {
        runs[i].path = paths[i < once ? 0 : once + (i - once) / each];
        runs[i].state = (State){.device = device, .add = options->add, .shared = i && once ? &runs[0].state : NULL};
        if (runs[i].state.shared)
            memcpy(runs[i].state.caches, runs[0].state.caches, sizeof runs[i].state.caches);
        begin_run(&runs[i], options, i == 0);
    }
    for (uint32_t i = 0; i < run_count; i++)
        end_run(&runs[i], options);
    if (once)
        state_clear(&runs[0].state);
    free(runs);
}

static void run_files(Device *device, const Options *options, char **paths, int count)
{
    char text[16 * MAX_LINE] = "";
    read_device_lines(paths, count, text, sizeof text);
    Words words = words_cut(text);
    must(device_create(device, &words), "vkCreateDevice");
    must(objects_create(device, &words), "objects of the device");
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (options->cache)
        must(vkCreatePipelineCache(device->handle, &info, device->allocator, &objects.cache), "vkCreatePipelineCache");
    run_all(device, options, paths, (uint32_t)count);
    bool counted = device->allocator != NULL;
    objects_destroy(device);
    device_destroy(device);
    if (counted)
        allocator_report();
}

/* Returns whether the word is an option, or a number behind --times. */
static bool read_option(const char *word, const char *before, Options *options)
{
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {{"--feedback", &options->add.feedback}, {"--statistics", &options->add.statistics},
                 {"--flags2", &options->add.flags2},     {"--cache", &options->cache},
                 {"--shared", &options->shared},         {"--names", &options->names},
                 {"allocator", &options->counted}};
    for (size_t i = 0; i < COUNT_OF(flags); i++)
        if (strcmp(word, flags[i].word) == 0)
            return *flags[i].flag = true;
    if (strcmp(before, "--times") == 0)
        options->times = (uint32_t)strtoul(word, NULL, 10);
    return strcmp(before, "--times") == 0 || strcmp(word, "--times") == 0;
}

int main(int count, char **arguments)
{
    Device device = {.allocator = NULL};
    Options options = {.times = 0};
    int at = 1;
    while (at < count && read_option(arguments[at], arguments[at - 1], &options))
        at++;
    /* Devices without callbacks of their own allocate from the instance's. */
    const VkAllocationCallbacks *allocator = options.counted ? allocator_begin() : NULL;
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "recipes", .apiVersion = VK_API_VERSION_1_3};
    instance_create(&device, &application, options.names ? VK_EXT_DEBUG_UTILS_EXTENSION_NAME : NULL, allocator);
    device.names = options.names;
    device_choose(&device, NULL);
    if (device.api < VK_API_VERSION_1_3)
        die("the device has no Vulkan 1.3");
    if (at < count) {
        run_files(&device, &options, arguments + at, count - at);
    } else {
        State *state = allocate(1, sizeof *state);
        *state = (State){.device = &device, .out = stdout};
        run_stdin(state);
        free(state);
    }
    vkDestroyInstance(device.instance, allocator);
    if (options.counted)
        allocator_report();
    return 0;
}
