#include "binaries.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- The program's own file ------------------------------------------------------------------------------------
//
// As numbers in this machine's byte order: "BINS", then the global key, how many entries, and of each its key, how many
// binaries, and of each of them its key, a 64-bit size, and the data. A key is its size in 32 bits and 32 bytes. The
// program believes what it reads there, as programs do: nothing tells it of damage.

enum { KEY_BYTES = 36, SIZE_BYTES = 8, MAGIC_BYTES = 4, MAX_BINARIES = 64 };

// All binaries of one pipeline. There may be none: then the pipeline is created as ever.
typedef struct Entry {
    struct Entry *next;
    VkPipelineBinaryKeyKHR key;
    uint32_t count;
    VkPipelineBinaryKeyKHR keys[MAX_BINARIES];
    VkPipelineBinaryDataKHR data[MAX_BINARIES];
} Entry;

// Binaries of the driver.
typedef struct Made {
    struct Made *next;
    uint32_t count;
    VkPipelineBinaryKHR handles[];
} Made;

#define NUMBERS                                                                                                        \
    NUMBER(from_archive) NUMBER(captured) NUMBER(import_failed) NUMBER(from_binaries_failed) NUMBER(read_failed)

struct Binaries {
    const Device *device;
    const Options *options;
    bool internal, prefers_internal; // cache
    VkPipelineBinaryKeyKHR global_key;
    Entry *entries, **last;
    uint32_t entry_count;
    void *tree; // of entries, by their keys
    Made *made; // what pipelines were made from
#define NUMBER(name) uint64_t name;
    NUMBERS
#undef NUMBER
    VkResult import_result; // the last that was no success
};

static int by_key(const void *one, const void *other)
{
    return memcmp(&((const Entry *)one)->key.keySize, &((const Entry *)other)->key.keySize, KEY_BYTES);
}

static const Entry *find(const Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    Entry wanted = {.key = *key};
    Entry *const *found = tfind(&wanted, &binaries->tree, by_key);
    return found ? *found : NULL;
}

static Entry *new_entry(VkPipelineBinaryKeyKHR key, uint32_t count)
{
    if (count > MAX_BINARIES)
        die("%u binaries of one pipeline", count);
    Entry *entry = allocate(1, sizeof *entry);
    entry->key = key;
    entry->count = count;
    return entry;
}

static void free_entry(Entry *entry)
{
    for (uint32_t i = 0; i < entry->count; ++i)
        free(entry->data[i].pData);
    free(entry);
}

static void add(Binaries *binaries, Entry *entry)
{
    *binaries->last = entry;
    binaries->last = &entry->next;
    ++binaries->entry_count;
    tsearch(entry, &binaries->tree, by_key);
}

static void *take(FILE *file, void *out, size_t size)
{
    if (fread(out, 1, size, file) != size)
        die("the archive ends early");
    return out;
}

static VkPipelineBinaryKeyKHR take_key(FILE *file)
{
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    take(file, &key.keySize, KEY_BYTES);
    return key;
}

static Entry *take_entry(FILE *file)
{
    const VkPipelineBinaryKeyKHR key = take_key(file);
    uint32_t count;
    take(file, &count, sizeof count);
    Entry *entry = new_entry(key, count);
    for (uint32_t i = 0; i < count; ++i) {
        uint64_t size;
        entry->keys[i] = take_key(file);
        take(file, &size, SIZE_BYTES);
        entry->data[i] = (VkPipelineBinaryDataKHR){size, take(file, allocate(size, 1), size)};
    }
    return entry;
}

// Binaries of another global key are of no use (VK_KHR_pipeline_binary: 'must not be passed').
static void load(Binaries *binaries, const char *path)
{
    char magic[MAGIC_BYTES];
    uint32_t count;
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (!file)
        return;
    if (memcmp(take(file, magic, sizeof magic), "BINS", sizeof magic) != 0)
        die("%s is no archive", path);
    const VkPipelineBinaryKeyKHR key = take_key(file);
    bool usable =
        memcmp(&key.keySize, &binaries->global_key.keySize, KEY_BYTES) == 0 || binaries->options->any_global_key;
    take(file, &count, sizeof count);
    for (uint32_t i = 0; usable && i < count; ++i)
        add(binaries, take_entry(file));
    fclose(file);
}

void binaries_save(const Binaries *binaries)
{
    FILE *file = binaries->options->archive ? fopen(binaries->options->archive, "wb") : NULL;
    if (file) {
        fwrite("BINS", MAGIC_BYTES, 1, file);
        fwrite(&binaries->global_key.keySize, KEY_BYTES, 1, file);
        fwrite(&binaries->entry_count, sizeof binaries->entry_count, 1, file);
    }
    for (const Entry *entry = binaries->entries; file && entry; entry = entry->next) {
        fwrite(&entry->key.keySize, KEY_BYTES, 1, file);
        fwrite(&entry->count, sizeof entry->count, 1, file);
        for (uint32_t i = 0; i < entry->count; ++i) {
            fwrite(&entry->keys[i].keySize, KEY_BYTES, 1, file);
            fwrite(&(uint64_t){entry->data[i].dataSize}, SIZE_BYTES, 1, file);
            fwrite(entry->data[i].pData, 1, entry->data[i].dataSize, file);
        }
    }
    if (binaries->options->archive && (!file || ferror(file) | fclose(file)))
        die("%s cannot be written", binaries->options->archive);
}

