/* image.c - see state.h */
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

/* The strictest alignment of a member. */
#define ALIGNMENT 8

/* Returns the first of `count` new items, which are zeros; NULL if the image has failed. */
static void *append(Image *image, ImageArray *array, size_t item_bytes, size_t count)
{
    size_t needed = array->count + count;
    if (needed > array->room && !image->failed) {
        size_t room = 2 * array->room > needed ? 2 * array->room : needed;
        void *items = needed * item_bytes <= MAX_IMAGE_BYTES ? realloc(array->items, room * item_bytes) : NULL;
        if (items) {
            array->items = items;
            array->room = room;
        } else {
            image->failed = PYLAYER_UNRECORDED_MEMORY;
        }
    }
    if (image->failed) {
        image->walk.ended = true;
        return NULL;
    }
    void *first = (char *)array->items + array->count * item_bytes;
    memset(first, 0, count * item_bytes);
    array->count = needed;
    return first;
}

/* Where the copy of a byte of the program's is. */
static uint32_t image_place(const Image *image, const void *data)
{
    return (uint32_t)(image->walk.block.at + (size_t)((const char *)data - image->walk.block.data));
}

static void begin_block(Image *image, const void *data, size_t size)
{
    image->walk.block = (WalkBlock){data, image->bytes.count};
    append(image, &image->bytes, 1, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static void enter_target(Walk *walk, const void *place, const void *target, size_t size)
{
    Image *image = (Image *)(void *)walk;
    ObjectPointer *pointer = append(image, &image->pointers, sizeof *pointer, 1);
    if (pointer)
        *pointer = (ObjectPointer){image_place(image, place), (uint32_t)image->bytes.count};
    begin_block(image, target, size);
}

static void copy_bytes(Walk *walk, const void *data, size_t size)
{
    Image *image = (Image *)(void *)walk;
    if (!image->failed)
        memcpy((uint8_t *)image->bytes.items + image_place(image, data), data, size);
}

static void note_handle(Walk *walk, VkObjectType type, const uint64_t *handle, const void *structure)
{
    Image *image = (Image *)(void *)walk;
    ObjectHandle noted = {.place = image_place(image, handle), .type = (uint32_t)type};
    ObjectHandle *room = !image->failed && image->name(image, type, *handle, structure, noted.digest)
                             ? append(image, &image->handles, sizeof noted, 1)
                             : NULL;
    if (room)
        *room = noted;
    walk->ended |= image->failed != 0;
}

void image_make(Image *image, enum StructureIndex index, const void *info)
{
    image->walk.facts |= FACT_RECORDED;
    image->walk.bytes = copy_bytes;
    image->walk.handle = note_handle;
    image->walk.enter = enter_target;
    begin_block(image, info, walk_size_of(index));
    copy_bytes(&image->walk, info, sizeof(VkStructureType)); /* a shader module's counts for no chain */
    if (!image->failed)
        walk_structures(&image->walk, index, info, 1);
    if (!image->failed && image->walk.unknown)
        image->failed = PYLAYER_UNRECORDED_STRUCTURE;
}

static int compare_places(const void *one, const void *other)
{
    const uint32_t *mine = one, *others = other; /* the first member of both types */
    return (*mine > *others) - (*mine < *others);
}

static uint8_t *put(uint8_t *to, const void *items, size_t size)
{
    if (size > 0) /* there may be no items at all */
        memcpy(to, items, size);
    return to + size;
}

uint8_t *image_seal(Image *image, uint16_t kind, size_t *size)
{
    const size_t pointers = image->pointers.count * sizeof(ObjectPointer);
    const size_t handles = image->handles.count * sizeof(ObjectHandle);
    const ObjectHeader header = {
        .magic = OBJECT_MAGIC,
        .version = OBJECT_VERSION,
        .kind = kind,
        .image = (uint32_t)image->bytes.count,
        .pointers = (uint32_t)image->pointers.count,
        .handles = (uint32_t)image->handles.count,
        .vk_header = REGISTRY_VERSION,
    };
    *size = sizeof header + image->bytes.count + pointers + handles;
    uint8_t *object = malloc(*size);
    if (!object)
        return NULL;
    if (image->pointers.count > 1)
        qsort(image->pointers.items, image->pointers.count, sizeof(ObjectPointer), compare_places);
    if (image->handles.count > 1)
        qsort(image->handles.items, image->handles.count, sizeof(ObjectHandle), compare_places);
    uint8_t *end = put(object, &header, sizeof header);
    end = put(end, image->bytes.items, image->bytes.count);
    end = put(end, image->pointers.items, pointers);
    put(end, image->handles.items, handles);
    return object;
}

void image_free(Image *image)
{
    free(image->bytes.items);
    free(image->pointers.items);
    free(image->handles.items);
}
