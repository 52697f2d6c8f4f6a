/* VK_LAYER_PYLAYER_TEST_witness: what reaches a real driver, which must not fail.
 *
 * It stands last in the chain and changes nothing. It counts and remembers what the scripted driver counts and remembers
 * by itself, in the same files: PYLAYER_TEST_DRIVER_WITNESS and PYLAYER_TEST_DRIVER_COUNTS of tests/driver/driver.h. A
 * line VIOLATION says that the driver was given bytes that it never gave out, a line HAZARD that it was asked for what
 * RADV is known to do wrong. The Khronos validation layer says whether the rest is as Vulkan wants it.
 *
 * It serves the tests of this repository only, and is no part of the product. */
#ifndef WITNESS_H
#define WITNESS_H

#include "../driver/driver.h"

typedef struct Watched {
    PFN_vkCreatePipelineCache create_cache;
    PFN_vkGetPipelineCacheData get_cache_data;
    PFN_vkMergePipelineCaches merge_caches;
    PFN_vkCreateGraphicsPipelines create_graphics;
    PFN_vkCreateComputePipelines create_compute;
    PFN_vkCreateRayTracingPipelinesKHR create_rays;
    PFN_vkGetPipelineKeyKHR get_key;
    PFN_vkCreatePipelineBinariesKHR create_binaries;
    PFN_vkGetPipelineBinaryDataKHR get_binary_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured;
} Watched;

Watched *watched_of(VkDevice device);

/* Ends with a NULL name. */
extern const EntryPoint watched_commands[];

#endif