// ---- Binaries of the driver ------------------------------------------------------------------------------------

static void drop(const Binaries *binaries, Made *made)
{
    for (uint32_t i = 0; made && i < made->count; ++i)
        if (made->handles[i])
            binaries->device->commands.destroy_binary(binaries->device->handle, made->handles[i], NULL);
    free(made);
}

// So many, or with 0 as many as the driver says. NULL on failure; nothing is left of it then.
static Made *fetch(const Binaries *binaries, const VkPipelineBinaryCreateInfoKHR *info, uint32_t count,
                   VkResult *result)
{
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = count};
    *result = VK_SUCCESS;
    if (count == 0)
        *result = binaries->device->commands.create_binaries(binaries->device->handle, info, NULL, &handles);
    if (*result != VK_SUCCESS)
        return NULL;
    Made *made = allocate(1, sizeof *made + handles.pipelineBinaryCount * sizeof *made->handles);
    made->count = handles.pipelineBinaryCount;
    // Outputs: of data each is a binary, or VK_NULL_HANDLE. VK_INCOMPLETE may leave out others.
    memset(made->handles, count ? 0xab : 0, made->count * sizeof *made->handles);
    handles.pPipelineBinaries = made->handles;
    *result = binaries->device->commands.create_binaries(binaries->device->handle, info, NULL, &handles);
    if (*result == VK_SUCCESS) {
        made->count = handles.pipelineBinaryCount;
        return made;
    }
    drop(binaries, made);
    return NULL;
}

static Made *probe(const Binaries *binaries, Recipe *recipe, Call kind)
{
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, info_of(recipe, kind)};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pPipelineCreateInfo = &keyed};
    VkResult result;
    return fetch(binaries, &info, 0, &result);
}

// A size that grew between the calls is asked for again.
static bool read_binary(const Binaries *binaries, VkPipelineBinaryKHR binary, VkPipelineBinaryKeyKHR *key,
                        VkPipelineBinaryDataKHR *data)
{
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    const PFN_vkGetPipelineBinaryDataKHR get = binaries->device->commands.get_binary_data;
    VkDevice device = binaries->device->handle;
    VkResult result;
    key->sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR;
    do {
        free(data->pData);
        data->pData = NULL;
        result = get(device, &info, key, &data->dataSize, NULL);
        if (result != VK_SUCCESS)
            break;
        data->pData = allocate(data->dataSize, 1);
        result = get(device, &info, key, &data->dataSize, data->pData);
    } while (result == VK_ERROR_NOT_ENOUGH_SPACE_KHR);
    return result == VK_SUCCESS;
}

// For the next time, if all of them can be read.
static void archive(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, const Made *made)
{
    if (find(binaries, key))
        return;
    Entry *entry = new_entry(*key, made->count);
    bool whole = true;
    for (uint32_t i = 0; whole && i < made->count; ++i)
        whole = read_binary(binaries, made->handles[i], &entry->keys[i], &entry->data[i]);
    if (whole)
        add(binaries, entry);
    else
        free_entry(entry);
}

// ---- One pipeline ----------------------------------------------------------------------------------------------

// All three create infos begin alike: sType, pNext, flags.
static VkResult create_with(const Binaries *binaries, Recipe *recipe, Call kind, void *node, VkPipeline *pipeline)
{
    VkComputePipelineCreateInfo *head = info_of(recipe, kind);
    const void *chain = head->pNext;
    if (node) {
        ((VkBaseOutStructure *)node)->pNext = (VkBaseOutStructure *)(uintptr_t)chain;
        head->pNext = node;
    }
    VkResult result = create(binaries->device, VK_NULL_HANDLE, kind, VK_NULL_HANDLE, 1, head, pipeline);
    head->pNext = chain;
    return result;
}

// Returns whether the pipeline is made of these binaries, which it keeps.
static bool create_from(Binaries *binaries, Recipe *recipe, Call kind, Made *made, VkPipeline *pipeline)
{
    VkPipelineBinaryInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                    .binaryCount = made->count,
                                    .pPipelineBinaries = made->handles};
    // VUID-VkPipelineShaderStageCreateInfo-stage-08771: not needed beside binaries.
    if (binaries->options->no_modules && kind == CALL_COMPUTE)
        recipe->compute.stage.module = VK_NULL_HANDLE;
    for (uint32_t i = 0; binaries->options->no_modules && i < recipe->stage_count; ++i)
        recipe->stages[i].module = VK_NULL_HANDLE;
    if (create_with(binaries, recipe, kind, made->count ? &info : NULL, pipeline) != VK_SUCCESS) {
        drop(binaries, made);
        return false;
    }
    made->next = binaries->made;
    binaries->made = made;
    return true;
}

