/* VK_LAYER_PYLAYER_TEST_faults: a driver with faults, and a witness of what reaches it.
 *
 * Stands last in the chain.  PYLAYER_TEST_FAULTS names, separated by commas, what goes wrong:
 *   no-cache-control              pipelineCreationCacheControl is not reported, its extension is not listed
 *   device-refuses-cache-control  it is reported, but a device with it enabled cannot be created
 *   device-refused                no device can be created
 *   probe-misses[=compute|graphics|ray-tracing]
 *                                 FAIL_ON_PIPELINE_COMPILE_REQUIRED gives VK_PIPELINE_COMPILE_REQUIRED, always
 *   cache-data-refused            vkCreatePipelineCache fails when it is given initial data
 *   cache-refused[=N]             vkCreatePipelineCache fails, the first N times excepted
 *   stub-cache[=empty]            vkGetPipelineCacheData gives the 32 bytes of the header, or what an empty cache gives
 *   data-grows                    the first size asked of a cache is too small for what is read then
 *   data-incomplete               reading the data of a cache gives VK_INCOMPLETE, always
 *   data-fails[=N]                reading the data of a cache fails; with N only the Nth time
 *   pipeline-fails=N              the Nth pipeline that may be compiled fails once, out of device memory
 *   pipelines-refused=M           about one pipeline in M fails always, and the same ones in every process
 *   merge-fails[=N]               vkMergePipelineCaches fails; with N only the Nth time
 *   no-feedback                   creation feedback is left unwritten
 *   feedback-without-hit-bit      creation feedback never tells of a hit
 *   compile-waits-for-hit         the first pipeline that may be compiled is not done before another thread found one
 *                                 that it may not compile; a VIOLATION when that takes 20 s
 *   compile-waits-for-merge       so does the first one with the device's first cache, for a merge
 *   merges-alone                  a merge beside another one of the device is a VIOLATION
 *   note-merges                   each merge is written down
 *   witness-caches                initial data of a cache that the driver did not give out is a VIOLATION; for that the
 *                                 file of PYLAYER_TEST_FAULTS_BINARIES remembers caches' data too
 *   slow-cache=MS                 making, reading and merging a cache takes this long
 *   dies-loading=N                the process crashes in the Nth vkCreatePipelineCache with initial data
 *   dies-merging=N                in the Nth vkMergePipelineCaches
 *   dies-probing=N                in the Nth call of vkCreate*Pipelines that may not compile
 *   dies-compiling=N              in the Nth that may
 *   dies-by-kill                  it is killed there instead
 *   defers                        a deferred operation is pending until it was joined; any number of threads share it
 *   join-ends-late                the thread that completes an operation is held until its result was asked for twice
 *   never-defers                  VK_OPERATION_NOT_DEFERRED_KHR, everything done at once
 *   no-binaries                   VK_KHR_pipeline_binary is not listed, nothing is reported of it
 *   no-pipeline-binaries-feature  it is listed, and pipelineBinaries is not reported
 *   no-maintenance5               VK_KHR_maintenance5 is not listed, its feature is not reported
 *   device-refuses-binaries       a device with pipelineBinaries enabled cannot be created
 *   internal-cache=0|1, internal-cache-control=0|1, prefers-internal-cache=0|1, precompiled-internal-cache=0|1,
 *   compressed-binaries=0|1       what VkPhysicalDevicePipelineBinaryPropertiesKHR says
 *   key-fails=RESULT              vkGetPipelineKeyKHR of a create info fails
 *   global-key-fails=RESULT       vkGetPipelineKeyKHR without one fails
 *   binary-missing                the internal cache has no binaries: VK_PIPELINE_BINARY_MISSING_KHR
 *   binary-missing-at-fetch       the same, after it has counted them
 *   probe-binaries-fails=RESULT   asking the internal cache for binaries fails
 *   read-binaries-fails=RESULT    making binaries from a pipeline fails
 *   import-fails=RESULT           making binaries from data fails
 *   binary-fails=N                the Nth binary of all is VK_NULL_HANDLE, the others of its call are not
 *   binaries-incomplete           making binaries gives one less than there are, and VK_INCOMPLETE
 *   binary-data-fails=RESULT      reading the data of a binary fails
 *   binary-data-grows             the first size asked of a binary is too small for what is read then
 *   from-binaries-fails=RESULT    creating a pipeline from binaries fails
 *   capture-fails=RESULT          creating a pipeline with CAPTURE_DATA fails
 * RESULT is out-of-host-memory, out-of-device-memory, initialization-failed, invalid-shader, unknown or
 * compile-required.
 *
 * PYLAYER_TEST_FAULTS_LOG names a file.  It gets a line 'faults: VIOLATION ...' for each use of the driver that
 * Vulkan forbids, a line 'faults: HAZARD ...' for each that is allowed and that a driver is known to do wrong, a line
 * for each vkCreateDevice, and one at vkDestroyDevice that counts what was asked of VK_KHR_pipeline_binary.  Checked
 * with or without faults.
 * PYLAYER_TEST_FAULTS_BINARIES names a file that remembers the binaries that the driver gave out, for all processes that
 * are given it: any other that is given to the driver is a violation.
 *
 * It serves the tests of this repository only, and is no part of the product. */
