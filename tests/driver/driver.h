/* A Vulkan driver without a GPU. A test scripts its faults, and the driver checks every byte that it is given.
 *
 * It compiles nothing, but its caches and binaries have real contents: an entry for each pipeline, under a hash of the
 * create info's contents, that later processes find again.
 *
 * PYLAYER_TEST_DRIVER holds statements separated by ';'. A statement that the driver cannot read ends the process with
 * a line on stderr.
 *
 * Statements that say what the driver is, with their defaults. A/B gives the first device A, and every other device B.
 *   devices=1            number of physical devices
 *   vendor-id=0x10005 device-id=0x7e57 (and one more for each further device)
 *   driver-version=1 driver-id=0 driver-name=test driver-info=build-1 uuid=7e57 (hexadecimal, zeros follow)
 *   build=1              the build of its compiler, in all data; no Vulkan property shows it
 *   global-key=1         what its global key is made of: binaries of another one are of no use; process: another one in
 *                        each process
 *   keys=0               what the keys of all pipelines are made of: nothing of another one is found; process: the same
 *   abi=64               or 32: the size of a word, in all data; no Vulkan property shows it
 *   cache-control=yes    no: the extension is missing; unfeatured: the extension without its feature
 *   maintenance5=yes     the same
 *   binaries=yes         VK_KHR_pipeline_binary, the same; null: enabled, but its commands are NULL
 *   more-pipelines=no    VK_NV_ray_tracing, VK_AMDX_shader_enqueue and VK_ARM_data_graph, which take a cache too
 *   internal-cache=yes internal-cache-control=yes   its internal cache: one for each device, in memory
 *   warm=no              yes: its internal cache has every pipeline when the process begins, as a disk cache may
 *   prefers-internal-cache=no   a property that it reports
 *   deferral=at-once     the driver does a deferred operation at once and returns VK_OPERATION_DEFERRED_KHR;
 *                        to-join: the threads that join do it;
 *                        never: the driver does it at once and returns VK_OPERATION_NOT_DEFERRED_KHR
 *   feedback=yes         no: creation feedback is left unwritten; no-hits: feedback never reports a hit;
 *                        everywhere: each command that is given a create info reports a hit in its feedback;
 *                        hits: every pipeline is a hit, compiled ones, too; wrong: those that are no hits are
 *   payload=256          approximate size of a pipeline's code in bytes
 *   shared=0             so many bytes more in the data of each cache that has a pipeline
 *   guilty=0             the number of the pipeline, among those compiled in this process, whose entry is marked as
 *                        guilty and has the text GUILTY in its code
 *
 * Statements that say what it does wrong, for each command:   COMMAND=ACTION[:ARGUMENT][?CONDITION]...[@WHEN]
 * Only the first statement that applies is carried out, but slow, wait and until continue with the next one.
 *
 * COMMAND  create-instance, create-device, create-object (modules, layouts, render passes), create-cache,
 *          destroy-cache, get-data, merge, create-pipelines (a call), pipeline (one create info of a call), get-key,
 *          create-binaries, binary-data, release-captured, create-more (a call for more-pipelines), join and
 *          get-result (of a deferred operation), allocate (each time the driver needs memory), any (each command of a
 *          device that returns a VkResult)
 * ACTION   error:RESULT       the command returns RESULT, a number or a name such as out-of-host-memory
 *          crash, abort, kill, exit   SIGSEGV, SIGABRT, SIGKILL, _exit(0)
 *          hang               never returns;  slow:MS  takes this many milliseconds longer
 *          wait:COMMAND       until two more calls of that command have begun: everything between them was done
 *                             while this call waited
 *          wait:COUNTER       until that counter has grown
 *          until:COUNTER      until that counter is not 0; until:COUNTER:N: until it is N
 *          null               returns VK_SUCCESS and VK_NULL_HANDLE: create-cache, pipeline
 *          ignore             returns VK_SUCCESS without using the initial data (create-cache), without merging
 *                             (merge), or without adding the pipeline to the cache (pipeline)
 *          move               for merge: the sources are empty afterwards
 *          for get-data:  empty (no bytes at all), grow (the cache has more when it is read than when asked its size),
 *                        incomplete (always VK_INCOMPLETE, and one entry is missing), tight (VK_INCOMPLETE, and one
 *                        entry is missing, unless the buffer is larger than the size it reported), overstate (reports
 *                        64 bytes more than the buffer has room for), shrink (writes less than the size it reported),
 *                        header:short, version, vendor, device, uuid, length, zero or count (the part that is wrong;
 *                        count: the driver's own count of entries is 0),
 *                        garbage (the header, and no entry that the driver could read), stub (only the header)
 *          for create-binaries:  missing (VK_PIPELINE_BINARY_MISSING_KHR), incomplete (one binary less than there are),
 *                        partial:N (the Nth is VK_NULL_HANDLE, and VK_ERROR_OUT_OF_HOST_MEMORY)
 *          for binary-data:  grow, garbage;  for get-key:  zero, long (a keySize beyond its limit)
 *          for join:  late (the thread that completes the operation waits until its result was asked for twice)
 * CONDITION  All must hold. !CONDITION is the opposite.
 *          data               there are initial data, or a buffer
 *          stale              data of another build, ABI or device than the driver's;  guilty  marked as guilty
 *          damaged            not as the driver returned it
 *                             (for create-cache: the initial data; for pipeline and create-binaries: what is used)
 *          for pipeline:      hit (found in the cache of the call), compile, probe (not found, and must
 *                             not be compiled), from-binaries, capture, compute, graphics,
 *                             may-not-compile (it has FAIL_ON_PIPELINE_COMPILE_REQUIRED), chosen (about one pipeline
 *                             in four, the same ones in every process)
 *          for create-binaries:  from-data, from-pipeline, from-create-info, count, fetch;  for get-key:  global
 *          for create-device:  cache-control, binaries (enabled on the device), unanswered (a structure in the chain is
 *                             none that the driver writes features to)
 * WHEN     N: the Nth time that the conditions hold in this process; N+: from then on; /M: every Mth time
 *
 * PYLAYER_TEST_DRIVER_WITNESS names a file that records what the driver returned, for all processes that get its name.
 * A line VIOLATION says that initial data or binaries were used that the driver did not return under the same identity,
 * or that the driver was used in a way that Vulkan forbids. A line 'device' says how vkCreateDevice was called.
 * PYLAYER_TEST_DRIVER_COUNTS names a file of counters. It is mapped, so the counters are right even if the process
 * crashes. Each is a name of 24 bytes and a number of 8.
 *
 * Only the tests of this repository use this driver. It is no part of the product. */
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

