/* fingerprints.h - what pipelines are made of, as one number each; shaders by their identifiers */
#ifndef PYLAYER_FINGERPRINTS_H
#define PYLAYER_FINGERPRINTS_H

#include "base.h"

/* The code of every VkShaderModule that the application has, as a digest. */
typedef struct ShaderModules {
    pthread_mutex_t writer;
    atomic_uint version; /* odd: being written */
    _Atomic(struct ModuleTable *) table;
    size_t used;
} ShaderModules;

/* Fingerprints of the pipelines that were created: a set that only grows, read and written without a lock. What finds
 * no room in a table goes into the next, larger one; 872448 entries in all, and what is beyond is dropped. */
#define SEEN_TABLES 5
typedef struct SeenFingerprints {
    _Atomic(atomic_ullong *) tables[SEEN_TABLES]; /* allocated when needed */
} SeenFingerprints;

void fingerprints_open(Device *device);
void fingerprints_close(Device *device);
/* A pipeline with this fingerprint was created; 0, unknown, is not remembered. */
void fingerprints_note(Device *device, uint64_t fingerprint);
/* Writes at most capacity of them; how many there are. */
uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity);

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateShaderModule(VkDevice, const VkShaderModuleCreateInfo *,
                                                        const VkAllocationCallbacks *, VkShaderModule *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyShaderModule(VkDevice, VkShaderModule, const VkAllocationCallbacks *);

/* ---- identifiers.c ---- */

/* The application enabled the feature. */
void identifiers_open(Device *device);
/* Digests of identifiers, alike in every process; 0 where there is none. */
uint64_t identifier_digest(const uint8_t *identifier, uint32_t size);
uint64_t identifier_of_module(const Device *device, VkShaderModule module);
uint64_t identifier_of_code(const Device *device, const VkShaderModuleCreateInfo *info);

#endif
