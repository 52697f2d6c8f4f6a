/* A Vulkan driver without a GPU: a test scripts what it does wrong, and it checks every byte that it is given.
 *
 * It compiles nothing, but its caches and binaries have real contents: an entry for each pipeline, under a hash of the
 * create info's contents, that later processes find again.
 *
 * PYLAYER_TEST_DRIVER holds statements separated by ';'. What it cannot read ends the process with a line on stderr.
 *
 * What the driver is, with the defaults. A/B gives the first device A, and the second and later ones B.
 *   devices=1            physical devices
 *   vendor-id=0x10005 device-id=0x7e57 (and one more for each further device) device-type=2 api=1.3
 *   driver-version=1 driver-id=0 driver-name=test driver-info=build-1 uuid=7e57 (hexadecimal, zeros follow)
 *   build=1              the build of its compiler, in all data; Vulkan's properties tell nothing of it
 *   abi=64               or 32: the size of a word, in all data; Vulkan's properties tell nothing of it
 *   cache-control=yes    no: not there; unfeatured: the extension without its feature
 *   maintenance5=yes, maintenance8=yes, libraries=yes (VK_EXT_graphics_pipeline_library), ray-tracing=yes, the same
 *   extended-flags=no    VK_KHR_extended_flags, the same; incremental-cache=no  VK_SEC_pipeline_cache_incremental_mode
 *   binaries=yes         VK_KHR_pipeline_binary, the same; null: enabled, but its commands are NULL
 *   more-pipelines=no    VK_NV_ray_tracing, VK_AMDX_shader_enqueue and VK_ARM_data_graph, whose pipelines take a cache too
 *   internal-cache=yes internal-cache-control=yes   its own cache: of a device, in memory
 *   prefers-internal-cache=no precompiled-internal-cache=no compressed-binaries=no   what its properties say
 *   deferral=at-once     a deferred operation is done, and said to be deferred; to-join: threads that join it do it;
 *                        never: it is done, and VK_OPERATION_NOT_DEFERRED_KHR says so
 *   feedback=yes         no: creation feedback is left unwritten; no-hits: it never tells of a hit
 *   payload=256          bytes of a pipeline's code, about
 *   guilty=0             the number of the compiled pipeline, in this process, whose entry is marked as guilty and has
 *                        the text GUILTY in its code
 *
 * What it does, command by command:   COMMAND=ACTION[:ARGUMENT][?CONDITION]...[@WHEN]
 * The first statement that applies is done; slow is done and goes on to the next.
 *
 * COMMAND  create-instance, create-device, create-object (modules, layouts, render passes), create-cache, destroy-cache,
 *          get-data, merge, create-pipelines (a call), pipeline (one create info of it), get-key, create-binaries,
 *          binary-data, release-captured, create-more (a call for more-pipelines), join and get-result (of a deferred
 *          operation), allocate (each time it needs memory), any (each command of a device that returns a VkResult)
 * ACTION   error:RESULT       it returns that; RESULT is a number or a name such as out-of-host-memory
 *          crash, abort, kill SIGSEGV, SIGABRT, SIGKILL
 *          hang               for ever;  slow:MS  so many milliseconds
 *          wait:COMMAND       until two calls of that command have begun since: all of what lies between them was done
 *                             beside this one
 *          wait:COUNTER       until that counter of counts.c has grown
 *          null               VK_SUCCESS, and VK_NULL_HANDLE: create-cache, pipeline
 *          ignore             VK_SUCCESS, and nothing done: the initial data of create-cache, a merge, the pipeline that
 *                             would be added to the cache
 *          of get-data:  empty (no bytes at all), grow (the cache has more when it is read than when asked its size),
 *                        incomplete (VK_INCOMPLETE, always, with what entries there is room for but one), overstate (it
 *                        says that it wrote 64 bytes more than there is room for), shrink (it writes less than it said),
 *                        header:short, version, vendor, device, uuid, length or zero (which part is wrong),
 *                        garbage (the header, and no entry that it could read again), stub (the header alone)
 *          of create-binaries:  missing (VK_PIPELINE_BINARY_MISSING_KHR), incomplete (one less than there are),
 *                        partial:N (the Nth is VK_NULL_HANDLE, and VK_ERROR_OUT_OF_HOST_MEMORY)
 *          of binary-data:  grow, garbage;  of get-key:  zero, long (a keySize beyond its limit)
 *          of join:  late (the thread that completes the operation waits until its result was asked for twice)
 * CONDITION, of which all must hold; !CONDITION for the opposite
 *          data               there are initial data, or a buffer
 *          stale              of another build, ABI or device than the driver's;  guilty  marked as such
 *          damaged            not as the driver gave it out;  has:HEX  it has these bytes
 *                             (of create-cache: in the initial data; of pipeline and create-binaries: in what is used)
 *          hit                of pipeline: found in the cache of the call, internal-hit, compile, probe (not found, and
 *                             not to be compiled), from-binaries, capture, compute, graphics, ray-tracing,
 *                             may-not-compile (it has FAIL_ON_PIPELINE_COMPILE_REQUIRED), chosen (about one pipeline
 *                             in four, the same ones in every process), first-cache (with the device's first cache)
 *          from-data, from-pipeline, from-create-info, count, fetch   of create-binaries;  global  of get-key
 *          cache-control, binaries   of create-device: that is enabled on it
 *          main-thread        the process's first thread calls
 * WHEN     N: the Nth time that the conditions hold in this process; N+: from then on; N-M; /M: each Mth
 *
 * PYLAYER_TEST_DRIVER_WITNESS names a file that remembers what the driver gave out, for all processes that are given
 * it. A line VIOLATION says that initial data or binaries were used that the driver did not give out under the same
 * identity, or that the driver was used as Vulkan forbids. A line 'device' says how vkCreateDevice was called.
 * PYLAYER_TEST_DRIVER_COUNTS names a file of counters, mapped: right whatever becomes of the process. Each is a name of 24
 * bytes and a number of 8.
 *
 * It serves the tests of this repository only, and is no part of the product. */