#ifndef FAULTS_H
#define FAULTS_H

#define VK_NO_PROTOTYPES
#include "../pipeline_binary.h"
#include "../test_layer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- settings.c ---- */

typedef struct {
    bool no_cache_control, device_refuses_cache_control, device_refused;
    unsigned probe_misses; /* bit mask of compute, graphics, ray tracing */
    bool cache_data_refused, cache_refused;
    long cache_refused_after;
    bool stub_cache, stub_is_empty_cache;
    bool data_grows, data_incomplete, data_fails, merge_fails;
    long data_fails_at, merge_fails_at, pipeline_fails_at; /* 0: not in particular */
    long pipelines_refused;
    bool no_feedback, feedback_without_hit_bit;
    bool compile_waits_for_hit, compile_waits_for_merge;
    bool merges_alone, note_merges, witness_caches;
    long slow_cache_ms;
    long dies_loading, dies_merging, dies_probing, dies_compiling; /* 0: never */
    bool dies_by_kill;
    bool defers, join_ends_late, never_defers;
    bool no_binaries, no_pipeline_binaries_feature, no_maintenance5, device_refuses_binaries;
    long internal_cache, internal_cache_control, prefers_internal_cache; /* negative: as the driver says */
    long precompiled_internal_cache, compressed_binaries;
    VkResult key_fails, global_key_fails, probe_binaries_fails, read_binaries_fails, import_fails;
    VkResult binary_data_fails, from_binaries_fails, capture_fails;
    bool binary_missing, binary_missing_at_fetch, binaries_incomplete, binary_data_grows;
    long binary_fails_at; /* 0: none */
} fault_settings;

extern fault_settings faults;

/* Ends the process when this is the call that the fault names. */
void die_at(long number, atomic_long *counter);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the headers that this must build with lack. */
enum {
    TYPE_VULKAN_1_4_FEATURES = 55,
    TYPE_MAINTENANCE_5_FEATURES = 1000470000,
};

#define HASH_START 0xcbf29ce484222325ull
uint64_t hash_bytes(uint64_t hash, const void *data, size_t size);

/* ---- objects.c: what exists, and who is using it ---- */

typedef enum { KIND_CACHE, KIND_PIPELINE, KIND_MODULE, KIND_BINARY, KIND_COUNT } object_kind;
extern const char *const kind_names[];

typedef struct object {
    struct object *next;
    uint64_t handle;
    object_kind kind;
    const void *device;
    bool has_allocator;
    uint64_t flags;       /* of the create info */
    uint64_t fingerprint; /* of a module: its code */
    bool asked_for_size;  /* of a cache or a binary */
    bool released;        /* of a pipeline: what was captured of it */
    atomic_int users;     /* readers count 1, a writer counts WRITER */
} object;

object *object_add(object_kind kind, uint64_t handle, const void *device, uint64_t flags, bool has_allocator);
/* NULL and a violation when there is none. */
object *object_find(object_kind kind, uint64_t handle, const void *device, const char *command);
void object_remove(object_kind kind, uint64_t handle, const void *device, bool has_allocator, const char *command);
/* Says what is still alive on a device that is about to go, and forgets it. */
void objects_of_device_end(const void *device);
void begin_use(object *used, bool as_writer, const char *command);
void end_use(object *used, bool as_writer);

/* Two structs of one type in a chain are forbidden (sType-unique). */
void check_chain(const void *chain, const char *command);
const void *find_in_chain(const void *chain, int type);

/* ---- layer.c: the chain ---- */

typedef enum {
    COUNT_KEYS,
    COUNT_FROM_DATA,
    COUNT_FROM_PIPELINE,
    COUNT_FROM_CREATE_INFO,
    COUNT_MISSING,
    COUNT_READS,
    COUNT_RELEASED,
    COUNT_CREATED_FROM_BINARIES,
    COUNT_CAPTURED,
    COUNT_CREATED_PLAINLY,
    BINARY_COUNTERS
} binary_counter;

