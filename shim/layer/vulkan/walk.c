/* walk.c - see walk.h */
#include "vulkan/walk.h"

#include <string.h>

enum MemberKind { PLAIN, STRUCTURES, STRINGS, HANDLES, CONSTANTS };
/* Where the elements are: in the structure itself, or behind a pointer, with their number. BITS: 32 in an element. */
enum Counting { HERE, ONE, UINT32, UINT64, BITS };

/* What a member is. Offsets are those within its structure. Nothing here needs a relocation. */
typedef struct Member {
    uint16_t offset, size; /* size: of an element; of a handle the lower half of its VkObjectType */
    uint16_t target;       /* index of a structure; the upper half of a VkObjectType */
    uint16_t count;        /* where the number of elements is */
    uint16_t when;         /* where the value is that decides whether the member counts */
    uint8_t kind, counting, rule, value;
} Member;

/* Its members without sType and pNext, which begin each structure that has a type: all, and those of a fingerprint. */
typedef struct Structure {
    uint32_t type; /* NO_TYPE: it can be in no chain */
    uint16_t size, first, quick_first;
    uint8_t count, quick_count;
    uint16_t never;  /* bits of enum Fact: its sType counts with none of them, and a chain passes over it */
    bool quick_type; /* its sType is part of a fingerprint */
} Structure;

#define NO_TYPE UINT32_MAX

/* See shim/registry_rules.py. */
typedef struct Rule {
    uint32_t need, never;
    uint64_t any, all, moot;
    bool valid;
} Rule;

#include "vulkan/registry.inc"

#define NO_MEMBER 0xffff
#define ANY_VALUE 0xff
_Static_assert(sizeof(void *) == 8, "registry.inc has the sizes of a 64-bit process");

#define STRUCTURE_COUNT (sizeof structures / sizeof structures[0])
#define NOT_FOUND STRUCTURE_COUNT

static size_t find_structure(VkStructureType type)
{
    size_t low = 0;
    for (size_t left = STRUCTURE_COUNT; left > 1; left -= left / 2)
        low += structures[low + left / 2].type <= (uint32_t)type ? left / 2 : 0;
    return structures[low].type == (uint32_t)type ? low : NOT_FOUND;
}

size_t walk_size_of(enum StructureIndex index)
{
    return structures[index].size;
}

size_t walk_structure_size(VkStructureType type)
{
    size_t index = find_structure(type);
    return index == NOT_FOUND ? 0 : structures[index].size;
}

uint64_t walk_dynamic(VkDynamicState state)
{
    switch ((int)state) {
#define DYNAMIC_STATE(value, bit)                                                                                      \
    case value:                                                                                                        \
        return 1ull << (bit);
        DYNAMIC_STATES /* NOLINT(bugprone-branch-clone): in the registry's order */
            default : return 0;
    }
}

static uint32_t number_at(const char *data, uint16_t offset)
{
    return *(const uint32_t *)(const void *)(data + offset);
}

static bool counts(const Walk *walk, const Member *member, const char *data)
{
    const Rule *rule = &rules[member->rule];
    if ((walk->facts & rule->need) != rule->need || walk->facts & rule->never)
        return false;
    /* What is dynamic or off does no harm there, and a driver may look at it all the same. */
    const bool is_bytes = member->kind == PLAIN && member->counting == HERE && member->value == ANY_VALUE;
    if (walk->facts & FACT_RECORDED && (is_bytes || rule->valid))
        return true;
    if (walk->dynamic & rule->any || (walk->dynamic & rule->all) == rule->all)
        return false;
    if (member->when == NO_MEMBER || walk->dynamic & rule->moot)
        return true;
    uint32_t value = number_at(data, member->when);
    return member->value == ANY_VALUE ? value != 0 : value == member->value;
}

static uint64_t count_of(const Member *member, const char *data)
{
    switch ((enum Counting)member->counting) {
    case UINT32:
        return number_at(data, member->count);
    case UINT64:
        return *(const uint64_t *)(const void *)(data + member->count);
    case BITS:
        return (number_at(data, member->count) + 31) / 32;
    default:
        return 1;
    }
}

/* Only what constants are made of: there may be uninitialized memory between them. */
static void walk_constants(Walk *walk, const VkSpecializationInfo *info)
{
    for (uint32_t i = 0; i < info->mapEntryCount; i++) {
        const VkSpecializationMapEntry *entry = &info->pMapEntries[i];
        /* VUID-VkSpecializationInfo-offset-00773, -pMapEntries-00774: it lies within pData. */
        if (entry->offset > info->dataSize || entry->size > info->dataSize - entry->offset)
            continue;
        const uint64_t number = (uint64_t)entry->constantID << 32 | (uint32_t)entry->size;
        walk->bytes(walk, &number, sizeof number);
        walk->bytes(walk, (const char *)info->pData + entry->offset, entry->size);
    }
}