#ifndef DRIVER_H
#define DRIVER_H

#define VK_NO_PROTOTYPES
#include "../pipeline_binary.h"

#include <vulkan/vk_icd.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_DEVICES = 2, KEY_BYTES = 32 };

/* ---- settings.c: what the driver is ---- */

typedef enum { PART_NO, PART_YES, PART_UNFEATURED, PART_NULL } Part;
typedef enum { DEFERS_AT_ONCE, DEFERS_TO_JOIN, DEFERS_NEVER } Deferral;
typedef enum { FEEDBACK_YES, FEEDBACK_NO, FEEDBACK_NO_HITS } Feedback;

typedef struct {
    uint32_t vendor_id, device_id, device_type, api, driver_version, driver_id, build, abi;
    char driver_name[VK_MAX_DRIVER_NAME_SIZE], driver_info[VK_MAX_DRIVER_INFO_SIZE];
    uint8_t uuid[VK_UUID_SIZE];
    Part cache_control, maintenance5, extended_flags, incremental_cache, libraries, binaries, more_pipelines;
    Part ray_tracing, maintenance8;
    bool internal_cache, internal_cache_control, prefers_internal_cache, precompiled_internal_cache, compressed;
    uint32_t payload;
    uint64_t identity; /* a hash of all that makes data the driver's own */
} DeviceSettings;

typedef struct {
    uint32_t device_count;
    uint32_t guilty;
    Deferral deferral;
    Feedback feedback;
    DeviceSettings devices[MAX_DEVICES];
} DriverSettings;

extern DriverSettings settings;
/* True where it is a statement of what the driver is. */
bool settings_read(const char *name, const char *value);
void settings_complete(void);
_Noreturn void wrong_script(const char *what, const char *where);
uint32_t script_number(const char *text);

