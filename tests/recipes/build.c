#include "build.h"

#include <stdlib.h>
#include <string.h>

void add_node(Nodes *nodes, void *node)
{
    nodes->all[nodes->count++] = node;
}

const void *chain_nodes(const Nodes *nodes, bool reversed)
{
    VkBaseOutStructure *next = NULL;
    for (uint32_t i = 0; i < nodes->count; i++) {
        VkBaseOutStructure *node = nodes->all[reversed ? nodes->count - 1 - i : i];
        node->pNext = next;
        next = node;
    }
    return next;
}

static const struct {
    const char *word;
    uint64_t bit;
} flag_names[] = {
    {"noopt", VK_PIPELINE_CREATE_DISABLE_OPTIMIZATION_BIT},
    {"allow", VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT},
    {"fail", VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT},
    {"early", VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT},
    {"library", VK_PIPELINE_CREATE_LIBRARY_BIT_KHR},
    {"retain", VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT},
    {"lto", VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT},
    {"statistics", VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR},
    {"representations", VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR},
    {"dispatch-base", VK_PIPELINE_CREATE_DISPATCH_BASE_BIT},
    {"view-index", VK_PIPELINE_CREATE_VIEW_INDEX_FROM_DEVICE_INDEX_BIT},
    {"capture", VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR},
    {"skip-aabbs", VK_PIPELINE_CREATE_RAY_TRACING_SKIP_AABBS_BIT_KHR},
    {"no-null-miss", VK_PIPELINE_CREATE_RAY_TRACING_NO_NULL_MISS_SHADERS_BIT_KHR},
    {"no-null-hit", VK_PIPELINE_CREATE_RAY_TRACING_NO_NULL_CLOSEST_HIT_SHADERS_BIT_KHR},
    {"replayable", VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR},
};

enum {
    CACHE_CONTROL_FLAGS =
        VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT | VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT,
    CAPTURE_FLAGS =
        VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
};

static uint64_t flags_of(const State *state, const Words *words, Purpose purpose)
{
    const char *list = words_value(words, "flags");
    uint64_t flags = 0;
    for (size_t i = 0; list && i < COUNT_OF(flag_names); i++)
        if (listed(list, flag_names[i].word))
            flags |= flag_names[i].bit;
    if (words_value(words, "base"))
        flags |= VK_PIPELINE_CREATE_DERIVATIVE_BIT;
    if (words_value(words, "heap"))
        flags |= CREATE_DESCRIPTOR_HEAP;
    if (state->add.statistics && state->device->has[EXECUTABLES])
        flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    return purpose == FOR_KEY ? flags & ~VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR : flags;
}

static bool lacks_feature_of(const State *state, uint64_t flags)
{
    const bool *has = state->device->has;
    /* VUID-VkComputePipelineCreateInfo-pipelineCreationCacheControl-02878 */
    return ((flags & CACHE_CONTROL_FLAGS) && !has[CONTROL_FEATURE]) ||
           ((flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR) && !has[BINARIES]) ||
           ((flags & CAPTURE_FLAGS) && !has[EXECUTABLES]) ||
           ((flags & CREATE_DESCRIPTOR_HEAP) && !has[DESCRIPTOR_HEAP]);
}

/* VUID-VkPipelineCreateFlags2CreateInfo-flags-requiredbitmask: there has to be one. Programs chain none, too:
 * `always`. */
static const char *add_flags2(const State *state, Build *out, const Words *words)
{
    bool has = state->device->has[MAINTENANCE_5], added = state->add.flags2 && has;
    bool needed = out->traits.captured || (out->flags & CREATE_DESCRIPTOR_HEAP);
    const char *word = words_value(words, "flags2");
    bool always = added || (word && strcmp(word, "always") == 0);
    if (!always && (!out->flags || !(needed || word)))
        return NULL;
    if (!has)
        return "feature";
    out->flags2 = (VkPipelineCreateFlags2CreateInfoKHR){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR, .flags = out->flags};
    add_node(&out->nodes, &out->flags2);
    return NULL;
}