enum { MAX_DEVICES = 2, KEY_BYTES = 32, API = VK_MAKE_API_VERSION(0, 1, 3, 239) };

/* ---- settings.c: what the driver is ---- */

typedef enum { PART_NO, PART_YES, PART_UNFEATURED, PART_NULL } Part;
typedef enum { DEFERS_AT_ONCE, DEFERS_TO_JOIN, DEFERS_NEVER } Deferral;
typedef enum {
    FEEDBACK_YES,
    FEEDBACK_NO,
    FEEDBACK_NO_HITS,
    FEEDBACK_EVERYWHERE,
    FEEDBACK_HITS,
    FEEDBACK_WRONG
} Feedback;

typedef struct {
    uint32_t vendor_id, device_id, driver_version, driver_id, build, abi, global_key;
    char driver_name[VK_MAX_DRIVER_NAME_SIZE], driver_info[VK_MAX_DRIVER_INFO_SIZE];
    uint8_t uuid[VK_UUID_SIZE];
    Part always, cache_control, maintenance5, binaries, more_pipelines;
    Part internal_cache, internal_cache_control, warm, prefers_internal_cache;
    uint32_t payload, shared;
    uint64_t identity;          /* a hash of everything that data must share to be usable by this driver */
    uint64_t binaries_identity; /* the same for binaries: with the global key */
} DeviceSettings;

typedef struct {
    uint32_t device_count;
    uint32_t guilty, keys;
    Deferral deferral;
    Feedback feedback;
    DeviceSettings devices[MAX_DEVICES];
} DriverSettings;

extern DriverSettings settings;
/* Returns false if the statement is not about what the driver is. */
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

