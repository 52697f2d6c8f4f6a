// soak: instances, devices, caches, pipelines and pipeline binaries, made, used and destroyed at random by several
// threads for a while.
//
//   soak SECONDS SEED DIRECTORY GROUPS THREADS
//
// GROUPS times at once: an instance, a device, and on it THREADS that work for up to a second; then everything is
// destroyed and begins anew. Caches are kept in DIRECTORY from one to the next, as programs keep them in files. Calls
// that fail are counted, and the program goes on: with a faulty driver they do. At the end it prints one JSON object.
#include "../pipeline_binary.h"
#include "extension.h"
#include "objects.h"
#include "recipes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_THREADS = 16, OWN_CACHES = 3, MAX_BINARIES = 8, PIPELINES_OF_A_KIND = 160 };

#define COUNTERS(COUNT)                                                                                                \
    COUNT(instances)                                                                                                   \
    COUNT(devices)                                                                                                     \
    COUNT(pipelines)                                                                                                   \
    COUNT(batches)                                                                                                     \
    COUNT(caches)                                                                                                      \
    COUNT(caches_from_data)                                                                                            \
    COUNT(merges)                                                                                                      \
    COUNT(reads)                                                                                                       \
    COUNT(captured)                                                                                                    \
    COUNT(imported)                                                                                                    \
    COUNT(failed)

static struct {
#define MEMBER(name) atomic_ullong name;
    COUNTERS(MEMBER)
#undef MEMBER
} counters;

static uint64_t end_ns, seed;
static const char *directory;
static unsigned thread_count;

static bool succeeded(VkResult result)
{
    if (result < 0)
        ++counters.failed;
    return result == VK_SUCCESS;
}

typedef struct {
    Options options;
    Context context;
    Extension extension;
    Objects objects;
    bool binaries;
    VkPipelineCache shared; // for pipelines of all threads, which Vulkan allows
    unsigned group;
    uint64_t end_ns;
} Group;

typedef struct {
    Group *group;
    uint64_t state;
    VkPipelineCache own[OWN_CACHES];
    Recipe *recipes;
    char file[4096], temporary[4096 + 8];
} Worker;

static uint64_t below(Worker *worker, uint64_t limit)
{
    return mixed(worker->state++) % limit;
}

// ---- Pipelines -------------------------------------------------------------------------------------------------

// So few that all are stored soon: a device holds in memory what is stored for it, and when the store grows no more, memory
// must stay as it is. Damage sees to it that pipelines are compiled to the end.
static bool fill_recipe(Worker *worker, Recipe *recipe, VkPipelineCreateFlags flags, bool compute)
{
    Group *group = worker->group;
    Kitchen kitchen = {.objects = &group->objects, .options = &group->options, .flags = flags};
    uint64_t number = below(worker, PIPELINES_OF_A_KIND);
    memset(recipe, 0, sizeof *recipe);
    (compute ? compute_recipe : graphics_recipe)(recipe, &kitchen, number);
    return compute;
}

static VkResult create_one(Worker *worker, Recipe *recipe, bool compute, const void *chain, VkPipelineCache cache,
                           VkPipeline *pipeline)
{
    VkDevice device = worker->group->context.device;
    VkComputePipelineCreateInfo compute_info = recipe->compute;
    VkGraphicsPipelineCreateInfo graphics_info = recipe->graphics;
    *pipeline = VK_NULL_HANDLE;
    if (chain)
        compute_info.pNext = graphics_info.pNext = chain;
    return compute ? vkCreateComputePipelines(device, cache, 1, &compute_info, NULL, pipeline)
                   : vkCreateGraphicsPipelines(device, cache, 1, &graphics_info, NULL, pipeline);
}

static VkPipelineCache any_cache(Worker *worker)
{
    uint64_t which = below(worker, OWN_CACHES + 3);
    return which < OWN_CACHES ? worker->own[which] : which == OWN_CACHES ? worker->group->shared : VK_NULL_HANDLE;
}

