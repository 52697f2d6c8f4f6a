/* object.c - see replay.h */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define ROW(kind, type, structure, makes, create, destroy)                                                             \
    [STATE_##kind] = {VK_STRUCTURE_TYPE_##type, sizeof(structure), VK_OBJECT_TYPE_##makes, create, destroy},
const Kind kinds[STATE_KIND_COUNT] = {STATE_KINDS(ROW)};

/* Returns whether 8 bytes at place, which must be after the place before, are in the image. */
static bool is_place(uint32_t place, int64_t before, uint32_t image)
{
    return place % 8 == 0 && (int64_t)place > before && place <= image - 8;
}

/* A pointer leads forward and behind the root, so that no chain has a circle and nothing lies on the root. */
static const char *check_places(const Object *object)
{
    const size_t root = kinds[object->kind].root_size;
    int64_t before = -1;
    for (uint32_t i = 0; i < object->pointers; i++) {
        const ObjectPointer *pointer = &object->pointer[i];
        if (!is_place(pointer->place, before, object->size) || pointer->target <= pointer->place ||
            pointer->target < root || pointer->target >= object->size || pointer->target % 8 != 0)
            return "impossible pointer";
        before = pointer->place;
    }
    before = -1;
    for (uint32_t i = 0, p = 0; i < object->handles; i++) {
        uint32_t place = object->handle[i].place;
        while (p < object->pointers && object->pointer[p].place < place)
            p++;
        if (!is_place(place, before, object->size) || (p < object->pointers && object->pointer[p].place == place))
            return "impossible handle";
        before = place;
    }
    return NULL;
}

const char *object_open(Object *object, const uint8_t *data, size_t size)
{
    *object = (Object){0};
    ObjectHeader header;
    if (size < sizeof header)
        return "too short";
    memcpy(&header, data, sizeof header);
    if (header.magic != OBJECT_MAGIC || header.version != OBJECT_VERSION)
        return "not an object";
    if (header.kind >= STATE_KIND_COUNT || !kinds[header.kind].root_type)
        return "unknown kind";
    uint64_t wanted = sizeof header + (uint64_t)header.image + (uint64_t)header.pointers * sizeof(ObjectPointer) +
                      (uint64_t)header.handles * sizeof(ObjectHandle);
    if (wanted != size || header.image % 8 != 0 || header.image < kinds[header.kind].root_size)
        return "impossible lengths";
    object->kind = header.kind;
    object->size = header.image;
    object->pointers = header.pointers;
    object->handles = header.handles;
    object->pointer = (const ObjectPointer *)(data + sizeof header + header.image);
    object->handle = (const ObjectHandle *)(object->pointer + header.pointers);
    VkStructureType type;
    memcpy(&type, data + sizeof header, sizeof type);
    if (type != kinds[header.kind].root_type)
        return "another structure";
    const char *problem = check_places(object);
    if (problem)
        return problem;
    object->image = calloc(1, (size_t)header.image + SLACK);
    if (!object->image)
        return "no memory";
    memcpy(object->image, data + sizeof header, header.image);
    for (uint32_t i = 0; i < object->pointers; i++)
        *(void **)(object->image + object->pointer[i].place) = object->image + object->pointer[i].target;
    return NULL;
}

bool object_has(const Object *object, const void *pointer, size_t size)
{
    uintptr_t at = (uintptr_t)pointer, start = (uintptr_t)object->image;
    return at >= start && at - start <= object->size && size <= object->size - (at - start);
}