static void enter(Walk *walk, const void *place, const void *target, size_t size)
{
    if (walk->enter)
        walk->enter(walk, place, target, size);
}

/* The loader's own, in the chains of instances and devices. */
static bool is_loaders(VkStructureType type)
{
    return type == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || type == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO;
}

__attribute__((nonnull)) static void walk_chain(Walk *walk, const VkBaseInStructure *const *place)
{
    for (const VkBaseInStructure *node = *place; node; node = node->pNext) {
        size_t index = find_structure(node->sType);
        /* The rest of the chain is in this structure's. */
        if (index != NOT_FOUND && !(walk->facts & structures[index].never)) {
            const WalkBlock block = walk->block;
            enter(walk, place, node, structures[index].size);
            walk_structures(walk, (enum StructureIndex)index, node, 1);
            walk->block = block;
            return;
        }
        if (index == NOT_FOUND && !is_loaders(node->sType))
            walk->unknown = (uint32_t)node->sType;
    }
}

__attribute__((nonnull)) static void walk_strings(Walk *walk, const char *const *strings, uint64_t count)
{
    const WalkBlock block = walk->block;
    for (uint64_t i = 0; i < count && strings[i]; i++) {
        const size_t size = strlen(strings[i]) + 1;
        enter(walk, &strings[i], strings[i], size);
        walk->bytes(walk, strings[i], size);
        walk->block = block;
    }
}

__attribute__((nonnull)) static void walk_elements(Walk *walk, const Member *member, const char *data,
                                                   const void *elements, uint64_t count)
{
    const uint64_t *handles = elements;
    switch ((enum MemberKind)member->kind) {
    case PLAIN:
        walk->bytes(walk, elements, count * member->size);
        break;
    case STRUCTURES:
        walk_structures(walk, member->target, elements, count);
        break;
    case STRINGS:
        walk_strings(walk, elements, count);
        break;
    case HANDLES:
        for (uint64_t i = 0; i < count; i++)
            walk->handle(walk, (VkObjectType)(member->target << 16 | member->size), &handles[i], data);
        break;
    case CONSTANTS:
        if (walk->facts & FACT_HASHED)
            walk_constants(walk, (const void *)data);
        else
            walk->bytes(walk, elements, count);
        break;
    }
}

static size_t element_size(const Member *member)
{
    switch ((enum MemberKind)member->kind) {
    case STRUCTURES:
        return structures[member->target].size;
    case STRINGS:
    case HANDLES:
        return sizeof(uint64_t);
    default:
        return member->size;
    }
}

static void walk_pointer(Walk *walk, const Member *member, const char *data)
{
    const void *elements = *(const void *const *)(const void *)(data + member->offset);
    const WalkBlock block = walk->block;
    const uint64_t count = elements ? count_of(member, data) : 0;
    if (walk->facts & FACT_HASHED && (member->counting != ONE || !elements))
        walk->bytes(walk, &count, sizeof count);
    if (!elements || count == 0)
        return;
    if (walk->enter)
        walk->enter(walk, data + member->offset, elements, count * element_size(member));
    walk_elements(walk, member, data, elements, count);
    walk->block = block;
}

static void walk_members(Walk *walk, const Member *first, const Member *end, const char *data)
{
    for (const Member *member = first; member < end; member++) {
        if (member->rule != 0 && !counts(walk, member, data))
            continue;
        if (member->counting != HERE)
            walk_pointer(walk, member, data);
        else if (member->kind == PLAIN)
            walk->bytes(walk, data + member->offset, member->size);
        else
            walk_elements(walk, member, data, data + member->offset, 1);
    }
}

static void walk_head(Walk *walk, const Structure *structure, const VkBaseInStructure *head)
{
    if (walk->quick ? structure->quick_type : !(walk->facts & structure->never))
        walk->bytes(walk, &head->sType, sizeof head->sType);
    if (head->pNext)
        walk_chain(walk, &head->pNext);
}

void walk_structures(Walk *walk, enum StructureIndex index, const void *data, uint64_t count)
{
    const Structure *structure = &structures[index];
    const Member *first = members + (walk->quick ? structure->quick_first : structure->first);
    const Member *end = first + (walk->quick ? structure->quick_count : structure->count);
    for (const char *one = data; count > 0 && !walk->ended; count--, one += structure->size) {
        if (structure->type != NO_TYPE)
            walk_head(walk, structure, (const void *)one);
        walk_members(walk, first, end, one);
    }
}
