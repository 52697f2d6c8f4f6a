/* shaders.h - what a device knows of shaders, and of what is made of them, by handle */
#ifndef PYLAYER_SHADERS_H
#define PYLAYER_SHADERS_H

#include "crash/crash.h"
#include "driver/driver.h"
#include "process/number_map.h"
#include "run/run.h"
#include "vulkan/create_info.h"

/* Both maps are by handle, and stay empty if the program did not enable VK_EXT_debug_utils. */
typedef struct ObjectNames {
    pthread_mutex_t mutex;
    NumberMap modules;   /* names, malloc'd */
    NumberMap pipelines; /* fingerprints: a pipeline is named after it was created */
} ObjectNames;

typedef struct Shaders {
    const Driver *driver;
    Run *run;
    Crash *crash;
    SharedMap modules;         /* code of shader modules, by handle */
    SharedMap identified_code; /* the identifiers of inline code seen so far, by the code's digest */
    SharedMap libraries;       /* fingerprints of pipeline libraries, by handle */
    ObjectNames names;
} Shaders;

void shaders_close(Shaders *shaders);

/* ---- shaders by their code, or by their VK_EXT_shader_module_identifier --------------------------- */

/* For a device whose application enabled the feature: finds its commands, unless PYLAYER_SHADER_IDENTIFIERS is
 * "ignore". Then shaders that have code are known by that, as in a program that does not enable the feature. */
void identifiers_open(Driver *driver);
/* Returns a digest of the stage's identifier, the same in every process; 0 if there is none. */
uint64_t identifier_of_stage(const VkPipelineShaderStageCreateInfo *stage);
/* Notes the code of a new module. */
void shader_module_note(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info);
/* Forgets a module's code and name. */
void shader_module_forget(Shaders *shaders, VkShaderModule module);
/* Returns a digest of the stage's code, the same in every process; 0 if it is unknown. */
uint64_t shader_code_of_stage(Shaders *shaders, const VkPipelineShaderStageCreateInfo *stage);

/* ---- fingerprints.c: hashes what a pipeline is made of into one number ----------------------------- */

/* Returns PylayerCell::fingerprint, the same number in every process; 0 if something the pipeline is made of is
 * unknown. */
uint64_t fingerprint_of(Shaders *shaders, const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind);
/* Tells the fingerprint of a pipeline library, of which those of pipelines linked from it are made. Handles are used
 * again, so an unknown fingerprint, 0, must be told too. */
void fingerprint_note_library(Shaders *shaders, VkPipeline library, uint64_t fingerprint);

/* ---- object_names.c: the names that a program gives (VK_EXT_debug_utils) --------------------------- */

void object_names_free(ObjectNames *names);
/* Notes a name that the program gives. */
void object_names_set(Shaders *shaders, const VkDebugUtilsObjectNameInfoEXT *info);
/* Adds the names of a pipeline's shaders, of which policy is told. */
void object_names_describe(Shaders *shaders, PylayerCell *about, const VkPipelineShaderStageCreateInfo *stages);
/* Notes a created pipeline, which may get a name later. */
void object_names_note(Shaders *shaders, VkPipeline pipeline, uint64_t fingerprint);
void object_names_forget_module(Shaders *shaders, VkShaderModule module);

#endif