/* ---- script.c: what the driver does ---- */

#define COMMANDS(X)                                                                                                    \
    X(CREATE_INSTANCE, "create-instance")                                                                              \
    X(CREATE_DEVICE, "create-device")                                                                                  \
    X(CREATE_OBJECT, "create-object")                                                                                  \
    X(CREATE_CACHE, "create-cache")                                                                                    \
    X(DESTROY_CACHE, "destroy-cache")                                                                                  \
    X(GET_DATA, "get-data")                                                                                            \
    X(MERGE, "merge")                                                                                                  \
    X(CREATE_PIPELINES, "create-pipelines")                                                                            \
    X(PIPELINE, "pipeline")                                                                                            \
    X(GET_KEY, "get-key")                                                                                              \
    X(CREATE_BINARIES, "create-binaries")                                                                              \
    X(BINARY_DATA, "binary-data")                                                                                      \
    X(RELEASE_CAPTURED, "release-captured")                                                                            \
    X(CREATE_MORE, "create-more")                                                                                      \
    X(JOIN, "join")                                                                                                    \
    X(GET_RESULT, "get-result")                                                                                        \
    X(ALLOCATE, "allocate")                                                                                            \
    X(ANY, "any")

#define ACTIONS(X)                                                                                                     \
    X(NOTHING, "nothing")                                                                                              \
    X(ERROR, "error")                                                                                                  \
    X(CRASH, "crash")                                                                                                  \
    X(ABORT, "abort")                                                                                                  \
    X(KILL, "kill")                                                                                                    \
    X(HANG, "hang")                                                                                                    \
    X(SLOW, "slow")                                                                                                    \
    X(WAIT, "wait")                                                                                                    \
    X(NULL_HANDLE, "null")                                                                                             \
    X(IGNORE, "ignore")                                                                                                \
    X(EMPTY, "empty")                                                                                                  \
    X(GROW, "grow")                                                                                                    \
    X(INCOMPLETE, "incomplete")                                                                                        \
    X(OVERSTATE, "overstate")                                                                                          \
    X(SHRINK, "shrink")                                                                                                \
    X(HEADER, "header")                                                                                                \
    X(GARBAGE, "garbage")                                                                                              \
    X(STUB, "stub")                                                                                                    \
    X(MISSING, "missing")                                                                                              \
    X(PARTIAL, "partial")                                                                                              \
    X(ZERO, "zero")                                                                                                    \
    X(LONG, "long")                                                                                                    \
    X(LATE, "late")

#define TRAITS(X)                                                                                                      \
    X(DATA, "data")                                                                                                    \
    X(STALE, "stale")                                                                                                  \
    X(GUILTY, "guilty")                                                                                                \
    X(DAMAGED, "damaged")                                                                                              \
    X(HIT, "hit")                                                                                                      \
    X(INTERNAL_HIT, "internal-hit")                                                                                    \
    X(COMPILE, "compile")                                                                                              \
    X(PROBE, "probe")                                                                                                  \
    X(FROM_BINARIES, "from-binaries")                                                                                  \
    X(CAPTURE, "capture")                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(GRAPHICS, "graphics")                                                                                            \
    X(RAY_TRACING, "ray-tracing")                                                                                      \
    X(MAY_NOT_COMPILE, "may-not-compile")                                                                              \
    X(CHOSEN, "chosen")                                                                                                \
    X(FIRST_CACHE, "first-cache")                                                                                      \
    X(FROM_DATA, "from-data")                                                                                          \
    X(FROM_PIPELINE, "from-pipeline")                                                                                  \
    X(FROM_CREATE_INFO, "from-create-info")                                                                            \
    X(COUNT, "count")                                                                                                  \
    X(FETCH, "fetch")                                                                                                  \
    X(GLOBAL, "global")                                                                                                \
    X(CACHE_CONTROL, "cache-control")                                                                                  \
    X(BINARIES, "binaries")                                                                                            \
    X(MAIN_THREAD, "main-thread")

