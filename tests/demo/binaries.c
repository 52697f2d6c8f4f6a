#include "binaries.h"

#include "../files.h"
#include "../pipeline_binary.h"

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

enum { KEY_BYTES = 36, MAGIC_BYTES = 4, HEAD_BYTES = MAGIC_BYTES + KEY_BYTES + 4 };

// All binaries of one pipeline, as the file has them. There may be none: then the pipeline is created as ever.
typedef struct Entry {
    struct Entry *next;
    uint8_t *bytes;
    size_t size;
} Entry;

// Binaries of the driver.
typedef struct Made {
    struct Made *next;
    uint32_t count;
    VkPipelineBinaryKHR handles[];
} Made;

#define NUMBERS                                                                                                        \
    NUMBER(from_archive)                                                                                               \
    NUMBER(from_internal)                                                                                              \
    NUMBER(captured)                                                                                                   \
    NUMBER(compiled) NUMBER(import_failed) NUMBER(from_binaries_failed) NUMBER(read_failed)

struct Binaries {
    const Context *context;
    const Options *options;
    PFN_vkGetPipelineKeyKHR get_key;
    PFN_vkCreatePipelineBinariesKHR create_binaries;
    PFN_vkDestroyPipelineBinaryKHR destroy_binary;
    PFN_vkGetPipelineBinaryDataKHR get_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured;
    VkPhysicalDevicePipelineBinaryPropertiesKHR properties;
    VkPipelineBinaryKeyKHR global_key;
    const char *archive; // what became of the file
    Entry *entries, **last;
    uint32_t entry_count;
    void *tree; // of entries, by their keys
    Made *made; // what pipelines were made from
#define NUMBER(name) uint64_t name;
    NUMBERS
#undef NUMBER
    VkResult import_result; // the last that was no success
};

static uint32_t number_at(const uint8_t *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof number);
    return number;
}

