/*
 * image.h - a create info with all that it points to, as one block that can be moved: an object (docs/internals/format.md,
 * 'State'). Results, callbacks and what Vulkan ignores are not in it.
 */
#ifndef PYLAYER_IMAGE_H
#define PYLAYER_IMAGE_H

#include "state/object.h"
#include "vulkan/walk.h"

/* Larger ones are not recorded. */
#define MAX_IMAGE_BYTES (64u << 20)

typedef struct ImageArray {
    void *items;
    size_t count, room;
} ImageArray;

/* Before image_make only walk.facts, walk.dynamic and `name` are set; the rest is zero. */
typedef struct Image {
    Walk walk;                           /* the first member: its visitors get it */
    ImageArray bytes, pointers, handles; /* of uint8_t, ObjectPointer, ObjectHandle */
    enum PylayerUnrecorded failed;
    /* Finds the digest of the object that made a handle. `structure` has the handle, or points to it. Returns false if
     * there is no handle, or sets `failed` and returns false if its object is unknown. */
    bool (*name)(struct Image *image, VkObjectType type, uint64_t handle, const void *structure,
                 uint8_t digest[PYLAYER_DIGEST_BYTES]);
} Image;

/* Sets image->failed if the create info cannot be recorded. Free with image_free in any case. */
void image_make(Image *image, enum StructureIndex index, const void *info);
/* Returns the object in memory for free(); NULL if memory is short. */
uint8_t *image_seal(Image *image, uint16_t kind, size_t *size);
void image_free(Image *image);

#endif
