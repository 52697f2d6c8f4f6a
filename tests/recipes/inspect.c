/* inspect.c - what a driver says of a pipeline, and what a program attached to it. */
#include "recipes.h"

#include <dlfcn.h>
#include <string.h>

enum { MOST = 64 };

/* FNV-1a: enough to tell whether two runs had the same bytes. */
uint64_t digest(uint64_t before, const void *bytes, size_t size)
{
    uint64_t hash = before ? before : 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* ---- VK_KHR_pipeline_executable_properties ------------------------------------------------------------------------- */

static uint64_t digest_of_text(uint64_t before, const char *text)
{
    return digest(before, text, strlen(text));
}

/* Of the names and values of all statistics. */
static uint64_t with_statistics(const Device *device, uint64_t before, const VkPipelineExecutableInfoKHR *which,
                                uint32_t *count)
{
    VkPipelineExecutableStatisticKHR statistics[MOST];
    memset(statistics, 0, sizeof statistics);
    for (uint32_t i = 0; i < MOST; i++)
        statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    *count = MOST;
    must(device->commands.get_statistics(device->handle, which, count, statistics),
         "vkGetPipelineExecutableStatisticsKHR");
    for (uint32_t i = 0; i < *count; i++) {
        before = digest_of_text(before, statistics[i].name);
        before = digest(before, &statistics[i].value.u64, sizeof statistics[i].value.u64);
    }
    return before;
}

/* Whether one is there says enough; the text may name pointers. */
static uint64_t with_representations(const Device *device, uint64_t before, const VkPipelineExecutableInfoKHR *which,
                                     uint32_t *count)
{
    VkPipelineExecutableInternalRepresentationKHR all[MOST];
    memset(all, 0, sizeof all);
    for (uint32_t i = 0; i < MOST; i++)
        all[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    *count = MOST;
    must(device->commands.get_representations(device->handle, which, count, all),
         "vkGetPipelineExecutableInternalRepresentationsKHR");
    for (uint32_t i = 0; i < *count; i++) {
        before = digest_of_text(before, all[i].name);
        before = digest_of_text(before, all[i].dataSize > 0 ? "there" : "empty");
    }
    return before;
}

static uint32_t get_executables(const Device *device, VkPipeline pipeline, VkPipelineExecutablePropertiesKHR *all)
{
    VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    uint32_t count = MOST;
    memset(all, 0, MOST * sizeof *all);
    for (uint32_t i = 0; i < MOST; i++)
        all[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    must(device->commands.get_executables(device->handle, &info, &count, all), "vkGetPipelineExecutablePropertiesKHR");
    return count;
}

static VkPipelineExecutableInfoKHR executable_of(VkPipeline pipeline, uint32_t number)
{
    return (VkPipelineExecutableInfoKHR){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline, .executableIndex = number};
}

/* Whether a pipeline is the one that was asked for: statistics can be asked for without keeping a driver from its
 * caches, and RADV's have hashes of the pipeline and its code. */
uint64_t statistics_digest(const Device *device, VkPipeline pipeline)
{
    VkPipelineExecutablePropertiesKHR all[MOST];
    uint32_t count = get_executables(device, pipeline, all), statistics;
    uint64_t hash = DIGEST_OF_NOTHING;
    for (uint32_t i = 0; i < count; i++) {
        VkPipelineExecutableInfoKHR which = executable_of(pipeline, i);
        hash = with_statistics(device, hash, &which, &statistics);
    }
    return hash;
}

/* executables P0: the properties of each, and of what was captured how much there is and its digest */
const char *run_executables(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'P');
    const Device *device = state->device;
    if (slot < 0 || !state->pipelines[slot].handle || !device->has[EXECUTABLES])
        return words->word[1];
    const PipelineTraits *traits = &state->pipelines[slot].traits;
    VkPipeline pipeline = state->pipelines[slot].handle;
    VkPipelineExecutablePropertiesKHR all[MOST];
    uint32_t count = get_executables(device, pipeline, all);
    fprintf(state->out, "count=%u", count);
    for (uint32_t i = 0; i < count; i++) {
        VkPipelineExecutableInfoKHR which = executable_of(pipeline, i);
        uint64_t hash = digest_of_text(DIGEST_OF_NOTHING, all[i].name);
        uint32_t statistics = 0, representations = 0;
        /* VUID-vkGetPipelineExecutableStatisticsKHR-pipeline-03274, -InternalRepresentationsKHR-pipeline-03278 */
        if (traits->statistics)
            hash = with_statistics(device, hash, &which, &statistics);
        if (traits->representations)
            hash = with_representations(device, hash, &which, &representations);
        fprintf(state->out, " %x,%u,%u,%u,%016llx", all[i].stages, all[i].subgroupSize, statistics, representations,
                (unsigned long long)hash);
    }
    fputc('\n', state->out);
    return NULL;
}

/* ---- private data ------------------------------------------------------------------------------------------------- */

typedef struct Object {
    VkObjectType type;
    uint64_t handle;
} Object;

/* What C0 or P0 names, with a handle of 0 where there is no such thing. */
static Object object_named(const State *state, const char *word)
{
    int cache = slot_of(word, 'C'), pipeline = slot_of(word, 'P');
    if (cache >= 0)
        return (Object){VK_OBJECT_TYPE_PIPELINE_CACHE, (uint64_t)state->caches[cache]};
    if (pipeline >= 0)
        return (Object){VK_OBJECT_TYPE_PIPELINE, (uint64_t)state->pipelines[pipeline].handle};
    return (Object){VK_OBJECT_TYPE_UNKNOWN, 0};
}

/* Each with the number of the slot added: what they hold is not the same. */
typedef bool PrivateStep(State *state, Object object, uint32_t slot, uint64_t value);

static bool set_one(State *state, Object object, uint32_t slot, uint64_t value)
{
    VkPrivateDataSlotCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PRIVATE_DATA_SLOT_CREATE_INFO};
    const Device *device = state->device;
    uint64_t before = ~0ull;
    if (!state->private_slots[slot])
        must(vkCreatePrivateDataSlot(device->handle, &info, device->allocator, &state->private_slots[slot]),
             "vkCreatePrivateDataSlot");
    vkGetPrivateData(device->handle, object.type, object.handle, state->private_slots[slot], &before);
    return before == 0 && vkSetPrivateData(device->handle, object.type, object.handle, state->private_slots[slot],
                                           value + slot) == VK_SUCCESS;
}

static bool get_one(State *state, Object object, uint32_t slot, uint64_t value)
{
    uint64_t found = ~0ull;
    if (!state->private_slots[slot])
        return false;
    vkGetPrivateData(state->device->handle, object.type, object.handle, state->private_slots[slot], &found);
    return found == value + slot;
}

static const char *run_step(State *state, const Words *words, PrivateStep *step)
{
    Object object = object_named(state, words->word[1]);
    uint32_t value = words_number(words, "value", 0);
    if (!object.handle || !state->device->has[PRIVATE_DATA])
        return state->device->has[PRIVATE_DATA] ? words->word[1] : "feature";
    for (uint32_t slot = 0; slot < PRIVATE_SLOTS; slot++)
        fprintf(state->out, "%s%d", slot ? "," : "as-expected=", step(state, object, slot, value));
    fputc('\n', state->out);
    return NULL;
}

/* name C0|P0|SHADER|device [TEXT]: with vkSetDebugUtilsObjectNameEXT, where the instance has the extension (--names) */
const char *run_name(State *state, const Words *words)
{
    Object object = object_named(state, words->word[1]);
    int shader = shader_named(words->word[1]);
    const Device *device = state->device;
    if (shader >= 0)
        object = (Object){VK_OBJECT_TYPE_SHADER_MODULE, (uint64_t)state->modules[shader]};
    if (strcmp(words->word[1], "device") == 0)
        object = (Object){VK_OBJECT_TYPE_DEVICE, (uint64_t)(uintptr_t)device->handle};
    if (!object.handle || !device->names)
        return device->names ? words->word[1] : "feature";
    const VkDebugUtilsObjectNameInfoEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
                                                .objectType = object.type,
                                                .objectHandle = object.handle,
                                                .pObjectName = words->count > 2 ? words->word[2] : NULL};
    return device->commands.set_name(device->handle, &info) == VK_SUCCESS ? done : "failure";
}

