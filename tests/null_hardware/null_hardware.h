/* VK_LAYER_PYLAYER_TEST_null_hardware: runs real programs on a driver that can compile but has no hardware.
 *
 * Mesa's RADV compiles for any Radeon without one being there ('null hardware'), but has no memory, no queues
 * that run and no fences then.  This layer, last in the chain, answers for those parts, and leaves everything
 * about pipelines to the driver: shader modules, samplers, descriptor set layouts, pipeline layouts, render
 * passes, pipeline caches, pipelines, binaries, identifiers, features, limits and formats.
 * Work that is submitted completes at once and does nothing, so results are meaningless; pipelines are real.
 *
 * It serves the tests of this repository only, and is no part of the product. */
#ifndef NULL_HARDWARE_H
#define NULL_HARDWARE_H

#define VK_NO_PROTOTYPES
#include "../test_layer.h"

#include <stdint.h>

typedef struct {
    const char *name;
    PFN_vkVoidFunction function;
} entry_point;

#define ENTRY(name, function) {(name), (PFN_vkVoidFunction)(function)}

/* Each table ends with a NULL name.  A name stands for its KHR and EXT aliases too. */
extern const entry_point memory_entry_points[];    /* memory.c: memory, buffers, images */
extern const entry_point execution_entry_points[]; /* execution.c: synchronization, commands, queues, queries */
extern const entry_point surface_entry_points[];   /* surface.c: surfaces and swapchains */

/* For entry points that have nothing to do.  It stands in for functions of any parameters, and for those that
 * return nothing as well: on the calling conventions that Linux has, a callee need not know its arguments. */
VkResult succeed(void);

/* Stands in for vkCreate*(device, info, allocator, handle): a handle that no other object has. */
VkResult create_handle(VkDevice device, const void *info, const VkAllocationCallbacks *allocator, uint64_t *handle);
uint64_t new_handle(void);

/* memory.c; for surface.c */
VkResult create_image(VkDevice device, const VkImageCreateInfo *info, const VkAllocationCallbacks *allocator,
                      VkImage *image);
void destroy_image(VkDevice device, VkImage image, const VkAllocationCallbacks *allocator);

/* execution.c; for surface.c: completes what a queue or an acquisition signals. */
void signal_fence(VkFence fence);

/* layer.c: the loader's own data that every dispatchable object begins with. */
VkResult set_loader_data(VkDevice device, void *object);

#endif