/* With the commands of which a script can ask for the action. */
#define OF(command) 1u << DO_##command
#define OF_ALL ~0u
#define ACTIONS(X)                                                                                                     \
    X(NOTHING, "nothing", 0)                                                                                           \
    X(ERROR, "error", OF_ALL)                                                                                          \
    X(CRASH, "crash", OF_ALL)                                                                                          \
    X(ABORT, "abort", OF_ALL)                                                                                          \
    X(KILL, "kill", OF_ALL)                                                                                            \
    X(EXIT, "exit", OF_ALL)                                                                                            \
    X(HANG, "hang", OF_ALL)                                                                                            \
    X(SLOW, "slow", OF_ALL)                                                                                            \
    X(WAIT, "wait", OF_ALL)                                                                                            \
    X(UNTIL, "until", OF_ALL)                                                                                          \
    X(NULL_HANDLE, "null", OF(CREATE_CACHE) | OF(PIPELINE))                                                            \
    X(IGNORE, "ignore", OF(CREATE_CACHE) | OF(MERGE) | OF(PIPELINE))                                                   \
    X(EMPTY, "empty", OF(GET_DATA))                                                                                    \
    X(GROW, "grow", OF(GET_DATA) | OF(BINARY_DATA))                                                                    \
    X(INCOMPLETE, "incomplete", OF(GET_DATA) | OF(CREATE_BINARIES))                                                    \
    X(TIGHT, "tight", OF(GET_DATA))                                                                                    \
    X(OVERSTATE, "overstate", OF(GET_DATA))                                                                            \
    X(SHRINK, "shrink", OF(GET_DATA))                                                                                  \
    X(HEADER, "header", OF(GET_DATA))                                                                                  \
    X(GARBAGE, "garbage", OF(GET_DATA) | OF(BINARY_DATA))                                                              \
    X(STUB, "stub", OF(GET_DATA))                                                                                      \
    X(MISSING, "missing", OF(CREATE_BINARIES))                                                                         \
    X(PARTIAL, "partial", OF(CREATE_BINARIES))                                                                         \
    X(ZERO, "zero", OF(GET_KEY))                                                                                       \
    X(LONG, "long", OF(GET_KEY))                                                                                       \
    X(LATE, "late", OF(JOIN))                                                                                          \
    X(MOVE, "move", OF(MERGE))

#define TRAITS(X)                                                                                                      \
    X(DATA, "data")                                                                                                    \
    X(STALE, "stale")                                                                                                  \
    X(GUILTY, "guilty")                                                                                                \
    X(DAMAGED, "damaged")                                                                                              \
    X(HIT, "hit")                                                                                                      \
    X(COMPILE, "compile")                                                                                              \
    X(PROBE, "probe")                                                                                                  \
    X(FROM_BINARIES, "from-binaries")                                                                                  \
    X(CAPTURE, "capture")                                                                                              \
    X(COMPUTE, "compute")                                                                                              \
    X(GRAPHICS, "graphics")                                                                                            \
    X(MAY_NOT_COMPILE, "may-not-compile")                                                                              \
    X(CHOSEN, "chosen")                                                                                                \
    X(FROM_DATA, "from-data")                                                                                          \
    X(FROM_PIPELINE, "from-pipeline")                                                                                  \
    X(FROM_CREATE_INFO, "from-create-info")                                                                            \
    X(COUNT, "count")                                                                                                  \
    X(FETCH, "fetch")                                                                                                  \
    X(GLOBAL, "global")                                                                                                \
    X(CACHE_CONTROL, "cache-control")                                                                                  \
    X(BINARIES, "binaries")                                                                                            \
    X(UNANSWERED, "unanswered")

#define COMMAND_NUMBER(name, text) DO_##name,
#define ACTION_NUMBER(name, text, commands) ACT_##name,
#define TRAIT_NUMBER(name, text) TRAIT_NUMBER_##name,
#define TRAIT_BIT(name, text) TRAIT_##name = 1u << TRAIT_NUMBER_##name,
typedef enum { COMMANDS(COMMAND_NUMBER) COMMAND_COUNT } Command;
typedef enum { ACTIONS(ACTION_NUMBER) ACTION_COUNT } Action;
enum { TRAITS(TRAIT_NUMBER) TRAIT_TOTAL };
enum { TRAITS(TRAIT_BIT) };

typedef struct {
    Action action;
    VkResult result;      /* only for ACT_ERROR */
    const char *argument; /* NULL if there is none */
} Verdict;

/* Counts the call and returns what to do wrong. Crashes, hangs and waits happen in this function. */
Verdict act(Command command, unsigned traits);
/* Like act, for commands of which a script can only ask for errors. Returns VK_SUCCESS if there is none. */
VkResult act_or_error(Command command);
/* Returns true if a script made a thread hang: that thread never leaves the driver. */
bool somebody_hangs(void);
/* Returns zeroed memory, or NULL if the script says so or there is none. The caller frees it. */
void *allocate(size_t size);

