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

typedef struct Shaders Shaders;

void object_names_free(ObjectNames *names);
/* Notes a name that the program gives. */
void object_names_set(Shaders *shaders, const VkDebugUtilsObjectNameInfoEXT *info);
/* Adds the names of a pipeline's shaders, of which policy is told. */
void object_names_describe(Shaders *shaders, PylayerCell *about, const VkPipelineShaderStageCreateInfo *stages);
/* Notes a created pipeline, which may get a name later. */
void object_names_note(Shaders *shaders, VkPipeline pipeline, uint64_t fingerprint);
void object_names_forget_module(Shaders *shaders, VkShaderModule module);

#endif
