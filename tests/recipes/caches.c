/* caches.c - VkPipelineCache objects and their data. */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

/* VkPipelineCacheHeaderVersionOne */
enum { HEADER_SIZE = 32, HEADER_UUID = 16 };

/* A copy of data that read gave, in the form that a `cache` line wants. */
static DataSlot shaped(const DataSlot *whole, const char *form)
{
    DataSlot out = {allocate(1, whole->size), whole->size};
    memcpy(out.bytes, whole->bytes, whole->size);
    if (strcmp(form, "truncated") == 0)
        out.size = whole->size - whole->size / 4;
    else if (strcmp(form, "below") == 0)
        out.size = whole->size < HEADER_SIZE / 2 ? whole->size : HEADER_SIZE / 2;
    else if (strcmp(form, "header") == 0)
        out.size = whole->size < HEADER_SIZE ? whole->size : HEADER_SIZE;
    else if (strcmp(form, "corrupted") == 0 && whole->size >= HEADER_SIZE)
        out.bytes[4] ^= 0xff; /* headerVersion */
    else if (strcmp(form, "foreign") == 0 && whole->size >= HEADER_SIZE)
        out.bytes[HEADER_UUID] ^= 0xff;
    return out;
}

/* cache C0 [data=D0 form=whole|truncated|below|header|corrupted|foreign] [external] [synchronized] [unknown]: with
 * one of the flags, or a structure that nobody knows */
const char *run_cache(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'C');
    const char *source = words_value(words, "data"), *form = words_value(words, "form");
    bool external = words_value(words, "external") != NULL, synchronized = words_value(words, "synchronized") != NULL;
    int data_slot = source ? slot_of(source, 'D') : -1;
    if (slot < 0 || (source && (data_slot < 0 || !state->data[data_slot].bytes)))
        return source ? source : "slot";
    /* VUID-VkPipelineCacheCreateInfo-pipelineCreationCacheControl-02892 */
    if ((external && !state->device->has[CONTROL_FEATURE]) || (synchronized && !state->device->has[MAINTENANCE_8]))
        return "feature";
    DataSlot data = source ? shaped(&state->data[data_slot], form ? form : "whole") : (DataSlot){0};
    const VkBaseInStructure unknown = {.sType = TYPE_UNKNOWN};
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .pNext = words_value(words, "unknown") ? &unknown : NULL,
        .flags = (external ? VK_PIPELINE_CACHE_CREATE_EXTERNALLY_SYNCHRONIZED_BIT : 0) |
                 (synchronized ? VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR : 0),
        .initialDataSize = data.size,
        .pInitialData = data.bytes,
    };
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkResult result = vkCreatePipelineCache(state->device->handle, &info, state->device->allocator, &cache);
    free(data.bytes);
    vkDestroyPipelineCache(state->device->handle, state->caches[slot], state->device->allocator);
    state->caches[slot] = cache;
    fprintf(state->out, "result=%d C%d=%s\n", result, slot, cache ? "set" : "null");
    return NULL;
}

/* uncache C0 */
const char *run_uncache(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'C');
    if (slot < 0 || !state->caches[slot])
        return words->word[1];
    vkDestroyPipelineCache(state->device->handle, state->caches[slot], state->device->allocator);
    state->caches[slot] = VK_NULL_HANDLE;
    return done;
}

/* merge C0 C1 C2 ...: into the first */
const char *run_merge(State *state, const Words *words)
{
    VkPipelineCache sources[MAX_WORDS];
    uint32_t count = 0;
    int into = slot_of(words->word[1], 'C');
    if (into < 0 || !state->caches[into])
        return words->word[1];
    for (int i = 2; i < words->count; i++) {
        int slot = slot_of(words->word[i], 'C');
        /* VUID-vkMergePipelineCaches-dstCache-00770 */
        if (slot < 0 || slot == into || !state->caches[slot])
            return words->word[i];
        sources[count++] = state->caches[slot];
    }
    if (count == 0)
        return "sources";
    fprintf(state->out, "result=%d\n",
            vkMergePipelineCaches(state->device->handle, state->caches[into], count, sources));
    return NULL;
}

/* more COMMAND C0 [deferred]: pipelines of a kind of which the layer knows nothing, in a cache, which an operation that
 * nobody completes may still use. These commands are alike but for the deferred operation that one of them takes. */