static const char *read_flags(const State *state, Build *out, const Words *words, Purpose purpose)
{
    out->flags = flags_of(state, words, purpose);
    /* VUID-VkComputePipelineCreateInfo-binaryCount-09622 */
    if (out->binary_info.binaryCount)
        out->flags &= ~(uint64_t)VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT &
                      ~VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR;
    if (lacks_feature_of(state, out->flags))
        return "feature";
    out->traits.library = out->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    out->traits.retains = out->flags & VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT;
    out->traits.derivable = out->flags & VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
    out->traits.captured = out->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR;
    out->traits.statistics = out->flags & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    out->traits.representations = out->flags & VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    return add_flags2(state, out, words);
}

static VkPipelineRobustnessBufferBehaviorEXT behavior_of(const char *level)
{
    return strcmp(level, "off") == 0 ? VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_DISABLED_EXT
           : strcmp(level, "2") == 0 ? VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_2_EXT
                                     : VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT;
}

/* A stage's own struct outweighs the pipeline's (Vulkan, VkPipelineRobustnessCreateInfo): with `both` they differ. */
const char *read_robustness(const State *state, const Words *words, const char *where, bool *wanted,
                            VkPipelineRobustnessCreateInfoEXT *robustness)
{
    const char *place = words_value(words, "robust"), *level = words_value(words, "level");
    bool both = place && strcmp(place, "both") == 0;
    *wanted = place && (both || strcmp(place, where) == 0);
    if (!*wanted)
        return NULL;
    if (both)
        level = strcmp(where, "pipeline") == 0 ? "off" : "on";
    VkPipelineRobustnessBufferBehaviorEXT behavior = behavior_of(level ? level : "on");
    *robustness = (VkPipelineRobustnessCreateInfoEXT){.sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
                                                      .storageBuffers = behavior,
                                                      .uniformBuffers = behavior};
    bool second = behavior == VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_2_EXT;
    return state->device->has[ROBUSTNESS] && (!second || state->device->has[ROBUSTNESS_2]) ? NULL : "feature";
}

static const char *add_common_nodes(const State *state, Build *out, const Words *words)
{
    const char *unknown = words_value(words, "unknown");
    bool wanted;
    const char *why = read_robustness(state, words, "pipeline", &wanted, &out->robustness);
    if (wanted)
        add_node(&out->nodes, &out->robustness);
    if (unknown && strcmp(unknown, "stage") != 0) {
        /* No structure has this type: what is newer than everybody looks like it. */
        out->unknown.sType = TYPE_UNKNOWN;
        add_node(&out->nodes, &out->unknown);
    }
    if (words_value(words, "no-binaries"))
        out->binary_info.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR;
    if (out->binary_info.sType)
        add_node(&out->nodes, &out->binary_info);
    return why;
}

static void add_feedback(const State *state, Build *out, const Words *words)
{
    const char *wanted = words_value(words, "feedback");
    if (!wanted && state->add.feedback)
        wanted = "stages";
    if (!wanted)
        return;
    out->wants_feedback = true;
    out->feedback.flags = POISON;
    for (uint32_t i = 0; i < MAX_STAGES; i++)
        out->stage_feedback[i].flags = POISON;
    bool stages = strcmp(wanted, "stages") == 0 && out->stage_count > 0;
    out->feedback_info = (VkPipelineCreationFeedbackCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
        .pPipelineCreationFeedback = &out->feedback,
        .pipelineStageCreationFeedbackCount = stages ? out->stage_count : 0,
        .pPipelineStageCreationFeedbacks = stages ? out->stage_feedback : NULL,
    };
    add_node(&out->nodes, &out->feedback_info);
}

VkPipelineLayout layout_of(const State *state, const Build *out)
{
    return out->flags & CREATE_DESCRIPTOR_HEAP ? VK_NULL_HANDLE : objects.layout;
}

static const char *build_compute(State *state, Build *out, const Words *words, Purpose purpose)
{
    int name = shader_named(words_value(words, "shader"));
    if (name < 0 || shaders[name].stage != VK_SHADER_STAGE_COMPUTE_BIT || words_value(words, "link"))
        return "shader";
    if (out->flags & (VK_PIPELINE_CREATE_LIBRARY_BIT_KHR | VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT |
                      VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT))
        return "flags";
    const char *why = add_stage(state, out, (ShaderName)name, words, purpose);
    out->info.compute = (VkComputePipelineCreateInfo){.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                      .stage = out->stages[0],
                                                      .layout = layout_of(state, out)};
    return why;
}

