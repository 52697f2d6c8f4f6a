/*
 * pnext.c - see pnext.h. The struct sizes come from Vulkan's registry. A struct that the registry did not have yet
 * cannot be copied, so neither it nor anything after it is changed.
 */
#include <stdlib.h>
#include <string.h>

#include "vulkan/pnext.h"

typedef struct StructureSize {
    uint32_t type, bytes;
} StructureSize;

_Static_assert(sizeof(void *) == 8, "registry.inc has the sizes of a 64-bit process");

#define STRUCTURE(name, type, bytes, extends) {type, bytes},
#define PIPELINE_CACHE_COMMAND(name)
static const StructureSize structure_sizes[] = {
#include "vulkan/registry.inc"
};

static int compare_structure(const void *key, const void *entry)
{
    uint32_t type = *(const uint32_t *)key, other = ((const StructureSize *)entry)->type;
    return (type > other) - (type < other);
}

size_t pnext_struct_size(VkStructureType type)
{
    /* The loader's own struct, in vk_layer.h. */
    if (type == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
        return sizeof(VkLayerDeviceCreateInfo);
    uint32_t key = (uint32_t)type;
    const StructureSize *found = bsearch(&key, structure_sizes, sizeof structure_sizes / sizeof structure_sizes[0],
                                         sizeof structure_sizes[0], compare_structure);
    return found ? found->bytes : 0;
}

const VkBaseInStructure *pnext_unknown_until(const void *chain, const void *last)
{
    const VkBaseInStructure *node = chain;
    while (node && pnext_struct_size(node->sType)) {
        if ((const void *)node == last)
            return NULL;
        node = node->pNext;
    }
    return node;
}

VkBaseOutStructure *pnext_copy_until(const void *chain, const void *last, VkBaseOutStructure **last_copy)
{
    VkBaseOutStructure *first = NULL, *previous = NULL;
    for (const VkBaseInStructure *node = chain; node; node = node->pNext) {
        size_t size = pnext_struct_size(node->sType);
        VkBaseOutStructure *copy = size ? malloc(size) : NULL;
        if (!copy)
            break;
        memcpy(copy, node, size);
        if (previous)
            previous->pNext = copy;
        else
            first = copy;
        previous = copy;
        if ((const void *)node == last) {
            *last_copy = copy;
            return first;
        }
    }
    if (first) {
        previous->pNext = NULL;
        pnext_free_copies(first, previous);
    }
    return NULL;
}

void pnext_say_unknown(SaidUnknown *said, const void *chain, const void *last)
{
    const VkBaseInStructure *unknown = pnext_unknown_until(chain, last);
    if (!unknown) /* memory was short */
        return;
    for (size_t i = 0; i < sizeof said->types / sizeof said->types[0]; i++) {
        unsigned type = 0;
        if (atomic_compare_exchange_strong(&said->types[i], &type, (unsigned)unknown->sType)) {
            log_line(
                PYLAYER_LOG_WARN,
                "the pNext chain of a pipeline's create info has a structure that the layer does not know (sType %u). "
                "The layer cannot change the structures after it, so it creates such pipelines without a probe or a "
                "capture",
                (unsigned)unknown->sType);
            return;
        }
        if (type == (unsigned)unknown->sType)
            return;
    }
}

void pnext_free_copies(VkBaseOutStructure *first, VkBaseOutStructure *last_copy)
{
    while (first) {
        VkBaseOutStructure *next = first == last_copy ? NULL : first->pNext;
        free(first);
        first = next;
    }
}