static void create_pipeline(Worker *worker)
{
    VkPipeline pipeline;
    bool probes = below(worker, 8) == 0;
    VkPipelineCreateFlags flags = probes ? VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT : 0;
    bool compute = fill_recipe(worker, worker->recipes, flags, below(worker, 2) != 0);
    VkPipelineCache cache = any_cache(worker);
    counters.pipelines += succeeded(create_one(worker, worker->recipes, compute, NULL, cache, &pipeline));
    vkDestroyPipeline(worker->group->context.device, pipeline, NULL);
}

static void create_batch(Worker *worker)
{
    enum { BATCH = 4 };
    VkComputePipelineCreateInfo infos[BATCH];
    VkPipeline pipelines[BATCH] = {VK_NULL_HANDLE};
    for (uint32_t i = 0; i < BATCH; ++i) {
        fill_recipe(worker, &worker->recipes[i], 0, true);
        infos[i] = worker->recipes[i].compute;
    }
    VkDevice device = worker->group->context.device;
    VkResult result = vkCreateComputePipelines(device, any_cache(worker), BATCH, infos, NULL, pipelines);
    counters.batches += succeeded(result);
    for (uint32_t i = 0; i < BATCH; ++i)
        vkDestroyPipeline(device, pipelines[i], NULL);
}

// ---- Caches ----------------------------------------------------------------------------------------------------

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    void *data = length > 0 ? malloc((size_t)length) : NULL;
    if (data && fread(data, 1, (size_t)length, file) == (size_t)length)
        *size = (size_t)length;
    fclose(file);
    return data;
}

static VkPipelineCache create_cache(Worker *worker, bool from_file)
{
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    void *data = from_file ? read_file(worker->file, &info.initialDataSize) : NULL;
    VkPipelineCache cache = VK_NULL_HANDLE;
    info.pInitialData = info.initialDataSize ? data : NULL;
    VkResult result = vkCreatePipelineCache(worker->group->context.device, &info, NULL, &cache);
    counters.caches += succeeded(result);
    counters.caches_from_data += result == VK_SUCCESS && info.initialDataSize;
    free(data);
    return result == VK_SUCCESS ? cache : VK_NULL_HANDLE;
}

static void renew_cache(Worker *worker)
{
    VkPipelineCache *cache = &worker->own[below(worker, OWN_CACHES)];
    vkDestroyPipelineCache(worker->group->context.device, *cache, NULL);
    *cache = create_cache(worker, below(worker, 3) > 0);
}

// A program that is killed meanwhile has the old file or the new one.
static void save(Worker *worker, const void *data, size_t size)
{
    FILE *file = fopen(worker->temporary, "wb");
    bool whole = file && fwrite(data, 1, size, file) == size;
    if (file)
        whole &= fclose(file) == 0;
    if (whole)
        rename(worker->temporary, worker->file);
}

static void read_cache(Worker *worker)
{
    VkDevice device = worker->group->context.device;
    VkPipelineCache cache = any_cache(worker);
    size_t size = 0;
    if (!cache || !succeeded(vkGetPipelineCacheData(device, cache, &size, NULL)))
        return;
    void *data = malloc(size + 1);
    // Sometimes with too little room: VK_INCOMPLETE.
    size_t room = below(worker, 8) ? size : size / 2;
    VkResult result = vkGetPipelineCacheData(device, cache, &room, data);
    counters.reads += result >= 0;
    if (succeeded(result) && room > 0)
        save(worker, data, room);
    free(data);
}

static void merge(Worker *worker)
{
    uint64_t into = below(worker, OWN_CACHES);
    VkPipelineCache sources[] = {worker->own[(into + 1) % OWN_CACHES], worker->group->shared};
    if (worker->own[into] && sources[0] && sources[1])
        counters.merges +=
            succeeded(vkMergePipelineCaches(worker->group->context.device, worker->own[into], 2, sources));
}

// ---- Binaries --------------------------------------------------------------------------------------------------

