/* stages.c - shader stages: where their code is from, and what hangs on them. */
#include "build.h"

#include <stdlib.h>
#include <string.h>

/* ---- code ------------------------------------------------------------------------------------------------------ */

typedef VkPipelineShaderStageModuleIdentifierCreateInfoEXT IdentifierNode;

/* `garbage` is 16 bytes that no shader has as its identifier; `garbage:SIZE:BYTE` any others. */
static void garbage_identifier(Build *out, const char *from, IdentifierNode *node)
{
    const char *size = strchr(from, ':'), *byte = size ? strchr(size + 1, ':') : NULL;
    node->identifierSize = size ? (uint32_t)strtoul(size + 1, NULL, 10) : 16;
    if (node->identifierSize > sizeof out->changed_identifier)
        node->identifierSize = sizeof out->changed_identifier;
    memset(out->changed_identifier, byte ? (int)strtoul(byte + 1, NULL, 16) : 'x', sizeof out->changed_identifier);
    node->pIdentifier = out->changed_identifier;
}

/* `id` as it is, `id:flipped` with another last bit, `id:SIZE` cut. */
static void known_identifier(const Identifier *known, Build *out, const char *from, IdentifierNode *node)
{
    const char *change = strchr(from, ':');
    node->identifierSize = known->size;
    memcpy(out->changed_identifier, known->bytes, sizeof known->bytes);
    if (change && strcmp(change, ":flipped") == 0 && known->size)
        out->changed_identifier[known->size - 1] ^= 1;
    else if (change && strtoul(change + 1, NULL, 10) < known->size)
        node->identifierSize = (uint32_t)strtoul(change + 1, NULL, 10);
    node->pIdentifier = change ? out->changed_identifier : known->bytes;
}

static const char *add_identifier(const State *state, Build *out, ShaderName name, const char *from, Nodes *nodes)
{
    IdentifierNode *node = &out->stage_nodes[out->stage_count].identifier;
    if (!state->device->has[IDENTIFIERS] && !state->device->unasked_identifiers)
        return "feature";
    node->sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT;
    if (strncmp(from, "garbage", 7) == 0)
        garbage_identifier(out, from, node);
    else
        known_identifier(&state->identifiers[name], out, from, node);
    if (node->identifierSize == 0)
        return "identifier";
    if (!(out->flags & VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT))
        return "VUID-VkPipelineShaderStageModuleIdentifierCreateInfoEXT-pNext-06851";
    out->traits.identified = true;
    add_node(nodes, node);
    return NULL;
}

static const char *add_inline_code(const State *state, Build *out, ShaderName name, Nodes *nodes)
{
    VkShaderModuleCreateInfo *code = &out->stage_nodes[out->stage_count].code;
    if (!state->device->has[MAINTENANCE_5] && !state->device->has[LIBRARIES])
        return "feature";
    *code = shader_info(state, name);
    add_node(nodes, code);
    return NULL;
}

static const char *set_module(const State *state, Build *out, ShaderName name)
{
    VkShaderModule own = state->modules[name];
    out->stages[out->stage_count].module = own ? own : objects.modules[name];
    return out->stages[out->stage_count].module ? NULL : "module";
}

static const char *add_code(const State *state, Build *out, ShaderName name, const char *from, Nodes *nodes)
{
    if (strcmp(from, "nothing") == 0)
        return out->binary_info.binaryCount ? NULL : "VUID-VkPipelineShaderStageCreateInfo-stage-08771";
    if (strcmp(from, "inline") == 0)
        return add_inline_code(state, out, name, nodes);
    if (strcmp(from, "module") == 0)
        return set_module(state, out, name);
    return add_identifier(state, out, name, from, nodes);
}

/* Each stage has an item of `from=` of its own, and the last item serves all stages behind it. */
static const char *source_of(const Build *out, const Words *words, Purpose purpose, char *item, unsigned size)
{
    const char *list = words_value(words, "from");
    strcpy(item, "module");
    for (uint32_t i = 0; i <= out->stage_count; i++)
        if (!next_item(&list, item, size))
            break;
    /* Keys and looks into caches need the code or what identifies it. */
    bool codeless = strcmp(item, "nothing") == 0 || strcmp(item, "module") == 0;
    return purpose == FOR_KEY && codeless ? "inline" : item;
}

/* An identifier of no bytes is as if the struct were not there: the code is what else the stage has. */
static void add_empty_identifier(Build *out, Nodes *nodes)
{
    IdentifierNode *node = &out->stage_nodes[out->stage_count].identifier;
    node->sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT;
    node->pIdentifier = out->changed_identifier;
    add_node(nodes, node);
}

/* ---- constants ------------------------------------------------------------------------------------------------- */

/* Four bytes; a float where there is a point, eight bytes in front of an l. Returns where the next may begin. */
static uint32_t place_constant(Build *out, VkSpecializationMapEntry *entry, const char *value, uint32_t end)
{
    uint64_t wide = strtoull(value, NULL, 10);
    uint32_t narrow = (uint32_t)wide;
    float real = strtof(value, NULL);
    const void *bytes = strchr(value, '.') ? (const void *)&real : &narrow;
    uint32_t size = sizeof narrow;
    if (strchr(value, 'l')) {
        bytes = &wide;
        size = sizeof wide;
    }
    entry->size = size;
    entry->offset = (end + size - 1) / size * size;
    memcpy(out->constants + entry->offset, bytes, size);
    return entry->offset + size;
}

