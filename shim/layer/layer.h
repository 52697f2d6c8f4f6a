/*
 * layer.h - what the files of the layer share: the objects, who owns them, and the calls between rooms.
 *
 * loader.c          negotiation, vkGet*ProcAddr, names to hooks
 * dispatch.c        dispatch key -> Instance or Device
 * instance.c        vkCreateInstance, vkDestroyInstance
 * device.c          vkCreateDevice, vkDestroyDevice, the plan
 * features.c        what is added to VkDeviceCreateInfo
 * pnext.c           reading and copying pNext chains
 * pipeline_cache.c  the application's VkPipelineCache objects
 * pipelines.c       vkCreate*Pipelines: to the device's carrier
 * batch.c           one such call, and what the carriers have in common
 * carrier_*.c       what each carrier does with it
 * deferred.c        vkCreateRayTracingPipelinesKHR in a deferred operation
 * create_info.c     the three create infos seen as one
 * fingerprints.c    what pipelines are made of, as one number each, and which of them were created
 * identifiers.c     shaders by their VK_EXT_shader_module_identifier
 * digest.c          XXH3
 * allocator.c       memory for the driver's device that is not the application's
 * sentinel.c        what is in the driver's hands, should the process die
 * suspects.c        pipelines at whose creation it died before
 * cells.c           the layer's merged VkPipelineCache and the cells that go into it
 * binaries.c        pipelines created from VkPipelineBinaryKHR, and their binaries read
 * binary_record.c   the binaries of one pipeline as bytes
 * binary_index.c    binaries by pipeline key
 * pipeline_binaries.c  VkPipelineBinaryKHR objects of the application
 * binary_history.c  what the application read of its binaries, in this run and before
 * properties.c      vkGetPhysicalDeviceProperties2: what is said of pipeline binaries
 * merging.c         merging into caches that threads create pipelines with
 * shards.c          copies of the layer's cache for single threads
 * spread_lock.c     the lock for that, and for whatever else all threads read
 * loading.c         stored records on their way into it
 * mailbox.c         messages to the policy thread, and its waiting
 * commands.c        the functions that policy calls
 * kept_plans.c      plans that policy made for the same request before
 * policy_thread.c   finding and running the policy library
 * log.c             PYLAYER_LOG
 */
#ifndef PYLAYER_LAYER_H
#define PYLAYER_LAYER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "../boundary.h"
#include "vk_compat.h"

#define LAYER_NAME "VK_LAYER_PYLAYER_pipeline_cache"

/* ---- dispatch.c ------------------------------------------------------------------------------ */

/* Instances and devices alive at once in one process. The table never grows, so that readers need
 * no lock; creating an object that does not fit fails with VK_ERROR_TOO_MANY_OBJECTS. */
#define MAX_DISPATCH_OBJECTS 4096

/* The dispatch key: the loader's table pointer at the start of every dispatchable handle. */
static inline void *dispatch_key(const void *handle)
{
    return *(void *const *)handle;
}

typedef struct DispatchTable {
    struct {
        _Atomic(void *) key;
        _Atomic(void *) object;
    } slots[MAX_DISPATCH_OBJECTS];
} DispatchTable;

extern DispatchTable instance_table, device_table;

bool dispatch_insert(DispatchTable *table, void *key, void *object);
void *dispatch_remove(DispatchTable *table, void *key);
void *dispatch_find(DispatchTable *table, void *key);

/* ---- instance.c ------------------------------------------------------------------------------ */