static bool read_binary(Worker *worker, VkPipelineBinaryKHR binary, VkPipelineBinaryKeyKHR *key,
                        VkPipelineBinaryDataKHR *data)
{
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    const Extension *extension = &worker->group->extension;
    VkDevice device = worker->group->context.device;
    *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    if (!succeeded(extension->get_data(device, &info, key, &data->dataSize, NULL)))
        return false;
    data->pData = malloc(data->dataSize + 1);
    return succeeded(extension->get_data(device, &info, key, &data->dataSize, data->pData));
}

static void destroy_binaries(Worker *worker, VkPipelineBinaryKHR *binaries, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i)
        if (binaries[i])
            worker->group->extension.destroy_binary(worker->group->context.device, binaries[i], NULL);
}

static void import(Worker *worker, bool compute, uint32_t count, const VkPipelineBinaryKeyKHR *keys,
                   const VkPipelineBinaryDataKHR *data)
{
    const VkPipelineBinaryKeysAndDataKHR both = {count, keys, data};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pKeysAndDataInfo = &both};
    VkPipelineBinaryKHR binaries[MAX_BINARIES] = {VK_NULL_HANDLE};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = count,
                                              .pPipelineBinaries = binaries};
    VkPipelineBinaryInfoKHR from = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR, .binaryCount = count, .pPipelineBinaries = binaries};
    VkDevice device = worker->group->context.device;
    VkPipeline pipeline = VK_NULL_HANDLE;
    if (succeeded(worker->group->extension.create_binaries(device, &info, NULL, &handles)))
        counters.imported += succeeded(create_one(worker, worker->recipes, compute, &from, VK_NULL_HANDLE, &pipeline));
    vkDestroyPipeline(device, pipeline, NULL);
    destroy_binaries(worker, binaries, count);
}

// Captured, read, and given back.
static void use_binaries(Worker *worker)
{
    const Extension *extension = &worker->group->extension;
    VkDevice device = worker->group->context.device;
    VkPipeline pipeline;
    const VkPipelineCreateFlags2CreateInfoKHR flags = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
                                                       .flags = VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR};
    bool compute = fill_recipe(worker, worker->recipes, 0, below(worker, 2) != 0);
    if (!succeeded(create_one(worker, worker->recipes, compute, &flags, VK_NULL_HANDLE, &pipeline)))
        return;
    ++counters.captured;
    VkPipelineBinaryKHR binaries[MAX_BINARIES] = {VK_NULL_HANDLE};
    VkPipelineBinaryKeyKHR keys[MAX_BINARIES];
    VkPipelineBinaryDataKHR data[MAX_BINARIES] = {{0, NULL}};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pipeline = pipeline};
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = MAX_BINARIES,
                                              .pPipelineBinaries = binaries};
    const VkReleaseCapturedPipelineDataInfoKHR release = {
        .sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR, .pipeline = pipeline};
    bool whole = succeeded(extension->create_binaries(device, &info, NULL, &handles));
    uint32_t count = whole ? handles.pipelineBinaryCount : 0;
    for (uint32_t i = 0; i < count; ++i)
        whole = whole && read_binary(worker, binaries[i], &keys[i], &data[i]);
    destroy_binaries(worker, binaries, MAX_BINARIES);
    extension->release_captured(device, &release, NULL);
    vkDestroyPipeline(device, pipeline, NULL);
    if (whole && count)
        import(worker, compute, count, keys, data);
    for (uint32_t i = 0; i < count; ++i)
        free(data[i].pData);
}

// ---- Threads ---------------------------------------------------------------------------------------------------

static void *work(void *argument)
{
    Worker *worker = argument;
    while (now_ns() < worker->group->end_ns) {
        uint64_t what = below(worker, 40);
        if (what < 24)
            create_pipeline(worker);
        else if (what < 27)
            create_batch(worker);
        else if (what < 31)
            renew_cache(worker);
        else if (what < 33)
            read_cache(worker);
        else if (what < 35)
            merge(worker);
        else if (what < 37 && worker->group->binaries)
            use_binaries(worker);
        else
            usleep((useconds_t)below(worker, 3000));
    }
    for (uint32_t i = 0; i < OWN_CACHES; ++i)
        vkDestroyPipelineCache(worker->group->context.device, worker->own[i], NULL);
    return NULL;
}