static uint64_t size_at(const uint8_t *bytes)
{
    uint64_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

static int by_key(const void *one, const void *other)
{
    return memcmp(((const Entry *)one)->bytes, ((const Entry *)other)->bytes, KEY_BYTES);
}

static const Entry *find(const Binaries *binaries, const VkPipelineBinaryKeyKHR *key)
{
    Entry wanted = {.bytes = (uint8_t *)(uintptr_t)&key->keySize};
    Entry *const *found = tfind(&wanted, &binaries->tree, by_key);
    return found ? *found : NULL;
}

static void add(Binaries *binaries, uint8_t *bytes, size_t size)
{
    Entry *entry = allocate(1, sizeof *entry);
    *entry = (Entry){NULL, bytes, size};
    *binaries->last = entry;
    binaries->last = &entry->next;
    ++binaries->entry_count;
    tsearch(entry, &binaries->tree, by_key);
}

static size_t size_of_entry(const uint8_t *bytes, size_t left)
{
    size_t size = KEY_BYTES + 4;
    uint32_t count = left < size ? 0 : number_at(bytes + KEY_BYTES);
    for (uint32_t i = 0; i < count && size + KEY_BYTES + 8 <= left; ++i)
        size += KEY_BYTES + 8 + size_at(bytes + size + KEY_BYTES);
    if (size > left)
        die("the archive ends early");
    return size;
}

// Binaries of another global key are of no use (VK_KHR_pipeline_binary: 'must not be passed').
static void load(Binaries *binaries, const char *path)
{
    size_t size = 0, at = HEAD_BYTES;
    uint8_t *bytes = path ? read_file(path, &size) : NULL;
    binaries->archive = bytes ? "loaded" : "absent";
    if (!bytes)
        return;
    if (size < HEAD_BYTES || memcmp(bytes, "BINS", MAGIC_BYTES) != 0)
        die("%s is no archive", path);
    bool same = memcmp(bytes + MAGIC_BYTES, &binaries->global_key.keySize, KEY_BYTES) == 0;
    if (!same && !binaries->options->any_global_key)
        binaries->archive = "stale";
    uint32_t count = same || binaries->options->any_global_key ? number_at(bytes + MAGIC_BYTES + KEY_BYTES) : 0;
    for (uint32_t i = 0; i < count; ++i) {
        size_t length = size_of_entry(bytes + at, size - at);
        uint8_t *copy = allocate(length, 1);
        memcpy(copy, bytes + at, length);
        add(binaries, copy, length);
        at += length;
    }
    free(bytes);
}

void binaries_save(const Binaries *binaries)
{
    if (!binaries->options->archive)
        return;
    FILE *file = fopen(binaries->options->archive, "wb");
    bool written = file && fwrite("BINS", MAGIC_BYTES, 1, file) == 1 &&
                   fwrite(&binaries->global_key.keySize, KEY_BYTES, 1, file) == 1 &&
                   fwrite(&binaries->entry_count, 4, 1, file) == 1;
    for (const Entry *entry = binaries->entries; written && entry; entry = entry->next)
        written = fwrite(entry->bytes, entry->size, 1, file) == 1;
    if (!written || fclose(file) != 0)
        die("%s cannot be written", binaries->options->archive);
}

// ---- Binaries of the driver ------------------------------------------------------------------------------------

static void drop(const Binaries *binaries, Made *made)
{
    for (uint32_t i = 0; made && i < made->count; ++i)
        if (made->handles[i])
            binaries->destroy_binary(binaries->context->device, made->handles[i], NULL);
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
        *result = binaries->create_binaries(binaries->context->device, info, NULL, &handles);
    if (*result != VK_SUCCESS)
        return NULL;
    Made *made = allocate(1, sizeof *made + handles.pipelineBinaryCount * sizeof *made->handles);
    made->count = handles.pipelineBinaryCount;
    // Outputs: of data each is a binary, or VK_NULL_HANDLE. VK_INCOMPLETE may leave out others.
    memset(made->handles, count ? 0xab : 0, made->count * sizeof *made->handles);
    handles.pPipelineBinaries = made->handles;
    *result = binaries->create_binaries(binaries->context->device, info, NULL, &handles);
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
static bool write_binary(const Binaries *binaries, VkPipelineBinaryKHR binary, FILE *out)
{
    const VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                              .pipelineBinary = binary};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    VkDevice device = binaries->context->device;
    uint8_t *data = NULL;
    size_t size = 0;
    VkResult result;
    do {
        free(data);
        data = NULL;
        result = binaries->get_data(device, &info, &key, &size, NULL);
        if (result != VK_SUCCESS)
            break;
        data = allocate(size, 1);
        result = binaries->get_data(device, &info, &key, &size, data);
    } while (result == VK_ERROR_NOT_ENOUGH_SPACE_KHR);
    if (result == VK_SUCCESS) {
        fwrite(&key.keySize, KEY_BYTES, 1, out);
        fwrite(&(uint64_t){size}, 8, 1, out);
        fwrite(data, 1, size, out);
    }
    free(data);
    return result == VK_SUCCESS;
}

// For the next time, if all of them can be read.
static void archive(Binaries *binaries, const VkPipelineBinaryKeyKHR *key, const Made *made)
{
    char *bytes;
    size_t size;
    if (find(binaries, key))
        return;
    FILE *out = open_memstream(&bytes, &size);
    if (!out)
        die("out of memory");
    fwrite(&key->keySize, KEY_BYTES, 1, out);
    fwrite(&made->count, 4, 1, out);
    bool whole = true;
    for (uint32_t i = 0; whole && i < made->count; ++i)
        whole = write_binary(binaries, made->handles[i], out);
    fclose(out);
    if (whole)
        add(binaries, (uint8_t *)bytes, size);
    else
        free(bytes);
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
    VkResult result = create(binaries->context, VK_NULL_HANDLE, kind, VK_NULL_HANDLE, 1, head, pipeline);
    head->pNext = chain;
    return result;
}

static VkResult create_from(const Binaries *binaries, Recipe *recipe, Call kind, const Made *made, VkPipeline *pipeline)
{
    VkPipelineBinaryInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                    .binaryCount = made->count,
                                    .pPipelineBinaries = made->handles};
    // VUID-VkPipelineShaderStageCreateInfo-stage-08771: not needed beside binaries.
    if (binaries->options->no_modules && kind == CALL_COMPUTE)
        recipe->compute.stage.module = VK_NULL_HANDLE;
    for (uint32_t i = 0; binaries->options->no_modules && i < recipe->stage_count; ++i)
        recipe->stages[i].module = VK_NULL_HANDLE;
    return create_with(binaries, recipe, kind, made->count ? &info : NULL, pipeline);
}

// Returns whether the pipeline is made of these binaries, which it keeps.
static bool keep(Binaries *binaries, Recipe *recipe, Call kind, Made *made, VkPipeline *pipeline)
{
    if (create_from(binaries, recipe, kind, made, pipeline) != VK_SUCCESS) {
        drop(binaries, made);
        return false;
    }
    made->next = binaries->made;
    binaries->made = made;
    return true;
}

static bool make_from_archive(Binaries *binaries, Recipe *recipe, Call kind, const Entry *entry, VkPipeline *pipeline)
{
    uint32_t count = number_at(entry->bytes + KEY_BYTES);
    if (count == 0)
        return create_with(binaries, recipe, kind, NULL, pipeline) == VK_SUCCESS;
    VkPipelineBinaryKeyKHR *keys = allocate(count, sizeof *keys);
    VkPipelineBinaryDataKHR *data = allocate(count, sizeof *data);
    uint8_t *at = entry->bytes + KEY_BYTES + 4;
    for (uint32_t i = 0; i < count; ++i) {
        keys[i].sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR;
        memcpy(&keys[i].keySize, at, KEY_BYTES);
        data[i] = (VkPipelineBinaryDataKHR){size_at(at + KEY_BYTES), at + KEY_BYTES + 8};
        at += KEY_BYTES + 8 + data[i].dataSize;
    }
    const VkPipelineBinaryKeysAndDataKHR both = {count, keys, data};
    const VkPipelineBinaryCreateInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                                .pKeysAndDataInfo = &both};
    VkResult result;
    Made *made = fetch(binaries, &info, count, &result);
    free(keys);
    free(data);
    if (!made) {
        ++binaries->import_failed;
        binaries->import_result = result;
        return false;
    }
    bool kept = keep(binaries, recipe, kind, made, pipeline);
    ++*(kept ? &binaries->from_archive : &binaries->from_binaries_failed);
    return kept;
}