typedef struct Instance {
    VkInstance handle;
    PylayerInstanceInfo info;
    bool active;                /* false: policy never started; every call below passes */
    bool application_allocates; /* it gave allocation callbacks to vkCreateInstance */
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    PFN_GetPhysicalDeviceProcAddr get_physical_device_proc_addr;
    PFN_vkDestroyInstance destroy_instance;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2; /* NULL on a plain Vulkan 1.0 instance */
    PFN_vkGetPhysicalDeviceFeatures2 get_features2;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_device_extensions;
} Instance;

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateInstance(const VkInstanceCreateInfo *, const VkAllocationCallbacks *,
                                                    VkInstance *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyInstance(VkInstance, const VkAllocationCallbacks *);

/* ---- allocator.c ----------------------------------------------------------------------------- */

const VkAllocationCallbacks *own_allocator(void);

/* ---- digest.c -------------------------------------------------------------------------------- */

/* XXH3-64. A seed makes equal bytes of different meaning different, and chains pieces. */
uint64_t digest64(const void *data, size_t size, uint64_t seed);
/* XXH3-128 in canonical bytes, as Python's xxhash.xxh3_128_digest gives it. */
void digest128(const void *data, size_t size, uint8_t digest[PYLAYER_DIGEST_BYTES]);

/* ---- spread_lock.c --------------------------------------------------------------------------- */

#define CACHE_LINE_BYTES 64

/* What all threads write again and again stands once for each of so many groups of threads, in lines of its own. */
#define THREAD_SLOTS 16
/* From 1, in the order of the first call. */
unsigned thread_number(void);
unsigned thread_slot(void);

typedef struct SpreadLock {
    struct {
        _Alignas(CACHE_LINE_BYTES) atomic_uint readers;
    } slots[THREAD_SLOTS];
    _Alignas(CACHE_LINE_BYTES) atomic_bool writing;
    pthread_mutex_t writer; /* held while writing */
    sem_t left;             /* posted by readers who leave meanwhile */
} SpreadLock;

void spread_lock_init(SpreadLock *lock);
void spread_lock_destroy(SpreadLock *lock);
/* for_long: more than microseconds. Same value for unlocking. Not recursive: a waiting writer goes first. */
void spread_lock_read(SpreadLock *lock, bool for_long);
void spread_unlock_read(SpreadLock *lock, bool for_long);
/* Waits for readers; spread_try_write only for those that do not have the lock for long. */
void spread_lock_write(SpreadLock *lock);
bool spread_try_write(SpreadLock *lock);
void spread_unlock_write(SpreadLock *lock);

/* ---- merging.c ------------------------------------------------------------------------------- */

/* Who uses a VkPipelineCache that is merged into. */
typedef struct CacheUse {
    SpreadLock lock;
    VkPipelineCache annex;   /* under merge_mutex: merged while somebody used the cache for long; often none */
    atomic_bool has_annex;   /* there is something in it */
    bool synchronized_merge; /* the driver lets others use the cache meanwhile */
} CacheUse;

/* ---- fingerprints.c -------------------------------------------------------------------------- */

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

/* ---- device.c -------------------------------------------------------------------------------- */

/* The application's VkPipelineCache, beside the driver's handle that it keeps using. */
typedef struct AppCache {
    _Atomic(VkPipelineCache) handle; /* VK_NULL_HANDLE: free, may be reused */
    struct AppCache *next;           /* same bucket; never unlinked before the device goes */
    uint64_t serial;                 /* PylayerCacheInfo::cache */
    uint32_t slot;                   /* PylayerCacheInfo::slot */
    CacheUse use;
    uint64_t data_id;        /* first bytes of that data's digest, 0: none, or not known */
    bool from_data;          /* created with initial data: not known to be this driver's own work */
    bool app_synchronized;   /* EXTERNALLY_SYNCHRONIZED: used within the application's own calls only */
    atomic_uint seeded;      /* Device::cells_generation when last seeded, 0: never */
    atomic_bool holds_plain; /* something was compiled into it that is in no cell */
} AppCache;

#define APP_CACHE_BUCKETS 64

/* Digests of application cache data of which policy has a copy, the oldest replaced first: an application that
 * writes its cache every few seconds mostly writes the same. */
#define KEPT_DIGESTS 16
typedef struct KeptDigests {
    pthread_mutex_t mutex;
    uint8_t digests[KEPT_DIGESTS][PYLAYER_DIGEST_BYTES];
    unsigned count, next;
} KeptDigests;

/* Records that policy published, in its memory until the next publication ends, and how far they are. */
typedef struct Loading {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_uint changes;    /* counts what changed is signalled for */
    atomic_ullong begun_ns; /* nobody waits later than this plus load_wait_ns */
    atomic_int done;        /* nothing more is expected: everything stored is merged */
    atomic_int under_way;   /* records were published, now or in a later load, and not all are merged */
    atomic_int abandoned;   /* device or process end: nothing more is given to the driver */
    const uint8_t *base;
    const uint64_t *offsets, *sizes;
    const uint8_t *digests;
    uint64_t count, next, finished; /* of this publication */
    uint64_t published, taken;      /* of this load */
    unsigned expected;              /* loads that loading_done or loading_cancel have not ended */
} Loading;

/* Binaries by pipeline key. Readers take no lock: a table is replaced by a larger one, never changed but for
 * slots that are filled, and old ones stay until the device goes. */
#define BINARY_ENTRY_LOCKS 16
typedef struct BinaryIndex {
    _Atomic(struct BinaryTable *) table;
    pthread_mutex_t mutex;       /* writers only */
    struct BinaryEntry *entries; /* all that ever were in a table */
    atomic_ullong bytes;         /* held by entries */
    size_t used;                 /* entries in the table */
    pthread_mutex_t entry_locks[BINARY_ENTRY_LOCKS];
} BinaryIndex;

/* Digests, by key, of the data of binaries that the application read, in this run or in others. */
#define BINARY_HISTORY_BUCKETS 1024
typedef struct BinaryHistory {
    pthread_mutex_t mutex;
    struct KnownBinary *buckets[BINARY_HISTORY_BUCKETS];
    uint64_t bytes, count;
} BinaryHistory;

/* Deferred operations that create pipelines and are not complete yet. */
typedef struct DeferredOperations {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* one was removed */
    struct DeferredOperation *pending;
    atomic_uint pending_count; /* none: nobody needs the mutex */
    uint64_t last_serial;
} DeferredOperations;

/* Counters that every hit raises. */
typedef struct HotCounters {
    _Alignas(CACHE_LINE_BYTES) atomic_ullong pipelines;
    atomic_ullong hits, application_hits, binary_hits, hit_ns;
} HotCounters;

typedef struct Device {
    VkDevice handle;
    uint64_t serial;
    Instance *instance;
    VkPhysicalDevice physical;
    PylayerPlan plan;
    bool planned;       /* policy answered, so that it waits for this device's end */
    atomic_int carrier; /* PylayerCarrier in force; only ever goes to OFF */
    bool cache_control;
    bool feedback;
    const VkAllocationCallbacks *own_allocator; /* what the driver has instead of the application's; NULL: nothing */

    PFN_vkGetDeviceProcAddr get_device_proc_addr;
    PFN_vkDestroyDevice destroy_device;
    PFN_vkCreatePipelineCache create_pipeline_cache;
    PFN_vkDestroyPipelineCache destroy_pipeline_cache;
    PFN_vkGetPipelineCacheData get_pipeline_cache_data;
    PFN_vkMergePipelineCaches merge_pipeline_caches;
    PFN_vkCreateGraphicsPipelines create_graphics_pipelines;
    PFN_vkCreateComputePipelines create_compute_pipelines;
    PFN_vkCreateRayTracingPipelinesKHR create_ray_tracing_pipelines;
    PFN_vkDestroyPipeline destroy_pipeline;
    PFN_vkDeferredOperationJoinKHR deferred_operation_join;
    PFN_vkGetDeferredOperationResultKHR get_deferred_operation_result;
    PFN_vkDestroyDeferredOperationKHR destroy_deferred_operation;
    PFN_vkCreateShaderModule create_shader_module;
    PFN_vkDestroyShaderModule destroy_shader_module;
    CompatGetShaderModuleIdentifier get_module_identifier; /* NULL where the application has not the feature */
    CompatGetShaderModuleCreateInfoIdentifier get_code_identifier;
    PFN_vkCreatePipelineBinariesKHR create_pipeline_binaries;
    PFN_vkDestroyPipelineBinaryKHR destroy_pipeline_binary;
    PFN_vkGetPipelineKeyKHR get_pipeline_key;
    PFN_vkGetPipelineBinaryDataKHR get_pipeline_binary_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured_pipeline_data;

    /* pipelineBinaries is enabled, and by whom. */
    bool binaries, app_binaries;
    bool app_binary_extension, app_maintenance5; /* their commands are the application's to have */
    bool internal_cache;   /* VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo may be used with this driver */
    bool driver_cache_off; /* disableInternalCache */
    BinaryIndex index;
    BinaryHistory history;
    atomic_uint kinds_captured;         /* bit mask: the internal cache does not give the binaries; capture at once */
    atomic_uint kinds_without_binaries; /* bit mask: the driver gives none, or makes no pipelines from them */
    atomic_uint binary_failures[PYLAYER_KIND_COUNT]; /* one after another */

    /* The layer's own cache: all cells merged. Created with the device, never handed out. */
    VkPipelineCache merged; /* VK_NULL_HANDLE where carrier is off */
    CacheUse merged_use;
    atomic_uint cells_generation; /* raised by every merge into merged */
    /* One merge at a time in a device. A merge locks its destination and its sources; with several
     * at once two merges in opposite directions could wait for each other: Mesa locks the
     * destination, then the source. */
    pthread_mutex_t merge_mutex;
    struct Shard *shards; /* copies of merged, as many as policy allows */
    uint32_t shard_count;
    uint8_t *empty_data; /* vkGetPipelineCacheData of an empty cache: what 'nothing was kept' looks like */
    size_t empty_size;
    atomic_int said_unreadable;    /* the log told that the driver does not give data */
    atomic_uint kinds_not_adopted; /* bit mask: feedback does not tell the driver's own cache from ours */

    Loading loading;
    atomic_ullong restorable_slots; /* bit mask of caches, by the order of their creation, that policy has data for */

    atomic_uint plain_kinds; /* bit mask of PylayerPipelineKind */

    _Atomic(PylayerMark *) marks;        /* the crash sentinel; NULL: there is none */
    atomic_bool holds_stored;            /* stored data went into the driver */
    _Atomic(struct Suspects *) suspects; /* NULL: nothing is suspected */

    pthread_mutex_t app_caches_mutex; /* writers only */
    _Atomic(AppCache *) app_caches[APP_CACHE_BUCKETS];
    atomic_uint next_cache_slot;
    KeptDigests kept_digests;

    ShaderModules modules;
    ShaderModules identified_code; /* the identifiers of inline code that was met, under its digest for a handle */
    SeenFingerprints seen;
    DeferredOperations deferred;

    /* Held while the policy thread runs a command on this device; vkDestroyDevice waits for its end. */
    pthread_mutex_t command_mutex;

    struct {
        atomic_ullong compiled, adopted, uncacheable, plain, plain_compiled, passed, compile_required, failed,
            caches_emptied, absorbed, events_dropped, answers_late, compile_ns, plain_ns, load_wait_ns, load_failed,
            fingerprints_dropped, binaries_kept, binaries_captured, binaries_missing, binaries_evicted,
            binaries_unindexed, application_binaries, binaries_attested, binaries_altered, binaries_stale,
            binaries_restored, binaries_refused, create_info_hits, deferred;
    } counters;
    HotCounters hot_counters[THREAD_SLOTS];
} Device;

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *,
                                                  const VkAllocationCallbacks *, VkDevice *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice, const VkAllocationCallbacks *);

