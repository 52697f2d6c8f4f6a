/* binaries.c - VK_KHR_pipeline_binary. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

static void print_key(const State *state, const VkPipelineBinaryKeyKHR *key)
{
    for (uint32_t i = 0; i < key->keySize && i < sizeof key->key; i++)
        fprintf(state->out, "%02x", key->key[i]);
}

/* Of a pipeline, or without an info the global one. */
static void ask_key(const State *state, const VkPipelineCreateInfoKHR *info)
{
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    VkResult result = state->device->commands.get_key(state->device->handle, info, &key);
    fprintf(state->out, "result=%d size=%u key=", result, key.keySize);
    print_key(state, &key);
    fputc('\n', state->out);
}

/* globalkey */
const char *run_global_key(State *state, const Words *words)
{
    if (!state->device->has[BINARIES])
        return "feature";
    ask_key(state, NULL);
    return NULL;
}

/* The create info of what is or was in a slot, with its code chained. NULL, or why there is none. */
static const char *info_of(State *state, const char *word, Build *out, VkPipelineCreateInfoKHR *info)
{
    int slot = slot_of(word, 'P');
    if (!state->device->has[BINARIES])
        return "feature";
    if (slot < 0 || !state->pipelines[slot].wording.filled)
        return word;
    const char *why = build_again(state, out, &state->pipelines[slot].wording, FOR_KEY, NULL, NULL);
    *info = (VkPipelineCreateInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, .pNext = &out->info};
    return why;
}

/* key P0 */
const char *run_key(State *state, const Words *words)
{
    VkPipelineCreateInfoKHR info;
    Build *out = allocate(1, sizeof *out);
    const char *why = info_of(state, words->word[1], out, &info);
    if (!why)
        ask_key(state, &info);
    free(out);
    return why;
}

void binary_slot_clear(State *state, BinarySlot *slot)
{
    for (uint32_t i = 0; i < slot->count; i++)
        state->device->commands.destroy_binary(state->device->handle, slot->handles[i], state->device->allocator);
    memset(slot, 0, sizeof *slot);
}

void binary_data_clear(BinaryDataSlot *slot)
{
    for (uint32_t i = 0; i < slot->count; i++)
        free(slot->data[i].pData);
    memset(slot, 0, sizeof *slot);
}

/* What a `binaries` line makes binaries from. */
typedef struct Source {
    VkPipelineBinaryCreateInfoKHR info;
    VkPipelineBinaryKeysAndDataKHR keys_and_data;
    VkPipelineCreateInfoKHR pipeline_info;
    Build build;
    const Wording *wording;
    uint32_t known; /* how many there are; 0: ask */
} Source;

static const char *from_pipeline(State *state, const char *word, Source *source)
{
    int slot = slot_of(word, 'P');
    const PipelineSlot *pipeline = slot < 0 ? NULL : &state->pipelines[slot];
    if (!pipeline || !pipeline->handle)
        return word;
    /* VUID-VkPipelineBinaryCreateInfoKHR-pipeline-09607 and -09608 */
    if (!pipeline->traits.captured || pipeline->released)
        return "VUID-VkPipelineBinaryCreateInfoKHR-pipeline-09607";
    source->info.pipeline = pipeline->handle;
    source->wording = &pipeline->wording;
    return NULL;
}

static const char *from_data(State *state, const char *word, Source *source)
{
    int slot = slot_of(word, 'X');
    const BinaryDataSlot *data = slot < 0 ? NULL : &state->binary_data[slot];
    if (!data || !data->count)
        return word;
    source->keys_and_data = (VkPipelineBinaryKeysAndDataKHR){data->count, data->keys, data->data};
    source->info.pKeysAndDataInfo = &source->keys_and_data;
    source->wording = &data->wording;
    source->known = data->count;
    return NULL;
}

static const char *from_info(State *state, const char *word, Source *source)
{
    /* VUID-VkPipelineBinaryCreateInfoKHR-device-09610 */
    if (state->device->no_internal_cache)
        return "VUID-VkPipelineBinaryCreateInfoKHR-device-09610";
    const char *why = info_of(state, word, &source->build, &source->pipeline_info);
    source->info.pPipelineCreateInfo = &source->pipeline_info;
    if (!why)
        source->wording = &state->pipelines[slot_of(word, 'P')].wording;
    return why;
}

static const char *read_source(State *state, const Words *words, Source *source)
{
    const char *pipeline = words_value(words, "pipeline"), *data = words_value(words, "data"),
               *info = words_value(words, "info");
    source->info.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR;
    if (!state->device->has[BINARIES])
        return "feature";
    return pipeline ? from_pipeline(state, pipeline, source)
           : data   ? from_data(state, data, source)
           : info   ? from_info(state, info, source)
                    : "source";
}

static VkResult create_binaries(State *state, const Source *source, VkPipelineBinaryHandlesInfoKHR *handles)
{
    return state->device->commands.create_binaries(state->device->handle, &source->info, state->device->allocator,
                                                   handles);
}