/* spec=VALUE of constant 0, spec=ID:VALUE,..., or spec= for none. The data stands in another order than its entries. */
static void add_constants(Build *out, const char *list)
{
    char items[MAX_CONSTANTS][32];
    uint32_t count = 0, end = 0;
    while (count < MAX_CONSTANTS && next_item(&list, items[count], sizeof items[count]))
        count++;
    for (uint32_t i = count; i-- > 0;) {
        const char *behind = strchr(items[i], ':');
        out->constant_entries[i].constantID = behind ? (uint32_t)strtoul(items[i], NULL, 10) : 0;
        end = place_constant(out, &out->constant_entries[i], behind ? behind + 1 : items[i], end);
    }
    out->specialization = (VkSpecializationInfo){count, out->constant_entries, end, out->constants};
}

/* ---- what else hangs on a stage ----------------------------------------------------------------------------------- */

/* heap=SOURCE,NUMBERS: where both bindings are, or at which address. */
static void add_mapping(StageNodes *stage, const char *heap, Nodes *nodes)
{
    enum { ALL_RESOURCES = 0x7fffffff };
    uint32_t numbers[5] = {0};
    char item[32];
    for (size_t i = 0; i < COUNT_OF(numbers) && next_item(&heap, item, sizeof item); i++)
        numbers[i] = (uint32_t)strtoul(item, NULL, 0);
    for (uint32_t i = 0; i < HEAP_BINDINGS; i++) {
        stage->mappings[i] = (DescriptorMapping){.sType = TYPE_DESCRIPTOR_MAPPING,
                                                 .firstBinding = i,
                                                 .bindingCount = 1,
                                                 .resourceMask = ALL_RESOURCES,
                                                 .source = numbers[0]};
        memcpy(stage->mappings[i].numbers, &numbers[1], sizeof numbers - sizeof *numbers);
    }
    stage->mapping = (DescriptorMappingInfo){TYPE_DESCRIPTOR_MAPPING_INFO, NULL, HEAP_BINDINGS, stage->mappings};
    add_node(nodes, &stage->mapping);
}

static void add_subgroup_size(const Device *device, StageNodes *stage, const char *size, Nodes *nodes)
{
    stage->subgroup_size = (VkPipelineShaderStageRequiredSubgroupSizeCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = strcmp(size, "least") == 0     ? device->least_subgroup
                                : strcmp(size, "largest") == 0 ? device->largest_subgroup
                                                               : (uint32_t)strtoul(size, NULL, 10)};
    add_node(nodes, &stage->subgroup_size);
}

static VkPipelineShaderStageCreateFlags stage_flags_of(const Words *words)
{
    const char *list = words_value(words, "stage-flags");
    VkPipelineShaderStageCreateFlags flags = 0;
    if (list && listed(list, "varying"))
        flags |= VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT;
    if (list && listed(list, "full"))
        flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    return flags;
}

static const char *add_nodes(const State *state, Build *out, ShaderName name, const Words *words, Nodes *nodes)
{
    StageNodes *stage = &out->stage_nodes[out->stage_count];
    const char *unknown = words_value(words, "unknown"), *size = words_value(words, "subgroup"),
               *heap = words_value(words, "heap");
    bool robust;
    const char *why = read_robustness(state, words, "stage", &robust, &stage->robustness);
    if (robust)
        add_node(nodes, &stage->robustness);
    if (size && shaders[name].stage == VK_SHADER_STAGE_COMPUTE_BIT)
        add_subgroup_size(state->device, stage, size, nodes);
    if (heap)
        add_mapping(stage, heap, nodes);
    if (words_value(words, "no-identifier"))
        add_empty_identifier(out, nodes);
    if (unknown && strcmp(unknown, "stage") == 0) {
        stage->unknown.sType = TYPE_UNKNOWN;
        add_node(nodes, &stage->unknown);
    }
    return why;
}

const char *add_stage(State *state, Build *out, ShaderName name, const Words *words, Purpose purpose)
{
    VkPipelineShaderStageCreateInfo *stage = &out->stages[out->stage_count];
    const char *spec = words_value(words, "spec");
    Nodes nodes = {.count = 0};
    char source[32];
    if (!shader_is_there(state->device, name))
        return "feature";
    *stage = (VkPipelineShaderStageCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = shaders[name].stage, .pName = "main"};
    if (spec) {
        add_constants(out, spec);
        stage->pSpecializationInfo = &out->specialization;
    }
    if (stage->stage == VK_SHADER_STAGE_COMPUTE_BIT)
        stage->flags = stage_flags_of(words);
    const char *why = add_nodes(state, out, name, words, &nodes);
    if (!why)
        why = add_code(state, out, name, source_of(out, words, purpose, source, sizeof source), &nodes);
    stage->pNext = chain_nodes(&nodes, words_value(words, "reversed") != NULL);
    out->stage_count++;
    return why;
}