/* What Python makes the identity and the plan from; info NULL: there is no vkCreateDevice yet. */
struct FeatureSupport;
void describe_device(PylayerDeviceInfo *out, const Instance *instance, VkPhysicalDevice physical,
                     const VkDeviceCreateInfo *info, struct FeatureSupport *support);

/* Device by serial number, its command mutex held; NULL when it is gone. Policy thread only. */
Device *device_command_begin(uint64_t serial);
void device_command_end(Device *device);
/* exit(): no device is loaded any further; afterwards, no command reaches a driver that runs its exit handlers. */
void devices_stop_loading(void);
void devices_end_commands(void);

/* merging.c */
void cache_use_init(CacheUse *use);
void cache_use_destroy(CacheUse *use);
/* Around each command that uses the cache otherwise than to merge. for_long: it may compile, or reads all data. */
void cache_use_begin(CacheUse *use, bool for_long);
void cache_use_end(Device *device, CacheUse *use, VkPipelineCache cache, bool for_long);
/* Nobody else is in the cache until the end. False: somebody is, for long. */
bool cache_try_alone_locked(CacheUse *use);
void cache_alone_end_locked(CacheUse *use);
/* Merges into the cache or its annex. */
VkResult cache_merge_locked(Device *device, CacheUse *use, VkPipelineCache cache, uint32_t source_count,
                            const VkPipelineCache *sources);
