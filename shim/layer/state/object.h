/* object.h - the bytes of an object, for the layer and for shim/replay: docs/internals/format.md, 'State' */
#ifndef PYLAYER_OBJECT_H
#define PYLAYER_OBJECT_H

#include <stdint.h>

#define OBJECT_MAGIC 0x54535950u
#define OBJECT_VERSION 1

enum StateKind {
    STATE_INSTANCE = 1,
    STATE_DEVICE,
    STATE_SAMPLER,
    STATE_YCBCR_CONVERSION,
    STATE_SET_LAYOUT,
    STATE_PIPELINE_LAYOUT,
    STATE_RENDER_PASS,
    STATE_RENDER_PASS_2,
    STATE_SHADER_MODULE,
    STATE_GRAPHICS,
    STATE_COMPUTE,
    STATE_RAY_TRACING,
    STATE_KIND_COUNT,
};

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

/* As the upper half of a digest: the lower one is that of a shader's identifier. Policy puts the module's digest there. */
#define OBJECT_IDENTIFIED 0x726566697469646eull

#endif
