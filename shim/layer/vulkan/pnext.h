/*
 * pnext.h - pNext chains: reading them, and copying the part in front of a node that must change.
 *
 * Nothing here writes through the application's pointers: chains may lie in read-only memory and may be
 * in use by other threads.
 */
#ifndef PYLAYER_PNEXT_H
#define PYLAYER_PNEXT_H

#include "device/device.h"

static inline const VkBaseInStructure *pnext_find(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *node = chain;
    while (node && node->sType != type)
        node = node->pNext;
    return node;
}

/* Bytes of a struct that may stand in the chain of a VkDeviceCreateInfo or of a pipeline's create info; 0: unknown, so it
 * cannot be copied. */
size_t pnext_struct_size(VkStructureType type);
/* The first struct of unknown size on the way to last, which is in the chain, and itself counts; NULL: none. */
const VkBaseInStructure *pnext_unknown_until(const void *chain, const void *last);

/*
 * Copies the nodes of chain up to and including last, linked in the same order; the copy of last points
 * to what followed it. Returns the first copy and stores the copy of last; NULL when a struct of unknown
 * size lies in between or memory is short. Free with pnext_free_copies(first, last copy).
 */
VkBaseOutStructure *pnext_copy_until(const void *chain, const void *last, VkBaseOutStructure **last_copy);
void pnext_free_copies(VkBaseOutStructure *first, VkBaseOutStructure *last_copy);

/* A struct in a pipeline's chain had to change and could not: the log gets a line, once for each structure that the layer
 * does not know. */
void pnext_say_unknown(Device *device, const void *chain, const void *last);

#endif