static void use_device(Group *group, uint64_t state)
{
    pthread_t threads[MAX_THREADS];
    Worker *workers = calloc(thread_count, sizeof *workers);
    group->end_ns = now_ns() + 100000000 + mixed(state) % 900000000;
    for (unsigned i = 0; i < thread_count; ++i) {
        Worker *worker = &workers[i];
        worker->group = group;
        worker->state = mixed(state + i);
        worker->recipes = calloc(4, sizeof *worker->recipes);
        snprintf(worker->file, sizeof worker->file, "%s/%u-%u.cache", directory, group->group, i);
        snprintf(worker->temporary, sizeof worker->temporary, "%s.tmp", worker->file);
        if (i == 0)
            group->shared = create_cache(worker, true);
    }
    for (unsigned i = 0; i < thread_count; ++i)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            die("no more threads");
    for (unsigned i = 0; i < thread_count; ++i) {
        pthread_join(threads[i], NULL);
        free(workers[i].recipes);
    }
    vkDestroyPipelineCache(group->context.device, group->shared, NULL);
    free(workers);
}

static bool has_binaries(VkPhysicalDevice physical)
{
    uint32_t count = 0;
    bool found = false;
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    VkExtensionProperties *all = calloc(count + 1, sizeof *all);
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    for (uint32_t i = 0; i < count; ++i)
        found |= strcmp(all[i].extensionName, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME) == 0;
    free(all);
    return found;
}

static void *run_group(void *argument)
{
    Group *group = argument;
    for (uint64_t round = 0; now_ns() < end_ns; ++round) {
        uint64_t state = mixed(mixed(seed + group->group) + round);
        context_create_instance(&group->context, &group->options);
        ++counters.instances;
        for (uint64_t devices = 1 + state % 3; devices && now_ns() < end_ns; --devices, state = mixed(state)) {
            VkPhysicalDevice physical;
            uint32_t one = 1;
            vkEnumeratePhysicalDevices(group->context.instance, &one, &physical);
            group->binaries = state >> 8 & 1 && has_binaries(physical);
            const Wanted wanted = {.binaries = group->binaries};
            extension_create_device(&group->extension, &group->context, &group->options, &wanted);
            ++counters.devices;
            objects_create(&group->objects, &group->context, &group->options);
            use_device(group, state);
            objects_destroy(&group->objects, group->context.device);
            vkDestroyDevice(group->context.device, NULL);
        }
        vkDestroyInstance(group->context.instance, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct rlimit no_core = {0, 0};
    Group groups[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    if (argc != 6)
        die("soak SECONDS SEED DIRECTORY GROUPS THREADS");
    setrlimit(RLIMIT_CORE, &no_core);
    end_ns = now_ns() + (uint64_t)(strtod(argv[1], NULL) * 1e9);
    seed = strtoull(argv[2], NULL, 10);
    directory = argv[3];
    unsigned group_count = (unsigned)strtoul(argv[4], NULL, 10);
    thread_count = (unsigned)strtoul(argv[5], NULL, 10);
    if (group_count > MAX_THREADS || thread_count > MAX_THREADS || !group_count || !thread_count)
        die("1 to %d groups and threads", MAX_THREADS);
    memset(groups, 0, sizeof groups);
    char *line[] = {"soak", "--api", "1.3", "--cache-control", NULL};
    const Options options = options_parse(sizeof line / sizeof *line - 1, line); // getopt is not for threads
    for (unsigned i = 0; i < group_count; ++i) {
        groups[i].group = i;
        groups[i].options = options;
        if (pthread_create(&threads[i], NULL, run_group, &groups[i]) != 0)
            die("no more threads");
    }
    for (unsigned i = 0; i < group_count; ++i)
        pthread_join(threads[i], NULL);
    printf("{");
#define PRINT(name) printf("\"" #name "\": %llu, ", counters.name);
    COUNTERS(PRINT)
    printf("\"seed\": %llu}\n", (unsigned long long)seed);
    return 0;
}