/* Merges the annex into its cache where nobody is in the way. */
void cache_take_over_annex(Device *device, CacheUse *use, VkPipelineCache cache);
/* The cache is about to be destroyed. */
void cache_drop_annex(Device *device, CacheUse *use);

static inline void count(atomic_ullong *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static inline HotCounters *hot_counters(Device *device)
{
    return &device->hot_counters[thread_slot()];
}

/* fingerprints.c */
void fingerprints_open(Device *device);
void fingerprints_close(Device *device);
/* A pipeline with this fingerprint was created; 0, unknown, is not remembered. */
void fingerprints_note(Device *device, uint64_t fingerprint);
/* Writes at most capacity of them; how many there are. */
uint64_t fingerprints_read(Device *device, uint64_t *out, uint64_t capacity);

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateShaderModule(VkDevice, const VkShaderModuleCreateInfo *,
                                                        const VkAllocationCallbacks *, VkShaderModule *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyShaderModule(VkDevice, VkShaderModule, const VkAllocationCallbacks *);

/* ---- identifiers.c --------------------------------------------------------------------------- */

/* The application enabled the feature. */
void identifiers_open(Device *device);
/* Digests of identifiers, alike in every process; 0 where there is none. */
uint64_t identifier_digest(const uint8_t *identifier, uint32_t size);
uint64_t identifier_of_module(const Device *device, VkShaderModule module);
uint64_t identifier_of_code(const Device *device, const VkShaderModuleCreateInfo *info);

/* ---- features.c ------------------------------------------------------------------------------ */

typedef struct FeatureSupport {
    bool cache_control;           /* the driver has pipelineCreationCacheControl */
    bool cache_control_requested; /* the application enables it */
    bool cache_control_core;      /* Vulkan 1.3: needs no extension name */
    bool feedback;                /* VkPipelineCreationFeedback can be had */
    bool feedback_enabled;        /* by Vulkan 1.3 or by the application */
    bool pipeline_binary;         /* the driver has VK_KHR_pipeline_binary */
    bool binaries;                /* pipelineBinaries can be enabled here, with what it depends on */
    bool binaries_requested;      /* the application enables it */
    bool binary_extension;        /* the application enables VK_KHR_pipeline_binary, with or without the feature */
    bool maintenance5_core;       /* Vulkan 1.4 */
    bool maintenance5_requested;  /* the application enables the extension or the feature */
    /* disableInternalCache in the application's chain; NULL: none. */
    const VkDevicePipelineBinaryInternalCacheControlKHR *internal_cache_control;
    VkPhysicalDevicePipelineBinaryPropertiesKHR binary_properties;
} FeatureSupport;

/* What the layer wants to have on a device. */
typedef struct FeatureWishes {
    bool cache_control, binaries, driver_cache_off;
} FeatureWishes;

#define MAX_ADDED_EXTENSIONS 4

/* A VkDeviceCreateInfo made from the application's. What it points to lives until device_request_free. */
typedef struct DeviceRequest {
    VkDeviceCreateInfo info;
    bool changed;       /* differs from the application's */
    bool cache_control; /* enabled by this request, or by the application itself */
    bool feedback;
    bool binaries;
    bool driver_cache_off;
    VkPhysicalDevicePipelineCreationCacheControlFeatures cache_control_features;
    VkPhysicalDeviceMaintenance5FeaturesKHR maintenance5_features;
    VkPhysicalDevicePipelineBinaryFeaturesKHR binary_features;
    VkDevicePipelineBinaryInternalCacheControlKHR internal_cache_control;
    const char *added[MAX_ADDED_EXTENSIONS];
    uint32_t added_count;
    const char **extensions;
    VkBaseOutStructure *copies, *last_copy; /* chain copied up to the last struct that had to change */
} DeviceRequest;

/* What the layer can enable, and what the application enables by itself; info NULL: nothing. */
FeatureSupport features_query(const Instance *instance, VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              uint32_t device_api_version);
/* The application enables shaderModuleIdentifier. */
bool features_shader_module_identifiers(const VkDeviceCreateInfo *info);
/* Adds creation feedback where it can be had, and what is wished where that can be had. */
void device_request_build(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support,
                          FeatureWishes wishes);
/* As the application made it. */
void device_request_plain(DeviceRequest *request, const VkDeviceCreateInfo *info, const FeatureSupport *support);
void device_request_free(DeviceRequest *request);

/* ---- properties.c ------------------------------------------------------------------------------ */

VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceProperties2(VkPhysicalDevice, VkPhysicalDeviceProperties2 *);

/* ---- binary_record.c --------------------------------------------------------------------------- */

/* The bytes of all VkPipelineBinaryKHR of one pipeline (docs/format.md, 'Binaries'): this, an entry for each, and each
 * one's data at a multiple of 16. Little-endian, as every machine that this runs on. */
typedef struct BinaryRecord {
    uint32_t count, key_size;
    uint64_t zero;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES]; /* of the pipeline */
    struct {
        uint64_t size;
        uint32_t key_size, zero;
        uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    } entries[];
} BinaryRecord;

/* A record that says only what its size has room for. NULL: none. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Reads the data of the handles, malloc'ed; NULL where the driver or memory fails. */
BinaryRecord *binary_record_read(Device *device, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size);
/* vkCreatePipelineBinariesKHR of the next layer with the record's keys and data. */
VkResult binary_record_create(Device *device, const BinaryRecord *record, const VkAllocationCallbacks *allocator,
                              uint32_t handle_count, VkPipelineBinaryKHR *handles);

/* ---- binary_index.c ---------------------------------------------------------------------------- */

/* The binaries of one pipeline in the index, from then on until the device goes. */
typedef struct BinaryEntry BinaryEntry;

void binary_index_open(Device *device);
/* Destroys the driver's objects; binary_index_free the rest, when nobody can read any more. */
void binary_index_close(Device *device);
void binary_index_free(Device *device);
BinaryEntry *binary_index_find(Device *device, const VkPipelineBinaryKeyKHR *key);
/* Copies a record. False: it is none, or has no room. */
bool binary_index_load(Device *device, const void *data, uint64_t size);
/* Takes the handles where it returns an entry, NULL where there was no room. known: the key was there before, and the
 * handles stay the caller's. */
BinaryEntry *binary_index_add(Device *device, const VkPipelineBinaryKeyKHR *key, uint64_t size, uint32_t handle_count,
                              VkPipelineBinaryKHR *handles, bool *known);
uint32_t binary_entry_count(const BinaryEntry *entry);
/* The entry's VkPipelineBinaryKHR objects, made when first asked for; NULL: the driver refuses. */
const VkPipelineBinaryKHR *binary_entry_handles(Device *device, BinaryEntry *entry);
/* Its record, malloc'ed; NULL where it cannot be had. */
BinaryRecord *binary_entry_record(Device *device, BinaryEntry *entry);
/* Never found again. */
void binary_entry_evict(Device *device, BinaryEntry *entry);

/* ---- binary_history.c -------------------------------------------------------------------------- */

enum BinaryOutcome { BINARY_UNKNOWN, BINARY_ATTESTED, BINARY_ALTERED, BINARY_STALE };

/* Copies it; true when it was not known before. data, where there is room for it, is what restoring needs. */
bool binary_history_add(Device *device, const PylayerAttested *attested);
/* What is known of data that an application brings. restored: of altered data, the one content known under that key,
 * valid until the device goes; else NULL. */
enum BinaryOutcome binary_history_judge(Device *device, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data, VkPipelineBinaryDataKHR *restored);
void binary_history_free(Device *device);

/* ---- pipeline_binaries.c ----------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineBinariesKHR(VkDevice, const VkPipelineBinaryCreateInfoKHR *,
                                                               const VkAllocationCallbacks *,
                                                               VkPipelineBinaryHandlesInfoKHR *);
VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineBinaryDataKHR(VkDevice, const VkPipelineBinaryDataInfoKHR *,
                                                              VkPipelineBinaryKeyKHR *, size_t *, void *);

/* ---- pipeline_cache.c ------------------------------------------------------------------------ */

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineCache(VkDevice, const VkPipelineCacheCreateInfo *,
                                                         const VkAllocationCallbacks *, VkPipelineCache *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyPipelineCache(VkDevice, VkPipelineCache, const VkAllocationCallbacks *);
VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineCacheData(VkDevice, VkPipelineCache, size_t *, void *);
VKAPI_ATTR VkResult VKAPI_CALL layer_MergePipelineCaches(VkDevice, VkPipelineCache, uint32_t, const VkPipelineCache *);
AppCache *app_cache_find(Device *device, VkPipelineCache handle);
void app_caches_free(Device *device);
/* Takes over what is in the application's caches now and in no cell, for a snapshot before they are destroyed. */
void app_caches_absorb(Device *device);

/* ---- cells.c --------------------------------------------------------------------------------- */

bool cells_open(Device *device);
void cells_close(Device *device);
/* A new empty cache for one thread and one pipeline; VK_NULL_HANDLE where the driver refuses. */
VkPipelineCache cell_create(Device *device);
/* The same for a deferred operation, which several threads may join. */
VkPipelineCache cell_create_for_threads(Device *device);
/* Reads the cell, merges it into the layer's cache and, when given, the application's, destroys it
 * and tells policy, with the rest of about filled in. The cell must hold no more than what creating one pipeline
 * added. False: the driver put nothing into it. */
bool cell_finish(Device *device, VkPipelineCache cell, AppCache *app_cache, PylayerCell about);
/* Merges all that the layer's cache holds, or is about to, into another. merge_mutex is held. */
void cells_copy_merged_locked(Device *device, VkPipelineCache into);
/* Merges the layer's cache into an application's that lacked a pipeline which the layer has. */
void cells_seed(Device *device, AppCache *app_cache);
/* What went into an application's cache and into no cell is kept as if it had gone into the layer's. */
void cells_absorb(Device *device, AppCache *app_cache, bool at_its_end);
/* What a deferred operation may use for as long as it takes, where the original may be merged into meanwhile: a copy of
 * the application's cache or, without one, of the layer's. Ending the copy merges it back; VK_NULL_HANDLE where the
 * driver refuses. */
VkPipelineCache cells_copy(Device *device, AppCache *app_cache);
void cells_copy_end(Device *device, VkPipelineCache copy, AppCache *app_cache);
int64_t cells_read_merged(Device *device, uint8_t *data, uint64_t size);
/* Makes caches of at most CELLS_MERGED_AT_ONCE records and merges them; how many the driver took. */
#define CELLS_MERGED_AT_ONCE 8
uint64_t cells_merge_records(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             const uint8_t *digests, uint32_t record_count);

/* ---- shards.c -------------------------------------------------------------------------------- */

/* A copy of the layer's cache that one thread at a time uses. */
typedef struct Shard Shard;

/* False: the device has none. */
bool shards_open(Device *device);
void shards_close(Device *device);
/* NULL where there is none to be had. */
Shard *shard_take(Device *device);
void shard_give_back(Shard *shard);
VkPipelineCache shard_cache(const Shard *shard);
/* Something was merged into the layer's cache that the shard lacks. */
bool shard_is_late(const Device *device, const Shard *shard);
void shard_note_late_hit(Shard *shard);

/* ---- loading.c ------------------------------------------------------------------------------- */

/* Finishes, with threads in loading_wait, what was published before, and publishes these records. -1: the
 * device keeps no cache. */
int64_t loading_publish(Device *device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                        const uint8_t *digests, uint64_t record_count);
/* One more load is expected: pipeline creations that miss wait for its loading_done, or loading_cancel. */
void loading_begin(Device *device);
void loading_cancel(Device *device);
/* No load is expected any more. */
void loading_end(Device *device);
/* Finishes what is published; nobody waits any longer, unless another load is expected. How many records the driver took in all, -1 where the
 * device or the process is ending. */
int64_t loading_done(Device *device);
/* Records are on their way into the layer's cache, or are still to come. */
bool loading_is_under_way(const Device *device);
/* Leaves the rest alone: loading_done returns -1, and nobody waits any longer. */
void loading_abandon(Device *device);
/* Waits for the store, at most as long as the plan allows, and helps. True when it is wholly merged, without a
 * record that the driver refused. */
bool loading_wait(Device *device);

/* ---- pipelines.c ----------------------------------------------------------------------------- */

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateGraphicsPipelines(VkDevice, VkPipelineCache, uint32_t,
                                                             const VkGraphicsPipelineCreateInfo *,
                                                             const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateComputePipelines(VkDevice, VkPipelineCache, uint32_t,
                                                            const VkComputePipelineCreateInfo *,
                                                            const VkAllocationCallbacks *, VkPipeline *);
VKAPI_ATTR VkResult VKAPI_CALL layer_CreateRayTracingPipelinesKHR(VkDevice, VkDeferredOperationKHR, VkPipelineCache,
                                                                  uint32_t, const VkRayTracingPipelineCreateInfoKHR *,
                                                                  const VkAllocationCallbacks *, VkPipeline *);

/* ---- deferred.c ------------------------------------------------------------------------------ */

void deferred_open(Device *device);
void deferred_close(Device *device);

VKAPI_ATTR VkResult VKAPI_CALL layer_DeferredOperationJoinKHR(VkDevice, VkDeferredOperationKHR);
VKAPI_ATTR VkResult VKAPI_CALL layer_GetDeferredOperationResultKHR(VkDevice, VkDeferredOperationKHR);
VKAPI_ATTR void VKAPI_CALL layer_DestroyDeferredOperationKHR(VkDevice, VkDeferredOperationKHR,
                                                             const VkAllocationCallbacks *);

/* ---- mailbox.c ------------------------------------------------------------------------------- */

void mailbox_open(void);
void mailbox_close(void);
bool mailbox_is_open(void);
/* In the child of fork() there is no policy thread, and locks may be held by threads that are gone. */
bool process_is_forked_child(void);
void process_watch_fork(void);

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device);
/* An event: the mailbox takes the message and the data in it. False: dropped, and freed. */
bool mailbox_post(PylayerMessage *message, uint64_t queue_bytes);
/* A request: true when it was answered in time; the sender then owns a valid answer. Always ends with
 * message_done. */
bool mailbox_request(PylayerMessage *message, int64_t timeout_ns);
void message_done(PylayerMessage *message);

PylayerMessage *mailbox_next(int64_t timeout_ns);
int32_t mailbox_answer(PylayerMessage *message);
void mailbox_release(PylayerMessage *message);

/* ---- commands.c, policy_thread.c ------------------------------------------------------------- */

extern const PylayerShim shim_commands;

/* Starts policy once in this process. False: it cannot run here, and the log says why. */
bool policy_start(void);
/* Called after a device was created: exit() without vkDestroyDevice then writes what is still queued. */
void policy_flush_at_exit(void);

/* ---- kept_plans.c ---------------------------------------------------------------------------- */

/* Before policy reads anything: remembers the policy file's state. */
void kept_plans_start(void);
/* Fills in what the plan of this PLAN_DEVICE request depends on, for the search here and for policy to keep. */
void kept_plans_describe(PylayerMessage *message);
bool kept_plans_find(const PylayerMessage *message, PylayerPlan *plan);

/* ---- log.c ----------------------------------------------------------------------------------- */

void log_line(enum PylayerLogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_enabled(enum PylayerLogLevel level);

/* ---- time: CLOCK_MONOTONIC, nanoseconds -------------------------------------------------------- */

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline struct timespec deadline_at(uint64_t time_ns)
{
    return (struct timespec){.tv_sec = (time_t)(time_ns / 1000000000ull), .tv_nsec = (long)(time_ns % 1000000000ull)};
}

#endif