static bool make_from_internal_cache(Binaries *binaries, Recipe *recipe, Call kind, const VkPipelineBinaryKeyKHR *key,
                                     VkPipeline *pipeline)
{
    Made *made = probe(binaries, recipe, kind);
    if (!made || !keep(binaries, recipe, kind, made, pipeline))
        return false;
    archive(binaries, key, made);
    ++binaries->from_internal;
    return true;
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
    binaries->release_captured(binaries->context->device, &release, NULL);
    ++binaries->captured;
    return result;
}

VkResult binaries_create(Binaries *binaries, Recipe *recipe, Call kind, VkPipeline *pipeline)
{
    const VkPhysicalDevicePipelineBinaryPropertiesKHR *properties = &binaries->properties;
    Source source = binaries->options->source;
    bool internal = properties->pipelineBinaryInternalCache && !binaries->options->disable_internal_cache;
    // RADV 25.0.7 crashes when it is asked for the key of a fast-linked pipeline.
    bool fast_linked = kind == CALL_GRAPHICS && recipe->linked.libraryCount &&
                       !(recipe->graphics.flags & VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT);
    if (source == SOURCE_UNUSED || fast_linked) {
        ++binaries->compiled;
        return create_with(binaries, recipe, kind, NULL, pipeline);
    }
    const VkPipelineCreateInfoKHR keyed = {VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, info_of(recipe, kind)};
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    must(binaries->get_key(binaries->context->device, &keyed, &key), "vkGetPipelineKeyKHR");
    const Entry *entry = find(binaries, &key);
    if (entry && make_from_archive(binaries, recipe, kind, entry, pipeline))
        return VK_SUCCESS;
    if (source == SOURCE_INTERNAL && internal && make_from_internal_cache(binaries, recipe, kind, &key, pipeline))
        return VK_SUCCESS;
    if (!internal || (source != SOURCE_CREATE && !properties->pipelineBinaryPrefersInternalCache))
        return make_with_capture(binaries, recipe, kind, &key, pipeline);
    ++binaries->compiled;
    VkResult result = create_with(binaries, recipe, kind, NULL, pipeline);
    Made *found = result == VK_SUCCESS ? probe(binaries, recipe, kind) : NULL;
    if (found)
        archive(binaries, &key, found);
    drop(binaries, found);
    return result;
}

// ---- All of them -----------------------------------------------------------------------------------------------

Binaries *binaries_open(const Context *context, const Options *options)
{
    Binaries *binaries = allocate(1, sizeof *binaries);
    *binaries = (Binaries){.context = context, .options = options, .archive = "absent", .last = &binaries->entries};
#define COMMAND(member, name) binaries->member = (PFN_##name)vkGetDeviceProcAddr(context->device, #name)
    COMMAND(get_key, vkGetPipelineKeyKHR);
    COMMAND(create_binaries, vkCreatePipelineBinariesKHR);
    COMMAND(destroy_binary, vkDestroyPipelineBinaryKHR);
    COMMAND(get_data, vkGetPipelineBinaryDataKHR);
    COMMAND(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef COMMAND
    if (!binaries->get_key || !binaries->create_binaries)
        die("%s has no %s", context->properties.deviceName, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
    binaries->properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR;
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &binaries->properties};
    vkGetPhysicalDeviceProperties2(context->physical, &properties);
    binaries->global_key.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR;
    if (options->source == SOURCE_UNUSED)
        return binaries;
    must(binaries->get_key(context->device, NULL, &binaries->global_key), "vkGetPipelineKeyKHR");
    load(binaries, options->archive);
    return binaries;
}

void binaries_print(const Binaries *binaries)
{
    printf(", \"internal_cache\": %u, \"global_key\": \"", binaries->properties.pipelineBinaryInternalCache);
    for (uint32_t i = 0; i < binaries->global_key.keySize; ++i)
        printf("%02x", binaries->global_key.key[i]);
    printf("\", \"archive\": \"%s\"", binaries->archive);
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
    for (Made *made = binaries ? binaries->made : NULL, *next; made; made = next) {
        next = made->next;
        drop(binaries, made);
    }
    for (Entry *entry = binaries ? binaries->entries : NULL, *next; entry; entry = next) {
        next = entry->next;
        free(entry->bytes);
        free(entry);
    }
    if (binaries)
        tdestroy(binaries->tree, keep_entry);
    free(binaries);
}
