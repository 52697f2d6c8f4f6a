/*
 * pnext.c - see pnext.h. The struct sizes come from Vulkan's registry. A struct that the registry did not have yet
 * cannot be copied, so neither it nor anything after it is changed.
 */
#include <stdlib.h>
#include <string.h>

#include "vulkan/pnext.h"
#include "vulkan/walk.h"

size_t pnext_struct_size(VkStructureType type)
{
    /* The loader's own struct, in vk_layer.h. */
    if (type == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO)
        return sizeof(VkLayerDeviceCreateInfo);
    return walk_structure_size(type);
}

/* Bytes in a block of copies. */
static size_t room_of(const VkBaseInStructure *node)
{
    return (pnext_struct_size(node->sType) + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
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

VkBaseOutStructure *pnext_copy_until(const void *chain, const void *last)
{
    if (pnext_unknown_until(chain, last))
        return NULL;
    size_t bytes = 0;
    const VkBaseInStructure *end = ((const VkBaseInStructure *)last)->pNext;
    for (const VkBaseInStructure *node = chain; node != end; node = node->pNext)
        bytes += room_of(node);
    char *copies = malloc(bytes), *place = copies;
    for (const VkBaseInStructure *node = chain; copies && node != end; node = node->pNext) {
        VkBaseOutStructure *copy = memcpy(place, node, pnext_struct_size(node->sType));
        place += room_of(node);
        if (node->pNext != end)
            copy->pNext = (VkBaseOutStructure *)(void *)place;
    }
    return (VkBaseOutStructure *)(void *)copies;
}

void pnext_say_unknown(const void *chain, const void *last)
{
    static atomic_bool said;
    const VkBaseInStructure *unknown = pnext_unknown_until(chain, last);
    if (unknown && !atomic_exchange(&said, true)) /* otherwise memory was short */
        log_line(PYLAYER_LOG_WARN,
                 "the pNext chain of a pipeline's create info has a structure that the layer does not know (sType %u). "
                 "The layer cannot change the structures after it, so it creates such pipelines without a probe or a "
                 "capture",
                 (unsigned)unknown->sType);
}