#define COUNTERS(X)                                                                                                    \
    X(COMPILES, "compiles")                                                                                            \
    X(HITS, "hits")                                                                                                    \
    X(PROBES, "probes")                                                                                                \
    X(CREATED_FROM_BINARIES, "from-binaries")                                                                          \
    X(CAPTURED, "captured")                                                                                            \
    X(FROM_DATA, "made-from-data")                                                                                     \
    X(FROM_PIPELINE, "made-from-pipeline")                                                                             \
    X(FROM_CREATE_INFO, "made-from-create-info")                                                                       \
    X(INITIAL_DATA, "initial-data")                                                                                    \
    X(STALE_USES, "stale-uses")                                                                                        \
    X(GUILTY_USES, "guilty-uses")                                                                                      \
    X(DAMAGED_USES, "damaged-uses")                                                                                    \
    X(ACTS, "acts")                                                                                                    \
    X(VIOLATIONS, "violations")
#define COUNTER_NUMBER(name, text) COUNT_##name,
typedef enum { COUNTERS(COUNTER_NUMBER) COUNTER_COUNT } Counter;

void count(Counter counter, uint64_t by);

/* ---- witness.c ---- */

void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Records data that the driver returned: a cache's, or a binary's with its key. */
void given_out(uint64_t identity, const void *key, const void *data, size_t size);
bool was_given_out(uint64_t identity, const void *key, const void *data, size_t size);
/* Writes a line that tests compare: how vkCreateDevice was called. */
void note_device(const VkDeviceCreateInfo *info, VkResult result);

/* ---- entries.c ---- */

typedef struct {
    uint64_t a, b;
} Hash;

Hash hash_start(uint32_t of);
void hash_bytes(Hash *to, const void *data, size_t size);
void hash_text(Hash *to, const char *text);
void hash_number(Hash *to, uint64_t number);
uint64_t hash_compacted(const Hash *of);
/* Members of a structure that lie behind each other. */
#define HASH_MEMBERS(to, of, first, last)                                                                              \
    hash_bytes(to, (const char *)(of) + offsetof(__typeof__(*(of)), first),                                            \
               offsetof(__typeof__(*(of)), last) + sizeof(of)->last - offsetof(__typeof__(*(of)), first))

/* ---- hashing.c: contents, not handles ---- */

typedef struct {
    Hash key;
    uint64_t flags;
    const VkPipelineBinaryInfoKHR *binaries; /* NULL if there are none */
    const VkPipelineCreationFeedbackCreateInfo *feedback;
    VkPipeline base;
    int32_t base_index;
    VkPipelineBindPoint point;
    bool has_code;
    uint32_t stage_count;
    uint32_t binary_count; /* how many binaries such a pipeline has */
} PipelineRequest;

/* Reads the create info with this index from an array of one kind. */
typedef PipelineRequest (*Reader)(const void *infos, uint32_t index);

PipelineRequest read_compute(const void *infos, uint32_t index);
PipelineRequest read_graphics(const void *infos, uint32_t index);
PipelineRequest read_rays(const void *infos, uint32_t index);
/* Returns the structure of this type, or NULL if the chain has none. */
const void *in_chain(const void *chain, int type);
/* Writes a violation if a structure is in the chain twice (VUIDs sType-unique). */
void check_chain(const void *chain, const char *where);
/* Writes a violation unless the parent is an earlier element of the call, or a pipeline that exists. */
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
    X(OPERATION, "VkDeferredOperationKHR")                                                                             \
    X(SWAPCHAIN, "VkSwapchainKHR")
#define KIND_NUMBER(name, text) KIND_##name,
typedef enum { OBJECT_KINDS(KIND_NUMBER) KIND_COUNT } ObjectKind;

typedef struct DriverDevice DriverDevice;

/* The first bytes of all objects that are not dispatchable. */
typedef struct {
    uint64_t magic; /* depends on the kind; another value once the object is destroyed */
    Hash contents;
    DriverDevice *device;
    ObjectKind kind;
    bool has_allocator;
} Object;

/* Writes a violation and aborts if the handle is no object of this kind. */
void *object_of(uint64_t handle, ObjectKind kind);
/* All bytes after the Object are zero. Returns NULL if there is no memory. */
void *object_make(DriverDevice *device, ObjectKind kind, size_t size, const VkAllocationCallbacks *allocator);
void object_check_allocator(const Object *object, const VkAllocationCallbacks *allocator);
void object_free(DriverDevice *device, Object *object, const VkAllocationCallbacks *allocator);

