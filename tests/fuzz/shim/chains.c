/* chains.c - see fuzz.h */
#include "fuzz.h"

#define CONTROL VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR

void chain_add(Chain *chain, void *node, VkStructureType type)
{
    VkBaseOutStructure *added = node;
    added->sType = type;
    if (chain->last)
        chain->last->pNext = added;
    else
        chain->first = added;
    chain->last = added;
}

/* Types that no table of the layer knows. Their size is at least that of the head. */
void chain_add_unknown(Chain *chain)
{
    static const uint32_t types[] = {2000000000u, 0x7fffffffu, 1000999000u, 12345u};
    uint32_t type = chance(4) ? 3000000000u + take8() : types[below(4)];
    chain_add(chain, room(sizeof(VkBaseOutStructure) + below(24)), (VkStructureType)type);
}

static const uint32_t feature_types[] = {
    49,         51,         53,         55,         1000028000, 1000044003, 1000059000,
    1000297000, 1000470000, 1000483000, 1000462000, 1000068001, 1000347000, 1000161001,
};

void chain_add_device_features(Chain *chain)
{
    for (unsigned added = 0; added < 24 && chance(12); added++) {
        uint32_t type = feature_types[below(sizeof feature_types / sizeof feature_types[0])];
        if (chance(3)) {
            chain_add_unknown(chain);
            continue;
        }
        if (chance(2)) {
            VkDevicePipelineBinaryInternalCacheControlKHR *control = room(sizeof *control);
            control->disableInternalCache = chance(8);
            chain_add(chain, control, CONTROL);
            continue;
        }
        /* sType-unique: each type once, unless the program errs. */
        if (chain_find(chain->first, (VkStructureType)type) && !chance(1))
            continue;
        size_t size = pnext_struct_size((VkStructureType)type);
        VkBaseOutStructure *node = room(size ? size : sizeof *node);
        for (size_t i = sizeof *node; i + sizeof(VkBool32) <= size; i += sizeof(VkBool32))
            *(VkBool32 *)(void *)((char *)node + i) = chance(8);
        chain_add(chain, node, (VkStructureType)type);
    }
}

static size_t size_of(VkStructureType type)
{
    size_t size = pnext_struct_size(type);
    return size ? size : sizeof(VkBaseOutStructure);
}

unsigned chain_touch(const void *chain)
{
    unsigned count = 0;
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        touch(node, size_of(node->sType));
        expect(++count < 10000, "a chain without an end");
    }
    return count;
}

const VkBaseInStructure *chain_find(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *node = chain;
    while (node && node->sType != type)
        node = node->pNext;
    return node;
}