const char *run_more(State *state, const Words *words)
{
    typedef VkResult(VKAPI_PTR * Create)(VkDevice, VkPipelineCache, uint32_t, const void *,
                                         const VkAllocationCallbacks *, VkPipeline *);
    typedef VkResult(VKAPI_PTR * CreateDeferred)(VkDevice, VkDeferredOperationKHR, VkPipelineCache, uint32_t,
                                                 const void *, const VkAllocationCallbacks *, VkPipeline *);
    VkDevice device = state->device->handle;
    PFN_vkVoidFunction command = vkGetDeviceProcAddr(device, words->word[1]);
    int slot = slot_of(words->word[2], 'C');
    VkDeferredOperationKHR operation = words_value(words, "deferred") ? (VkDeferredOperationKHR)1 : VK_NULL_HANDLE;
    VkPipeline pipeline;
    if (!command || slot < 0 || !state->caches[slot])
        return command ? words->word[2] : words->word[1];
    fprintf(state->out, "result=%d\n",
            strcmp(words->word[1], "vkCreateDataGraphPipelinesARM") == 0
                ? ((CreateDeferred)command)(device, operation, state->caches[slot], 1, NULL, NULL, &pipeline)
                : ((Create)command)(device, state->caches[slot], 1, NULL, NULL, &pipeline));
    return NULL;
}

static bool header_is_right(const State *state, const uint8_t *data, size_t size)
{
    uint32_t words[4];
    if (size < HEADER_SIZE)
        return false;
    memcpy(words, data, sizeof words);
    return words[0] == HEADER_SIZE && words[1] == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
           words[2] == state->device->properties.vendorID && words[3] == state->device->properties.deviceID &&
           memcmp(data + HEADER_UUID, state->device->properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* Drivers count their entries behind the header. */
static const char *size_class(size_t size)
{
    enum { EMPTY_AT_MOST = HEADER_SIZE + 16 };
    return size == 0 ? "none" : size < HEADER_SIZE ? "below" : size <= EMPTY_AT_MOST ? "empty" : "filled";
}

/* room=N bytes, or room=D0 for as many as the read into that slot gave: there may be more by now. */
static size_t room(const State *state, const Words *words, size_t size)
{
    const char *given = words_value(words, "room");
    int earlier = slot_of(given, 'D');
    if (words_value(words, "zero"))
        return 0;
    if (words_value(words, "header"))
        return HEADER_SIZE;
    if (words_value(words, "less"))
        return size - 1;
    if (words_value(words, "half"))
        return size / 2;
    if (words_value(words, "more"))
        return size + 1;
    return earlier >= 0 ? state->data[earlier].size : words_number(words, "room", (uint32_t)size);
}

/* With unsized what is printed does not depend on how much there is: other threads may have created the same pipelines.
 * Nor is it said then whether bytes beyond the room were written: NVIDIA's driver writes one, for some data. A read of
 * less than all may have no room for the header. */
static void print_read(const State *state, const Words *words, size_t size, const DataSlot *read, bool beyond)
{
    bool header = header_is_right(state, read->bytes, read->size), sized = !words_value(words, "unsized");
    if (sized)
        fprintf(state->out, " got=%s header=%d", size_class(read->size), header);
    else
        fprintf(state->out, " whole=%d less=%d", read->size == size, read->size < size);
    if (!sized && read->size == size)
        fprintf(state->out, " header=%d", header);
    if (words_value(words, "exact"))
        fprintf(state->out, " bytes=%zu", read->size);
    if (sized)
        fprintf(state->out, " beyond=%d", beyond);
    fputc('\n', state->out);
}

/* read D0 C0 [query|zero|header|less|half|more|room=N|room=D1] [unsized|exact]: all of it without a word more. */
const char *run_read(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'D'), from = words->count > 2 ? slot_of(words->word[2], 'C') : -1;
    if (slot < 0 || from < 0 || !state->caches[from])
        return from < 0 ? "slot" : words->word[2];
    size_t size = 0;
    VkResult result = vkGetPipelineCacheData(state->device->handle, state->caches[from], &size, NULL);
    fprintf(state->out, "result=%d", result);
    if (!words_value(words, "unsized"))
        fprintf(state->out, " size=%s", size_class(size));
    if (words_value(words, "query")) {
        fputc('\n', state->out);
        return NULL;
    }
    size_t wanted = room(state, words, size), got = wanted;
    uint8_t *bytes = allocate(1, wanted + HEADER_SIZE);
    memset(bytes, 0xab, wanted + HEADER_SIZE);
    result = vkGetPipelineCacheData(state->device->handle, state->caches[from], &got, bytes);
    bool beyond = got > wanted;
    for (size_t i = wanted; i < wanted + HEADER_SIZE; i++)
        beyond |= bytes[i] != 0xab;
    fprintf(state->out, " then=%d", result);
    print_read(state, words, size, &(DataSlot){bytes, got}, beyond);
    free(state->data[slot].bytes);
    state->data[slot] = (DataSlot){bytes, beyond ? 0 : got};
    return NULL;
}