/* A violation is written if the device is destroyed, or the process exits, between command_begin and command_end. */
DriverDevice *command_begin(VkDevice device);
void command_end(DriverDevice **device);
#define COMMAND_OF(handle, name)                                                                                       \
    DriverDevice *name __attribute__((cleanup(command_end), unused)) = command_begin(handle)
void check_device_end(DriverDevice *device);
void watch_exit(void);

typedef struct DriverPhysical {
    VK_LOADER_DATA loader;
    const DeviceSettings *settings;
    uint32_t index, api; /* api: the lower of the instance's and the device's */
} DriverPhysical;

/* ---- caches.c ---- */

enum { ENTRY_GUILTY = 1 };

/* A compiled pipeline in a cache, in cache data and in binaries. */
typedef struct {
    Hash key;
    uint32_t build, abi, flags, size;
    uint64_t checksum; /* over all members before it, and the code */
    uint8_t code[];
} Entry;

typedef struct Cache {
    Object object;
    pthread_mutex_t mutex;
    VkPipelineCacheCreateFlags flags;
    atomic_uint users; /* commands that use it; a command that needs exclusive use counts as ALONE */
    Entry **table;
    size_t room, used, shared, padding; /* padding: extra bytes at the end of the data of a cache that grew */
} Cache;

enum { ALONE = 0x10000 };

/* Begins a use of a cache; as_writer if Vulkan requires external synchronization. Writes a violation if another
 * thread's use conflicts. Returns NULL for VK_NULL_HANDLE. */
Cache *cache_use_begin(VkPipelineCache handle, bool as_writer);
void cache_use_end(Cache *cache, bool as_writer);
/* Returns true if the cache is externally synchronized, so that creating a pipeline with it needs exclusive use. */
bool cache_needs_synchronization(VkPipelineCache handle);
void cache_clear(Cache *cache);
/* Returns NULL if there is none. */
Entry *cache_find(Cache *cache, const Hash *key);
/* Returns NULL if there is no memory. */
Entry *entry_make(const DeviceSettings *device, const Hash *key, bool guilty);
bool cache_add(Cache *cache, Entry *entry);
size_t entry_bytes(const Entry *entry);
/* Reads an entry from untrusted data. Returns NULL if the data is too short or there is no memory. */
Entry *entry_read(const uint8_t *data, size_t size, size_t *used);
unsigned entry_traits(const DeviceSettings *device, const Entry *entry);

struct DriverDevice {
    VK_LOADER_DATA loader;
    const DeviceSettings *settings;
    struct driver_queue {
        VK_LOADER_DATA loader;
    } queue;
    Cache internal;
    bool internal_cache; /* it exists and is not disabled */
    bool cache_control, maintenance5, binaries, more_pipelines, ray_tracing, feedback, swapchain;
    atomic_int calls, alive[KIND_COUNT];
};

static inline DriverDevice *device_of(VkDevice device)
{
    return (DriverDevice *)(void *)device;
}

/* ---- pipelines.c ---- */

typedef struct {
    Object object; /* object.contents is the key */
    Entry *entry;
    uint32_t binary_count;
    bool captured, released;
} Pipeline;

/* One call of vkCreate*Pipelines. */
typedef struct {
    DriverDevice *device;
    VkPipelineCache cache;
    uint32_t count;
    Reader read;
    const void *infos;
    const VkAllocationCallbacks *allocator;
    VkPipeline *pipelines;
} CreateCall;

/* Writes creation feedback, if there is room for it. */
void tell(const VkPipelineCreationFeedbackCreateInfo *feedback, unsigned traits);
/* Creates one of the call's pipelines. */
VkResult create_element(const CreateCall *call, uint32_t index);
/* Creates all of the call's pipelines. Returns the last error, or else the first result other than VK_SUCCESS. */
VkResult create_elements(const CreateCall *call);

/* ---- binaries.c ---- */

typedef struct {
    Object object; /* object.contents is the key of the pipeline */
    Entry *entry;
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
extern const EntryPoint ray_commands[], swapchain_commands[];
PFN_vkVoidFunction find_command(const EntryPoint *table, const char *name);
PFN_vkVoidFunction VKAPI_CALL get_device_command(VkDevice device, const char *name);

/* ---- properties.c ---- */

/* Checks a vkCreateDevice call and fills in what it enables. Returns the result of the call. */
VkResult check_device(const DriverPhysical *physical, const VkDeviceCreateInfo *info, DriverDevice *out);
/* Returns whether vkGetPhysicalDeviceFeatures2 leaves a structure of the chain as it is. */
bool has_unanswered(const VkDeviceCreateInfo *info);

#endif