/* The second call, with room for the binaries or for one less. */
static void fetch(State *state, const Source *source, uint32_t total, bool few, BinarySlot *out)
{
    memset(out->handles, 0xab, sizeof out->handles);
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                              .pipelineBinaryCount = few ? total - 1 : total,
                                              .pPipelineBinaries = out->handles};
    VkResult result = create_binaries(state, source, &handles);
    uint32_t made = 0, count = handles.pipelineBinaryCount;
    if (count > total)
        count = total;
    bool any = result == VK_SUCCESS || result == VK_INCOMPLETE;
    for (uint32_t i = 0; any && i < count; i++)
        made += out->handles[i] != VK_NULL_HANDLE;
    fprintf(state->out, " then=%d count=%u made=%u", result, handles.pipelineBinaryCount, made);
    out->count = any && made == count ? count : 0;
    out->complete = result == VK_SUCCESS && out->count == total;
}

/* binaries B0 pipeline=P0|info=P0|data=X0 [count|few] */
const char *run_binaries(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'B');
    Source *source = allocate(1, sizeof *source);
    const char *why = slot < 0 ? "slot" : read_source(state, words, source);
    if (why) {
        free(source);
        return why;
    }
    VkPipelineBinaryHandlesInfoKHR handles = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR};
    bool known = source->known && !words_value(words, "count");
    VkResult result = known ? VK_SUCCESS : create_binaries(state, source, &handles);
    uint32_t total = known ? source->known : handles.pipelineBinaryCount;
    BinarySlot made = {.wording = *source->wording};
    fprintf(state->out, "result=%d", result);
    if (result == VK_SUCCESS)
        fprintf(state->out, " total=%u", total);
    if (result == VK_SUCCESS && total > 0 && total <= MAX_BINARIES && !words_value(words, "count"))
        fetch(state, source, total, words_value(words, "few") != NULL, &made);
    fputc('\n', state->out);
    if (!words_value(words, "count")) {
        binary_slot_clear(state, &state->binaries[slot]);
        state->binaries[slot] = made;
    }
    free(source);
    return NULL;
}

/* One binary's data, into keys and data. False: it was not all read. */
static bool read_one(State *state, VkPipelineBinaryKHR binary, const Words *words, VkPipelineBinaryKeyKHR *key,
                     VkPipelineBinaryDataKHR *data)
{
    VkPipelineBinaryDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_DATA_INFO_KHR,
                                        .pipelineBinary = binary};
    *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    size_t size = 0;
    VkResult result = state->device->commands.get_binary_data(state->device->handle, &info, key, &size, NULL);
    fprintf(state->out, " %d,%zu,", result, size);
    print_key(state, key);
    if (result != VK_SUCCESS || words_value(words, "query"))
        return false;
    size_t room = words_value(words, "less") && size ? size - 1 : words_value(words, "more") ? size + 1 : size;
    size_t got = room;
    uint8_t *bytes = allocate(1, size + 2);
    memset(bytes, 0xab, size + 2);
    result = state->device->commands.get_binary_data(state->device->handle, &info, key, &got, bytes);
    fprintf(state->out, ",%d,%zu,%016llx,%d", result, got,
            (unsigned long long)digest(DIGEST_OF_NOTHING, bytes, got < room ? got : room), bytes[room] != 0xab);
    *data = (VkPipelineBinaryDataKHR){got, bytes};
    if (result == VK_SUCCESS)
        return true;
    free(bytes);
    *data = (VkPipelineBinaryDataKHR){0};
    return false;
}

/* bindata X0 B0 [query|less|more] */
const char *run_binary_data(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'X'), from = words->count > 2 ? slot_of(words->word[2], 'B') : -1;
    if (slot < 0 || from < 0 || !state->binaries[from].count)
        return from < 0 ? "slot" : words->word[2];
    const BinarySlot *binaries = &state->binaries[from];
    BinaryDataSlot read = {.wording = binaries->wording};
    bool all = binaries->complete;
    fprintf(state->out, "count=%u", binaries->count);
    for (uint32_t i = 0; i < binaries->count; i++)
        all &= read_one(state, binaries->handles[i], words, &read.keys[i], &read.data[i]);
    fputc('\n', state->out);
    read.count = binaries->count;
    if (!all)
        binary_data_clear(&read);
    binary_data_clear(&state->binary_data[slot]);
    state->binary_data[slot] = read;
    return NULL;
}

/* release P0 */
const char *run_release(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'P');
    PipelineSlot *pipeline = slot < 0 ? NULL : &state->pipelines[slot];
    /* VUID-VkReleaseCapturedPipelineDataInfoKHR-pipeline-09613 and -09618 */
    if (!pipeline || !pipeline->handle || !pipeline->traits.captured || pipeline->released)
        return words->word[1];
    VkReleaseCapturedPipelineDataInfoKHR info = {.sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR,
                                                 .pipeline = pipeline->handle};
    fprintf(state->out, "result=%d\n",
            state->device->commands.release_captured(state->device->handle, &info, state->device->allocator));
    pipeline->released = true;
    return NULL;
}

/* unbinaries B0 */
const char *run_unbinaries(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'B');
    if (slot < 0 || !state->binaries[slot].count)
        return words->word[1];
    binary_slot_clear(state, &state->binaries[slot]);
    return done;
}