#define COMMAND_NUMBER(name, text) DO_##name,
#define ACTION_NUMBER(name, text) ACT_##name,
#define TRAIT_NUMBER(name, text) TRAIT_NUMBER_##name,
#define TRAIT_BIT(name, text) TRAIT_##name = 1u << TRAIT_NUMBER_##name,
typedef enum { COMMANDS(COMMAND_NUMBER) COMMAND_COUNT } Command;
typedef enum { ACTIONS(ACTION_NUMBER) ACTION_COUNT } Action;
enum { TRAITS(TRAIT_NUMBER) TRAIT_TOTAL };
enum { TRAITS(TRAIT_BIT) };

typedef struct {
    Action action;
    VkResult result;      /* of ACT_ERROR */
    const char *argument; /* NULL: none was given */
} Verdict;

/* Counts the call and says what is to be done instead of what Vulkan says; crashes, hangs and waits are done in it. */
Verdict act(Command command, unsigned traits, const void *bytes, size_t size);
/* The same where errors are all that can be asked. */
VkResult act_or_error(Command command);
/* A script had a thread hang: it is in the driver for ever. */
bool somebody_hangs(void);
/* NULL as the script has it. Released with free. */
void *allocate(size_t size);

/* ---- counts.c ---- */

#define COUNTERS(X)                                                                                                    \
    X(COMPILES, "compiles")                                                                                            \
    X(HITS, "hits")                                                                                                    \
    X(INTERNAL_HITS, "internal-hits")                                                                                  \
    X(PROBES, "probes")                                                                                                \
    X(CREATED_FROM_BINARIES, "from-binaries")                                                                          \
    X(CAPTURED, "captured")                                                                                            \
    X(FROM_DATA, "made-from-data")                                                                                     \
    X(FROM_PIPELINE, "made-from-pipeline")                                                                             \
    X(FROM_CREATE_INFO, "made-from-create-info")                                                                       \
    X(INITIAL_DATA, "initial-data")                                                                                    \
    X(INITIAL_BYTES, "initial-bytes")                                                                                  \
    X(ENTRIES_LOADED, "entries-loaded")                                                                                \
    X(STALE_USES, "stale-uses")                                                                                        \
    X(GUILTY_USES, "guilty-uses")                                                                                      \
    X(DAMAGED_USES, "damaged-uses")                                                                                    \
    X(ACTS, "acts")                                                                                                    \
    X(VIOLATIONS, "violations")                                                                                        \
    X(DEVICES_DESTROYED, "devices-destroyed")
#define COUNTER_NUMBER(name, text) COUNT_##name,
typedef enum { COUNTERS(COUNTER_NUMBER) COUNTER_COUNT } Counter;

void count(Counter counter, uint64_t by);
void count_call(Command command);
/* A counter or the calls of a command, by name. -1 if there is none. */
int counter_of(const char *name);
uint64_t value_of(int counter);
extern const char *const command_names[COMMAND_COUNT];

/* ---- witness.c ---- */

