/* replay.h - creates recorded Vulkan objects on this machine's driver; pylayer/cli/replaying.py feeds it */
#ifndef PYLAYER_REPLAY_H
#define PYLAYER_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../layer/state/object.h"
#include "../layer/vulkan/vk_compat.h"

/* ---- object.c: the bytes of an object. docs/internals/format.md has the same for other readers ---- */

#define MAX_OBJECT (256u << 20)
/* More than the largest structure that a driver writes to or reads: a structure that ends early ends in zeros. */
#define SLACK 4096

/* What each kind is, by its number; root_type 0: there is no such kind. */
typedef struct {
    VkStructureType root_type;
    size_t root_size;
    VkObjectType makes;
    const char *create, *destroy;
} Kind;

extern const Kind kinds[STATE_KIND_COUNT];

typedef struct {
    uint16_t kind;
    uint32_t size;  /* of the image */
    uint8_t *image; /* zeros follow it, so that a string ends in memory of its own */
    uint32_t pointers, handles;
    const ObjectPointer *pointer;
    const ObjectHandle *handle;
} Object;

/* Checks every number of an object, and makes an image of it with pointers but without handles. Returns NULL, or what
 * is wrong; the object then has no image. The object refers to data, which must be aligned to 8 bytes. */
const char *object_open(Object *object, const uint8_t *data, size_t size);

/* Returns whether size bytes at pointer are in the image. */
bool object_has(const Object *object, const void *pointer, size_t size);

/* ---- fit.c: an instance and a device as the program created them, as far as this driver can ---- */

extern PFN_vkGetInstanceProcAddr get_instance_proc;
extern VkInstance instance;

/* Each returns VK_SUCCESS or why not, changes the image, and tells what it left out. */
VkResult fit_instance(const Object *object);
VkResult fit_device(const Object *object, VkPhysicalDevice physical, VkDevice *device);

/* ---- replay.c ---- */

/* What the process that feeds this one reads, line by line. */
extern FILE *lines;

#endif