/* attach C0|P0 value=N: in two slots, which are empty before. With the word `slots` the device has reserved one. */
const char *run_attach(State *state, const Words *words)
{
    return run_step(state, words, set_one);
}

/* attached C0|P0 value=N */
const char *run_attached(State *state, const Words *words)
{
    return run_step(state, words, get_one);
}

/* where COMMAND ...: of each that there is the library that has it, and where in it */
const char *run_where(State *state, const Words *words)
{
    for (int i = 1; i < words->count; i++) {
        const char *command = (const char *)vkGetDeviceProcAddr(state->device->handle, words->word[i]);
        Dl_info where = {0};
        if (command && dladdr(command, &where))
            fprintf(state->out, "%s=%s,%zx ", words->word[i], strrchr(where.dli_fname, '/') + 1,
                    (size_t)(command - (const char *)where.dli_fbase));
    }
    fputc('\n', state->out);
    return NULL;
}

/* about */
const char *run_about(State *state, const Words *words)
{
    VkPhysicalDeviceGroupProperties group = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES};
    uint32_t one = 1;
    vkEnumeratePhysicalDeviceGroups(state->device->instance, &one, &group);
    fprintf(state->out, "devices=%u name=%s\n", group.physicalDeviceCount, state->device->properties.deviceName);
    return NULL;
}
