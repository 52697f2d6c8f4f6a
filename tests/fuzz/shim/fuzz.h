/*
 * fuzz.h - hostile input for the layer's entry points: bytes that become a Vulkan program, a driver and a policy.
 *
 * source.c   bytes to numbers, and memory of exact sizes
 * infos.c    pNext chains, and the three pipeline create infos
 * driver.c   the next layer, which checks what reaches it; pipelines.c its pipelines and binaries
 * policy.c   what stands for mailbox.c, policy_thread.c and decisions.c, and what policy has the layer do
 * program.c  one program from vkCreateInstance to vkDestroyInstance
 *
 * What is built is memory as the specification wants it, with contents that it does not: the layer cannot see a pointer
 * that dangles, but pointers that the specification lets be anything are anything.
 */
#ifndef PYLAYER_FUZZ_H
#define PYLAYER_FUZZ_H

#include "shim/layer/device/device.h"
#include "shim/layer/vulkan/create_info.h"
#include "source.h"

/* ---- infos.c ----------------------------------------------------------------------------------- */

typedef struct Chain {
    VkBaseOutStructure *first, *last;
} Chain;

void chain_add(Chain *chain, void *node, VkStructureType type);
/* Structs in front of, between and behind which others may stand. */
void chain_add_unknown(Chain *chain);
void chain_add_device_features(Chain *chain);
/* Reads the chain; how many structs it has. */
unsigned chain_touch(const void *chain);

#define MOST_INFOS 12

typedef struct Infos {
    enum BindPoint point;
    uint32_t count;
    void *infos; /* in the point's own layout; the layout handle is the element's number, from 1 */
    bool binaries_or_capture;
} Infos;

/* The pipelines, modules and binaries of the program that may be referred to. */
Infos make_infos(enum BindPoint point, uint32_t count);
AnyCreateInfo *info_at(const Infos *infos, uint32_t index);
uint64_t flags_of(const AnyCreateInfo *info);
VkPipelineLayout layout_of(enum BindPoint point, const AnyCreateInfo *info);

/* ---- driver.c ---------------------------------------------------------------------------------- */

enum ObjectKind { OBJECT_CACHE, OBJECT_PIPELINE, OBJECT_MODULE, OBJECT_BINARY, OBJECT_OPERATION, OBJECT_KINDS };

/* A handle of no dispatch points to one of these; destroying frees it. */
typedef struct Object {
    enum ObjectKind kind;
    bool pending; /* operations: create infos are still in use */
    VkResult result;
    const void *infos;
    uint32_t info_count;
    VkPipeline *pipelines;
} Object;

extern unsigned live_objects[OBJECT_KINDS];
/* The call of the program that is under way; count 0: none. */
extern Infos current;
Object *object_new(enum ObjectKind kind);
Object *object_of(uint64_t handle, enum ObjectKind kind);
void object_free(uint64_t handle, enum ObjectKind kind);
VkResult sometimes_fails(void);
void check_info(enum BindPoint point, const AnyCreateInfo *info);
PFN_vkVoidFunction VKAPI_CALL driver_instance_function(VkInstance instance, const char *name);
PFN_vkVoidFunction VKAPI_CALL driver_device_function(VkDevice device, const char *name);
typedef struct Name {
    const char *name;
    PFN_vkVoidFunction function;
} Name;
#define NAME(name, function) {name, (PFN_vkVoidFunction)function}
/* pipelines.c; the last has no name. */
extern const Name pipeline_names[];
void fill_key(VkPipelineBinaryKeyKHR *key);
extern VkPhysicalDevice driver_physical_device;

/* ---- policy.c ---------------------------------------------------------------------------------- */

/* Of the device that was planned last. */
extern uint64_t policy_device;
extern bool policy_runs;

void command_of_policy(void);
/* Nothing may be left in the crash marker. */
void policy_forgets_device(void);

/* ---- program.c --------------------------------------------------------------------------------- */

#define MOST_OBJECTS 32
typedef struct Objects {
    uint32_t count;
    uint64_t handles[MOST_OBJECTS];
} Objects;
extern Objects own[OBJECT_KINDS];
/* One of them; VK_NULL_HANDLE: there is none. */
uint64_t any_of(enum ObjectKind kind);

#endif