static bool make_from_archive(Binaries *binaries, Recipe *recipe, Call kind, const Entry *entry, VkPipeline *pipeline)
{
    if (entry->count == 0)
        return create_with(binaries, recipe, kind, NULL, pipeline) == VK_SUCCESS;
    const VkPipelineBinaryKeysAndDataKHR both = {entry->count, entry->keys, entry->data};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pKeysAndDataInfo = &both};
    VkResult result;
    Made *made = fetch(binaries, &info, entry->count, &result);
    if (!made) {
        ++binaries->import_failed;
        binaries->import_result = result;
        return false;
    }
    bool created = create_from(binaries, recipe, kind, made, pipeline);
    ++*(created ? &binaries->from_archive : &binaries->from_binaries_failed);
    return created;
}

static bool make_from_internal_cache(Binaries *binaries, Recipe *recipe, Call kind, const VkPipelineBinaryKeyKHR *key,
                                     VkPipeline *pipeline)
{
    Made *made = probe(binaries, recipe, kind);
    bool created = made && create_from(binaries, recipe, kind, made, pipeline);
    if (created)
        archive(binaries, key, made);
    return created;
}

static VkResult make_with_capture(Binaries *binaries, Recipe *recipe, Call kind, const VkPipelineBinaryKeyKHR *key,
                                  VkPipeline *pipeline)
{
    VkPipelineCreateFlags2CreateInfoKHR flags = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR,
        .flags = ((const VkComputePipelineCreateInfo *)info_of(recipe, kind))->flags |
                 VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR,
    };
    VkResult result = create_with(binaries, recipe, kind, &flags, pipeline), fetched;
    if (result != VK_SUCCESS)
        return result;
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pipeline = *pipeline};
    const VkReleaseCapturedPipelineDataInfoKHR release = {
        .sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR, .pipeline = *pipeline};
    Made *captured = fetch(binaries, &info, 0, &fetched);
    if (captured)
        archive(binaries, key, captured);
    else
        ++binaries->read_failed;
    drop(binaries, captured);
    binaries->device->commands.release_captured(binaries->device->handle, &release, NULL);
    ++binaries->captured;
    return result;
}

VkResult binaries_create(Binaries *binaries, Recipe *recipe, Call kind, VkPipeline *pipeline)
{
    Source source = binaries->options->source;
    // RADV 25.0.7 crashes when it is asked for the key of a fast-linked pipeline.
    bool fast_linked = kind == CALL_GRAPHICS && recipe->linked.libraryCount &&
                       !(recipe->graphics.flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT);
    if (source == SOURCE_UNUSED || fast_linked)
        return create_with(binaries, recipe, kind, NULL, pipeline);
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, info_of(recipe, kind)};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    must(binaries->device->commands.get_key(binaries->device->handle, &keyed, &key), "vkGetPipelineKeyKHR");
    const Entry *entry = find(binaries, &key);
    if (entry && make_from_archive(binaries, recipe, kind, entry, pipeline))
        return VK_SUCCESS;
    if (source == SOURCE_INTERNAL && binaries->internal &&
        make_from_internal_cache(binaries, recipe, kind, &key, pipeline))
        return VK_SUCCESS;
    if (!binaries->internal || (source != SOURCE_CREATE && !binaries->prefers_internal))
        return make_with_capture(binaries, recipe, kind, &key, pipeline);
    VkResult result = create_with(binaries, recipe, kind, NULL, pipeline);
    Made *found = result == VK_SUCCESS ? probe(binaries, recipe, kind) : NULL;
    if (found)
        archive(binaries, &key, found);
    drop(binaries, found);
    return result;
}

// ---- All of them -----------------------------------------------------------------------------------------------

Binaries *binaries_open(const Device *device, const Options *options)
{
    VkPhysicalDevicePipelineBinaryPropertiesKHR of_binaries = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &of_binaries};
    vkGetPhysicalDeviceProperties2(device->physical, &properties);
    Binaries *binaries = allocate(1, sizeof *binaries);
    *binaries = (Binaries){.device = device,
                           .options = options,
                           .internal = of_binaries.pipelineBinaryInternalCache && !options->disable_internal_cache,
                           .prefers_internal = of_binaries.pipelineBinaryPrefersInternalCache,
                           .global_key.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR,
                           .last = &binaries->entries};
    if (options->source == SOURCE_UNUSED)
        return binaries;
    must(device->commands.get_key(device->handle, NULL, &binaries->global_key), "vkGetPipelineKeyKHR");
    load(binaries, options->archive);
    return binaries;
}

void binaries_print(const Binaries *binaries)
{
#define NUMBER(name) printf(", \"" #name "\": %" PRIu64, binaries->name);
    NUMBERS
    printf(", \"import_result\": %d", binaries->import_result);
}

static void keep_entry(void *entry)
{
    (void)entry; // binaries_close frees it
}

void binaries_close(Binaries *binaries)
{
    for (Made *made = binaries->made, *next; made; made = next) {
        next = made->next;
        drop(binaries, made);
    }
    tdestroy(binaries->tree, keep_entry);
    for (Entry *entry = binaries->entries, *next; entry; entry = next) {
        next = entry->next;
        free_entry(entry);
    }
    free(binaries);
}
