/*
 * pnext.h - reads pNext chains, and copies the part of a chain up to a node that must change.
 *
 * Nothing here writes through the application's pointers: chains may be in read-only memory and other threads may use
 * them.
 */
#ifndef PYLAYER_PNEXT_H
#define PYLAYER_PNEXT_H

#include "base.h"

static inline const VkBaseInStructure *pnext_find(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *node = chain;
    while (node && node->sType != type)
        node = node->pNext;
    return node;
}

/* Returns the loader's link in the chain of a VkInstanceCreateInfo or VkDeviceCreateInfo: their structs begin alike. */
static inline void *pnext_find_link(const void *chain, VkStructureType type)
{
    const VkLayerDeviceCreateInfo *node = chain;
    while (node && !(node->sType == type && node->function == VK_LAYER_LINK_INFO))
        node = node->pNext;
    return (void *)(uintptr_t)node;
}

/* Returns the size of a struct that may be in the chain of a VkDeviceCreateInfo or of a pipeline's create info; 0
 * if it is unknown, so it cannot be copied. */
size_t pnext_struct_size(VkStructureType type);
/* Returns the first struct of unknown size up to and including last, which is in the chain; NULL if there is none. */
const VkBaseInStructure *pnext_unknown_until(const void *chain, const void *last);

/*
 * Copies the nodes of chain up to and including last, which is in it, into one block, linked in the same order. The
 * copy of last points to what followed last. Returns the first copy, for free(). Returns NULL if a struct of unknown
 * size is among them or memory is short.
 */
VkBaseOutStructure *pnext_copy_until(const void *chain, const void *last);

/* Logs, once, that a struct in a pipeline's chain had to change and could not. */
void pnext_say_unknown(const void *chain, const void *last);

#endif
