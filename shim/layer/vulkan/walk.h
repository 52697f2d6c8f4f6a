/*
 * walk.h - visits a structure with all that it points to, as Vulkan's registry describes it (registry.inc).
 *
 * A walk follows no pointer that Vulkan may ignore, and passes over unknown structures of a chain.
 */
#ifndef PYLAYER_WALK_H
#define PYLAYER_WALK_H

#include "base.h"
#include "vulkan/registry.h"

typedef struct Walk Walk;

/* What is being visited: memory of the program's, and where a visitor keeps it. */
typedef struct WalkBlock {
    const char *data;
    size_t at;
} WalkBlock;

struct Walk {
    uint32_t facts;   /* bits of enum Fact: what is known of the pipeline */
    uint64_t dynamic; /* DYNAMIC_ bits: its dynamic states */
    bool quick;       /* only what a fingerprint is made of */
    bool ended;       /* set by a visitor that wants no more */
    uint32_t unknown; /* the last sType that is not in the table; 0: there was none */
    WalkBlock block;  /* of a visitor with `enter` */
    /* Members without pointers, the bytes behind pointers, and strings with their zero. If the walk is hashed, also how
     * many elements a pointer has. */
    void (*bytes)(Walk *walk, const void *data, size_t size);
    /* `structure` has the handle, or points to it. */
    void (*handle)(Walk *walk, VkObjectType type, const uint64_t *handle, const void *structure);
    /* May be NULL. Called before the walk visits what the pointer at `place` points to. It sets walk->block, which is
     * that of the place again afterwards. */
    void (*enter)(Walk *walk, const void *place, const void *target, size_t size);
};

/* Visits `count` structures behind each other. */
__attribute__((nonnull)) void walk_structures(Walk *walk, enum StructureIndex index, const void *data, uint64_t count);
/* Returns the DYNAMIC_ bit of a state; 0 if no rule depends on it. */
uint64_t walk_dynamic(VkDynamicState state);
/* Returns the size of a structure in the table. */
size_t walk_size_of(enum StructureIndex index);
/* Returns the size of a structure; 0 if it is unknown. */
size_t walk_structure_size(VkStructureType type);

#endif
