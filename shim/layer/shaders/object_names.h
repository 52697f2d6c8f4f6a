/* object_names.h - the names that a program gives to its shader modules and pipelines (VK_EXT_debug_utils) */
#ifndef PYLAYER_OBJECT_NAMES_H
#define PYLAYER_OBJECT_NAMES_H

#include "base.h"
#include "process/number_map.h"

/* Both maps are by handle, and stay empty if the program did not enable VK_EXT_debug_utils. */
typedef struct ObjectNames {
    pthread_mutex_t mutex;
    NumberMap modules;   /* names, malloc'd */
    NumberMap pipelines; /* fingerprints: a pipeline is named after it was created */
} ObjectNames;

void object_names_open(Device *device);
void object_names_close(Device *device);
/* Adds the names of a pipeline's shaders, of which policy is told. */
void object_names_describe(Device *device, PylayerCell *about, const VkPipelineShaderStageCreateInfo *stages);
/* Notes a created pipeline, which may get a name later. */
void object_names_note(Device *device, VkPipeline pipeline, uint64_t fingerprint);
void object_names_forget_module(Device *device, VkShaderModule module);

#endif