/* Everything but what stands first in an element: the slot, and how code and binaries came there. */
static void remember(Build *out, Point point, const Words *words)
{
    Wording *wording = &out->wording;
    wording->filled = true;
    wording->point = point;
    for (int i = 0; i < words->count; i++) {
        if (strncmp(words->word[i], "base=", 5) == 0 || strncmp(words->word[i], "binaries=", 9) == 0)
            continue;
        strcat(strcat(wording->text, words->word[i]), " ");
    }
}

/* Beside flags in the chain the legacy ones do not count, whatever they are. */
static VkPipelineCreateFlags legacy_flags(const Build *out, const Words *words)
{
    if (!out->flags2.sType)
        return (VkPipelineCreateFlags)out->flags;
    const char *legacy = words_value(words, "legacy");
    if (!legacy)
        return 0;
    return strcmp(legacy, "statistics") == 0 ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
                                             : VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT;
}

void set_base(AnyCreateInfo *info, Point point, VkPipeline handle, int32_t index)
{
    if (point == POINT_COMPUTE)
        info->compute.basePipelineHandle = handle, info->compute.basePipelineIndex = index;
    else if (point == POINT_GRAPHICS)
        info->graphics.basePipelineHandle = handle, info->graphics.basePipelineIndex = index;
    else
        info->rays.basePipelineHandle = handle, info->rays.basePipelineIndex = index;
}

const char *build(State *state, Build *out, Point point, const Words *words, Purpose purpose)
{
    out->point = point;
    remember(out, point, words);
    const char *why = read_flags(state, out, words, purpose);
    if (!why)
        why = add_common_nodes(state, out, words);
    if (!why)
        why = point == POINT_COMPUTE    ? build_compute(state, out, words, purpose)
              : point == POINT_GRAPHICS ? build_graphics(state, out, words, purpose)
                                        : build_rays(state, out, words, purpose);
    if (why)
        return why;
    if (purpose == FOR_CREATION)
        add_feedback(state, out, words);
    const void *chain = chain_nodes(&out->nodes, words_value(words, "reversed") != NULL);
    /* All three begin alike. */
    out->info.compute.pNext = chain;
    out->info.compute.flags = legacy_flags(out, words);
    set_base(&out->info, point, VK_NULL_HANDLE, -1);
    return NULL;
}

const char *build_again(State *state, Build *out, const Wording *wording, Purpose purpose, const BinarySlot *binaries,
                        const Words *more)
{
    char text[MAX_LINE + 32];
    if (!wording->filled)
        return "wording";
    if (binaries) {
        out->binary_info = (VkPipelineBinaryInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                                     .binaryCount = binaries->count,
                                                     .pPipelineBinaries = binaries->handles};
    }
    /* The first of two words with the same key counts. */
    snprintf(text, sizeof text, "%s %s", binaries ? "from=nothing" : "", wording->text);
    Words words = words_cut(text);
    if (more && words_value(more, "feedback") && words.count < MAX_WORDS)
        words.word[words.count++] = "feedback=stages";
    const char *why = build(state, out, wording->point, &words, purpose);
    for (uint32_t i = 0; !why && i < LIBRARY_PARTS; i++)
        if (wording->linked[i] != out->wording.linked[i])
            why = "linked";
    return why;
}

const char *link_libraries(State *state, Build *out, const Words *words, const PipelineSlot **slots, uint32_t *count)
{
    const char *list = words_value(words, "link");
    char word[8];
    *count = 0;
    while (next_item(&list, word, sizeof word)) {
        int slot = slot_of(word, 'P');
        if (slot < 0 || *count == LIBRARY_PARTS)
            return "link";
        const PipelineSlot *library = &state->pipelines[slot];
        if (!library->handle || !library->traits.library || library->wording.point != out->point)
            return "library";
        /* VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855 */
        if (library->traits.identified && !(out->flags & VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT))
            return "VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855";
        out->traits.identified |= library->traits.identified;
        out->wording.linked[*count] = library->serial;
        out->libraries[*count] = library->handle;
        slots[(*count)++] = library;
    }
    out->linked = (VkPipelineLibraryCreateInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                                   .libraryCount = *count,
                                                   .pLibraries = out->libraries};
    return NULL;
}
