/* object.h - the bytes of an object, for the layer and for shim/replay: docs/internals/format.md, 'Recordings' */
#ifndef PYLAYER_OBJECT_H
#define PYLAYER_OBJECT_H

#include <stdint.h>

#include "../vulkan/registry.h"

#define OBJECT_MAGIC 0x54535950u
#define OBJECT_VERSION 1

#define STATE_NAME(kind, type, structure, makes, create, destroy) STATE_##kind,
enum StateKind { STATE_NONE, STATE_KINDS(STATE_NAME) STATE_KIND_COUNT };

typedef struct ObjectHeader {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t flags, image, pointers, handles, vk_header, reserved;
    uint64_t reserved2;
} ObjectHeader;

/* Places and targets are offsets in the image. */
typedef struct ObjectPointer {
    uint32_t place, target;
} ObjectPointer;

typedef struct ObjectHandle {
    uint32_t place, type; /* VkObjectType */
    uint8_t digest[16];   /* XXH3-128 of the object that makes it */
} ObjectHandle;

/* As the upper half of a digest: the lower one is that of a shader's identifier. Policy puts the module's
 * digest there. */
#define OBJECT_IDENTIFIED 0x726566697469646eull

#endif