void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What Vulkan allows and a driver is known to do wrong. */
void hazard(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of a cache's data, or of a binary's under its key. */
void given_out(uint64_t identity, const void *key, const void *data, size_t size);
bool was_given_out(uint64_t identity, const void *key, const void *data, size_t size);
/* How a device was asked for: a line that tests compare. */
void note_device(const VkDeviceCreateInfo *info, VkResult result);

/* ---- hash.c ---- */

typedef struct {
    uint64_t a, b;
} Hash;

Hash hash_start(uint32_t of);
void hash_bytes(Hash *to, const void *data, size_t size);
void hash_text(Hash *to, const char *text);
void hash_number(Hash *to, uint64_t number);
uint64_t hash_folded(const Hash *of);

/* ---- hashing.c: contents, not handles ---- */

typedef struct {
    Hash key;
    uint64_t flags;
    const VkPipelineBinaryInfoKHR *binaries; /* NULL: none */
    const VkPipelineCreationFeedbackCreateInfo *feedback;
    VkPipeline base;
    int32_t base_index;
    VkPipelineBindPoint point;
    bool has_code;
    uint32_t stage_count;
    uint32_t binary_count; /* how many binaries such a pipeline has */
} PipelineRequest;

/* A create info's place among others of its kind. */
typedef PipelineRequest (*Reader)(const void *infos, uint32_t index);

PipelineRequest read_compute(const VkComputePipelineCreateInfo *info);
PipelineRequest read_graphics(const VkGraphicsPipelineCreateInfo *info);
PipelineRequest read_rays(const VkRayTracingPipelineCreateInfoKHR *info);
/* A structure stands in a chain once (VUIDs sType-unique). */
void check_chain(const void *chain, const char *where);
/* The pipeline that this one derives from: an earlier element of the call, or one that exists. */
void check_base(const PipelineRequest *request, uint32_t index);

/* ---- objects ---- */

#define OBJECT_KINDS(X)                                                                                                \
    X(MODULE, "VkShaderModule")                                                                                        \
    X(SETS, "VkDescriptorSetLayout")                                                                                   \
    X(LAYOUT, "VkPipelineLayout")                                                                                      \
    X(PASS, "VkRenderPass")                                                                                            \
    X(CACHE, "VkPipelineCache")                                                                                        \
    X(PIPELINE, "VkPipeline")                                                                                          \
    X(BINARY, "VkPipelineBinaryKHR")                                                                                   \
    X(OPERATION, "VkDeferredOperationKHR")
#define KIND_NUMBER(name, text) KIND_##name,
typedef enum { OBJECT_KINDS(KIND_NUMBER) KIND_COUNT } ObjectKind;

typedef struct DriverDevice DriverDevice;

/* The first bytes of all objects that are not dispatchable. */
typedef struct {
    uint64_t magic; /* of the kind; another value once the object is destroyed */
    Hash contents;
    DriverDevice *device;
    ObjectKind kind;
    bool has_allocator;
} Object;

/* Writes a violation and aborts where the handle is no such object. */
void *object_of(uint64_t handle, ObjectKind kind);
/* All bytes behind the Object are zero. NULL if there is no memory. */
void *object_make(DriverDevice *device, ObjectKind kind, size_t size, const VkAllocationCallbacks *allocator);
void object_check_allocator(const Object *object, const VkAllocationCallbacks *allocator);
void object_free(DriverDevice *device, Object *object, const VkAllocationCallbacks *allocator);

/* While a command is under way nobody may destroy its device or end the process. */
DriverDevice *command_begin(VkDevice device);
void command_end(DriverDevice **device);
#define COMMAND_OF(handle, name)                                                                                       \
    DriverDevice *name __attribute__((cleanup(command_end), unused)) = command_begin(handle)
void check_device_end(DriverDevice *device);
void watch_exit(void);

typedef struct DriverPhysical {
    VK_LOADER_DATA loader;
    const DeviceSettings *settings;
    uint32_t index, api; /* of the instance and the device */
} DriverPhysical;

/* ---- caches.c ---- */

enum { ENTRY_GUILTY = 1 };

/* What a compiled pipeline is in a cache, in its data and in binaries. */
typedef struct {
    Hash key;
    uint32_t build, abi, flags, size;
    uint64_t checksum; /* of all members before it, and of the code */
    uint8_t code[];
} Entry;

typedef struct SharedEntry {
    atomic_int users;
    Entry entry;
} SharedEntry;

typedef struct Cache {
    Object object;
    pthread_mutex_t mutex;
    VkPipelineCacheCreateFlags flags;
    atomic_uint users; /* commands that use it; one that must be alone with it counts ALONE */
    SharedEntry **table;
    size_t room, used, padding; /* padding: bytes at the end of the data, which a cache has that grew */
} Cache;

enum { ALONE = 0x10000 };
#define SYNCHRONIZED_MERGE 0x8u /* VK_PIPELINE_CACHE_CREATE_INTERNALLY_SYNCHRONIZED_MERGE_BIT_KHR */

/* Around a use of a cache; as writer where Vulkan wants the cache externally synchronized. NULL for VK_NULL_HANDLE. */
Cache *cache_use_begin(VkPipelineCache handle, bool as_writer);
void cache_use_end(Cache *cache, bool as_writer);
/* Creating a pipeline with a cache needs to be alone with it only where its user synchronizes it. */
bool cache_needs_synchronization(VkPipelineCache handle);
bool cache_init(Cache *cache);
void cache_clear(Cache *cache);
/* Both with one more user of what they return. NULL: not there; no memory. */
SharedEntry *cache_find(Cache *cache, const Hash *key);
SharedEntry *entry_make(const DeviceSettings *device, const Hash *key, bool guilty);
bool cache_add(Cache *cache, SharedEntry *entry);
void entry_leave(SharedEntry *entry);
size_t entry_bytes(const Entry *entry);
/* Reads an entry out of data that can be anything. NULL: it is none. */
SharedEntry *entry_read(const uint8_t *data, size_t size, size_t *used);
unsigned entry_traits(const DeviceSettings *device, const Entry *entry);

struct DriverDevice {
    VK_LOADER_DATA loader;
    const DeviceSettings *settings;
    struct driver_queue {
        VK_LOADER_DATA loader;
    } queue;
    Cache internal;
    _Atomic(uint64_t) first_cache;
    bool internal_cache; /* there is one, and it is not disabled */
    bool cache_control, maintenance5, extended_flags, binaries, more_pipelines, ray_tracing, feedback;
    atomic_int calls, alive[KIND_COUNT];
};

static inline DriverDevice *device_of(VkDevice device)
{
    return (DriverDevice *)(void *)device;
}

/* ---- pipelines.c ---- */

typedef struct {
    Object object; /* its contents are the key */
    SharedEntry *entry;
    uint32_t binary_count;
    bool captured, released;
} Pipeline;

/* A call of vkCreate*Pipelines. */
typedef struct {
    DriverDevice *device;
    VkPipelineCache cache;
    uint32_t count;
    Reader read;
    const void *infos;
    const VkAllocationCallbacks *allocator;
    VkPipeline *pipelines;
} CreateCall;

/* One of its pipelines. */
VkResult create_element(const CreateCall *call, uint32_t index);
/* Returns the first error, or the first other result that is not VK_SUCCESS. */
VkResult create_elements(const CreateCall *call);

/* ---- binaries.c ---- */

typedef struct {
    Object object; /* its contents are the key of the pipeline */
    SharedEntry *entry;
    uint32_t index, count;
} Binary;

/* ---- the commands ---- */

typedef struct {
    const char *name;
    PFN_vkVoidFunction function;
} EntryPoint;
#define ENTRY(name, function) {(name), (PFN_vkVoidFunction)(function)}

/* Each table ends with a NULL name. */
extern const EntryPoint instance_commands[], physical_commands[], device_commands[];
extern const EntryPoint cache_commands[], pipeline_commands[], binary_commands[], more_pipeline_commands[];
extern const EntryPoint ray_commands[], deferred_commands[];
PFN_vkVoidFunction find_command(const EntryPoint *table, const char *name);
PFN_vkVoidFunction VKAPI_CALL get_device_command(VkDevice device, const char *name);

/* ---- properties.c ---- */

/* Whether a device may be created so. */
VkResult check_device(const DriverPhysical *physical, const VkDeviceCreateInfo *info, DriverDevice *out);

#endif