typedef struct device_state {
    struct device_state *next;
    void *key;
    VkDevice handle;
    PFN_vkGetDeviceProcAddr get_proc_addr;
    PFN_vkDestroyDevice destroy;
    PFN_vkCreatePipelineCache create_cache;
    PFN_vkDestroyPipelineCache destroy_cache;
    PFN_vkGetPipelineCacheData get_cache_data;
    PFN_vkMergePipelineCaches merge_caches;
    PFN_vkCreateGraphicsPipelines create_graphics;
    PFN_vkCreateComputePipelines create_compute;
    PFN_vkCreateRayTracingPipelinesKHR create_ray_tracing;
    PFN_vkDestroyPipeline destroy_pipeline;
    PFN_vkDeferredOperationJoinKHR join;
    PFN_vkGetDeferredOperationResultKHR get_result;
    PFN_vkGetDeferredOperationMaxConcurrencyKHR get_max_concurrency;
    PFN_vkDestroyDeferredOperationKHR destroy_operation;
    PFN_vkCreateShaderModule create_module;
    PFN_vkDestroyShaderModule destroy_module;
    PFN_vkGetPipelineKeyKHR get_key;
    PFN_vkCreatePipelineBinariesKHR create_binaries;
    PFN_vkDestroyPipelineBinaryKHR destroy_binary;
    PFN_vkGetPipelineBinaryDataKHR get_binary_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured;
    bool cache_control;
    bool feedback;
    bool binaries;                /* pipelineBinaries is enabled */
    bool internal_cache;          /* the driver has one */
    bool internal_cache_disabled; /* on this device */
    atomic_long binary_counters[BINARY_COUNTERS];
    atomic_int calls;  /* in progress */
    atomic_int merges; /* in progress */
    atomic_uint hits, merges_done;
    _Atomic(uint64_t) first_cache;
} device_state;

typedef struct instance_state {
    struct instance_state *next;
    void *key;
    VkInstance handle;
    uint32_t api;
    PFN_vkGetInstanceProcAddr get_proc_addr;
    PFN_vkDestroyInstance destroy;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_extensions;
    PFN_vkGetPhysicalDeviceFeatures2 get_features2, get_features2_khr;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2, get_properties2_khr;
} instance_state;

device_state *device_of(VkDevice device);
/* Around every call that a device answers: no two calls may overlap its end, or the exit of the process. */
device_state *begin_call(VkDevice device, const char *command);
void end_call(device_state *state);

typedef struct {
    const char *name;
    PFN_vkVoidFunction function;
} entry_point;
#define ENTRY(name, function) {(name), (PFN_vkVoidFunction)(function)}

/* Each table ends with a NULL name. */
extern const entry_point cache_entry_points[];
extern const entry_point pipeline_entry_points[];
extern const entry_point deferred_entry_points[];
extern const entry_point binary_entry_points[];

/* ---- pipelines.c ---- */

typedef enum { COMPUTE, GRAPHICS, RAY_TRACING } bind_point;

typedef struct {
    device_state *state;
    bind_point point;
    VkDeferredOperationKHR deferred;
    VkPipelineCache cache;
    uint32_t count;
    const void *infos;
    const VkAllocationCallbacks *allocator;
    VkPipeline *pipelines;
} create_call;

/* One of them by itself, with the faults that concern it, now. */
VkResult create_element(const create_call *call, uint32_t index);
/* They exist from here on. */
void pipelines_exist(const create_call *call);

/* ---- deferred.c: deferred operations, and what may not be done while they are pending ---- */

VkResult defer(const create_call *call, object *cache);
void deferred_device_end(const void *device);

/* ---- binaries.c ---- */

/* Whatever concerns binaries in a create info of a pipeline. */
void check_binaries_of_pipeline(device_state *state, const void *chain, uint64_t flags, const char *command);
void note_binary_counters(const device_state *state);

/* ---- provenance.c ---- */

void binary_given_out(const VkPipelineBinaryKeyKHR *key, const void *data, size_t size);
/* True for all where no file remembers any. */
bool binary_was_given_out(const VkPipelineBinaryKeyKHR *key, const void *data, size_t size);
/* With witness-caches. */
void cache_data_given_out(const void *data, size_t size);
bool cache_data_was_given_out(const void *data, size_t size);

/* ---- devices.c: what is reported of a device, and what may be enabled on it ---- */

VkResult enumerate_extensions(instance_state *instance, VkPhysicalDevice physical, const char *layer, uint32_t *count,
                              VkExtensionProperties *properties);
/* What the driver says, with what faults say instead. */
typedef void(VKAPI_PTR *get_features2_function)(VkPhysicalDevice, VkPhysicalDeviceFeatures2 *);
typedef void(VKAPI_PTR *get_properties2_function)(VkPhysicalDevice, VkPhysicalDeviceProperties2 *);
void report_features(get_features2_function get, VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features);
void report_properties(get_properties2_function get, VkPhysicalDevice physical,
                       VkPhysicalDeviceProperties2 *properties);
/* Checks a create info and says whether a fault refuses it: VK_SUCCESS where not. */
VkResult check_device(instance_state *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                      device_state *state);

#endif
