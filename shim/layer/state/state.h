/*
 * state.h - records what a program's pipelines are made of, apart from any driver, so that `pylayer rebuild` can create
 * them again.
 *
 * While a run records, each create info becomes an object (image.c). Policy gets each object once, at once; those of
 * the instance and the device come with the first pipeline. Of what a create info made, the layer keeps the object's
 * digest, by handle. Nothing is forgotten when a handle is destroyed: the next thing that gets the handle replaces it.
 */
#ifndef PYLAYER_STATE_H
#define PYLAYER_STATE_H

#include "process/number_map.h"
#include "run/run.h"
#include "shaders/shaders.h"
#include "state/object.h"
#include "vulkan/create_info.h"

/* An object that waits until it is known whether this run records, and until the first pipeline. */
typedef struct StateObject {
    uint8_t *data; /* malloc'd; NULL: there is none */
    size_t size;
} StateObject;

typedef struct State {
    Run *run;
    Shaders *shaders;
    /* An earlier run left something unrecorded, or policy made the plan and knows of something. Other runs record only
     * if the store has nothing: to record what is found would start policy for that alone. */
    bool wanted;
    bool on;            /* this run records; constant after vkCreateDevice */
    atomic_bool lost;   /* policy did not get something, so later things may have no object */
    atomic_bool rooted; /* the instance's and the device's objects were sent */
    StateObject instance, device;
    SharedMap made; /* digests of objects, and facts, by handle */
    SharedMap sent; /* digests of objects that policy has got */
} State;

void state_close(State *state);
/* Makes the object of an instance. No data: there is none. */
StateObject state_of_instance(const VkInstanceCreateInfo *info);
/* Begins to record. `info`: as the program passed it. */
void state_begin(State *state, StateObject instance, const VkDeviceCreateInfo *info);
/* Notes what the program created. `made`: the handle. */
void state_note(State *state, enum StateKind kind, const void *info, uint64_t made);
/* Notes a pipeline that was created. wait_ns: how long that took. */
void state_note_pipeline(State *state, const PipelineCall *call, uint32_t index, const Element *element,
                         uint64_t wait_ns);

/* ---- image.c: a create info with all that it points to, as one movable block: an object (format.md, 'Recordings').
 * Results, callbacks and what Vulkan ignores are not in it. ---- */

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
