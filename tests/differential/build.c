#include "build.h"

#include <stdlib.h>
#include <string.h>

void add_node(Build *build, void *node)
{
    build->nodes[build->node_count++] = node;
}

/* Both orders of the chain are the same call (Vulkan, 'pNext chains have no order'). */
static const void *chain_nodes(Build *out, bool reversed)
{
    VkBaseOutStructure *next = NULL;
    for (uint32_t i = 0; i < out->node_count; i++) {
        VkBaseOutStructure *node = out->nodes[reversed ? out->node_count - 1 - i : i];
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
    {"capture", VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR},
};

enum {
    CACHE_CONTROL_FLAGS =
        VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT | VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT
};

static const char *read_flags(const State *state, Build *out, const Words *words, Purpose purpose)
{
    const char *list = words_value(words, "flags");
    for (size_t i = 0; list && i < sizeof flag_names / sizeof *flag_names; i++)
        if (listed(list, flag_names[i].word))
            out->flags |= flag_names[i].bit;
    if (words_value(words, "base"))
        out->flags |= VK_PIPELINE_CREATE_DERIVATIVE_BIT;
    if (purpose == FOR_KEY)
        out->flags &= ~VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR;
    /* VUID-VkComputePipelineCreateInfo-binaryCount-09622 */
    if (out->binary_info.binaryCount)
        out->flags &= ~(uint64_t)VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT &
                      ~VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR;
    /* VUID-VkComputePipelineCreateInfo-pipelineCreationCacheControl-02878 */
    if ((out->flags & CACHE_CONTROL_FLAGS) && !state->enabled.control)
        return "feature";
    if ((out->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR) && !state->enabled.binaries)
        return "feature";
    if ((out->flags & VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR) && !state->enabled.executables)
        return "feature";
    out->traits.library = out->flags & VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
    out->traits.retains = out->flags & VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT;
    out->traits.derivable = out->flags & VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
    out->traits.captured = out->flags & VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR;
    /* VUID-VkPipelineCreateFlags2CreateInfo-flags-requiredbitmask: there has to be one. */
    bool chained = out->flags && (words_value(words, "flags2") || out->traits.captured);
    if (chained && !state->enabled.maintenance5)
        return "feature";
    if (chained) {
        out->flags2 = (VkPipelineCreateFlags2CreateInfoKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_FLAGS_2_CREATE_INFO_KHR, .flags = out->flags};
        add_node(out, &out->flags2);
    }
    return NULL;
}

static const char *add_common_nodes(const State *state, Build *out, const Words *words)
{
    const char *robustness = words_value(words, "robust");
    if (robustness && strcmp(robustness, "pipeline") == 0) {
        if (!state->enabled.robustness)
            return "feature";
        out->robustness = (VkPipelineRobustnessCreateInfoEXT){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT,
            .storageBuffers = VK_PIPELINE_ROBUSTNESS_BUFFER_BEHAVIOR_ROBUST_BUFFER_ACCESS_EXT,
        };
        add_node(out, &out->robustness);
    }
    if (words_value(words, "unknown")) {
        /* No structure has this type: what is newer than everybody looks like it. */
        out->unknown.sType = (VkStructureType)1999999999;
        add_node(out, &out->unknown);
    }
    if (out->binary_info.binaryCount)
        add_node(out, &out->binary_info);
    return NULL;
}

static void add_feedback(Build *out, const Words *words)
{
    const char *wanted = words_value(words, "feedback");
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
    add_node(out, &out->feedback_info);
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
    out->info.compute = (VkComputePipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .stage = out->stages[0], .layout = state->layout};
    return why;
}

/* Everything but what stands first in a recipe: the slot, and how code and binaries came there. */
static void remember(Build *out, Point point, const Words *words)
{
    Recipe *recipe = &out->recipe;
    recipe->filled = true;
    recipe->point = point;
    for (int i = 0; i < words->count; i++) {
        if (strncmp(words->word[i], "base=", 5) == 0 || strncmp(words->word[i], "binaries=", 9) == 0)
            continue;
        strcat(strcat(recipe->text, words->word[i]), " ");
    }
}

static void set_head(Build *out, const void *chain)
{
    VkPipelineCreateFlags flags = out->flags2.sType ? 0 : (VkPipelineCreateFlags)out->flags;
    switch (out->point) {
    case POINT_COMPUTE:
        out->info.compute.pNext = chain;
        out->info.compute.flags = flags;
        out->info.compute.basePipelineIndex = -1;
        break;
    case POINT_GRAPHICS:
        out->info.graphics.pNext = chain;
        out->info.graphics.flags = flags;
        out->info.graphics.basePipelineIndex = -1;
        break;
    default:
        out->info.rays.pNext = chain;
        out->info.rays.flags = flags;
        out->info.rays.basePipelineIndex = -1;
    }
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
        add_feedback(out, words);
    set_head(out, chain_nodes(out, words_value(words, "reversed") != NULL));
    return NULL;
}

const char *build_again(State *state, Build *out, const Recipe *recipe, Purpose purpose, const BinarySlot *binaries,
                        const Words *more)
{
    static char text[MAX_LINE + 32];
    if (!recipe->filled)
        return "recipe";
    if (binaries) {
        out->binary_info = (VkPipelineBinaryInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                                     .binaryCount = binaries->count,
                                                     .pPipelineBinaries = binaries->handles};
    }
    /* The first of two words with the same key counts. */
    snprintf(text, sizeof text, "%s %s", binaries ? "from=nothing" : "", recipe->text);
    Words words = words_cut(text);
    if (more && words_value(more, "feedback") && words.count < MAX_WORDS)
        words.word[words.count++] = "feedback=stages";
    const char *why = build(state, out, recipe->point, &words, purpose);
    for (uint32_t i = 0; !why && i < LIBRARY_PARTS; i++)
        if (recipe->linked[i] != out->recipe.linked[i])
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
        if (!library->handle || !library->traits.library || library->recipe.point != out->point)
            return "library";
        /* VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855 */
        if (library->traits.identified && !(out->flags & VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT))
            return "VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855";
        out->traits.identified |= library->traits.identified;
        out->recipe.linked[*count] = library->serial;
        out->libraries[*count] = library->handle;
        slots[(*count)++] = library;
    }
    out->linked = (VkPipelineLibraryCreateInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                                   .libraryCount = *count,
                                                   .pLibraries = out->libraries};
    return NULL;
}
