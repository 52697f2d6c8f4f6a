/* device.h - vkCreateDevice, vkDestroyDevice, and all state that the layer holds for a device */
#ifndef PYLAYER_DEVICE_H
#define PYLAYER_DEVICE_H

#include "binaries/binary_history.h"
#include "binaries/binary_index.h"
#include "crash/added_calls.h"
#include "pipelines/adoption.h"
#include "pipelines/deferred.h"
#include "loader/device_commands.h"
#include "process/shared_map.h"
#include "device/features.h"
#include "instance/instance.h"
#include "caches/cache_history.h"
#include "caches/loading.h"
#include "caches/pipeline_cache.h"
#include "shaders/object_names.h"
#include "shaders/seen.h"
#include "shaders/shader_modules.h"
#include "store/stored.h"

/* The counters of one group of threads. A hit writes to no cache line that another group writes to. */
typedef struct Counters {
    _Alignas(CACHE_LINE_BYTES) PylayerCounters totals; /* without hits, which are the sum of kind_hits */
    uint64_t kind_hits[PYLAYER_KIND_COUNT];
    uint64_t untold;
} Counters;

struct Device {
    VkDevice handle;
    uint64_t serial;
    Instance *instance;
    VkPhysicalDevice physical;
    PylayerPlan plan;
    bool planned;       /* policy gave a plan, so it must be told when this device ends */
    atomic_int carrier; /* PylayerCarrier in force; changes only to OFF */
    bool cache_control;
    bool feedback;
    const VkAllocationCallbacks *own_allocator; /* replaces the application's in the driver; NULL if unused */

    PFN_vkGetDeviceProcAddr get_device_proc_addr;
#define MEMBER(group, member, type, name) type member;
    DEVICE_COMMANDS(MEMBER, MEMBER)
#undef MEMBER
    PFN_vkGetShaderModuleIdentifierEXT get_module_identifier; /* NULL if the application did not enable the feature */
    PFN_vkGetShaderModuleCreateInfoIdentifierEXT get_code_identifier;

    /* binaries: pipelineBinaries is enabled. app_binaries: the application enabled it. */
    bool binaries, app_binaries;
    bool sees_frames;                /* the commands of swapchains are hooked */
    _Atomic(struct Frames *) frames; /* NULL until the first present */
    bool multiview;                  /* the application enabled it */
    /* The application asked for a pipeline's key or, by its create info, for its binaries: it keeps binaries itself. It
     * may get them from the driver's internal cache, which lacks what went through a VkPipelineCache. So from then on the
     * layer adds no cache, unless it stores binaries itself. */
    atomic_bool keeps_binaries;
    bool app_binary_extension, app_maintenance5; /* the application enabled these, so it may use their commands */
    bool internal_cache;   /* VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo may be used with this driver */
    bool driver_cache_off; /* disableInternalCache */
    BinaryIndex index;
    BinaryHistory history;
    atomic_uint kinds_captured; /* bit mask: the internal cache does not return the binaries; capture at once */
    atomic_uint binary_failures[PYLAYER_KIND_COUNT]; /* in a row */

    /* The layer's own cache: all cells merged. Created with the device and never passed to the application. */
    VkPipelineCache merged; /* VK_NULL_HANDLE if no carrier keeps pipelines */
    CacheUse merged_use;
    atomic_uint cells_generation; /* raised by every merge into merged */
    /* Allows one merge at a time in a device. A merge locks its destination and its sources, so two merges in
     * opposite directions could wait for each other for ever: Mesa locks the destination, then the source. */
    PatientMutex merge_mutex;
    uint8_t *empty_data; /* vkGetPipelineCacheData of an empty cache, to recognise that nothing was kept */
    size_t empty_size;
    atomic_int said_unreadable;   /* the log has said that the driver does not return data */
    atomic_uint said_unknown[16]; /* unknown sTypes that the log has named; 0: free */
    AdoptionBudget adoption;

    pthread_mutex_t given_mutex;
    NumberMap given;          /* numbers of stored records that the driver got, by digest_id; not those from policy */
    atomic_ullong last_given; /* of these numbers */
    Loading loading;
    atomic_ullong restorable_slots; /* bit mask of the caches, in order of creation, for which policy has data */
    atomic_bool has_lost_caches;    /* AppCache::lost */

    PylayerDeviceInfo info;       /* as policy got it */
    atomic_bool run_written;      /* the layer has written the run's file */
    bool used_recently;           /* a run said within a day what it used */
    bool has_undecided;           /* only policy can judge what this run shows about the driver (verdicts.h) */
    atomic_bool store_wants_work; /* at the end of the process policy folds journals, or prunes statistics */
    PylayerKept kept;             /* what policy kept of an earlier process; zero if nothing */
    Stored stored;

    AddedCalls added_calls; /* which of them are switched off */

    _Atomic(PylayerMark *) marks;        /* the crash sentinel; NULL if there is none */
    char *sentinel_path;                 /* the sentinel's file, if the layer made it */
    int sentinel_fd;                     /* open on overlayfs alone; 0: none */
    ino_t sentinel_inode;                /* of that file */
    atomic_bool holds_stored;            /* stored data was given to the driver */
    _Atomic(struct Suspects *) suspects; /* NULL if no pipeline is suspected */

    pthread_mutex_t app_caches_mutex; /* writers only */
    _Atomic(AppCache *) app_caches[APP_CACHE_BUCKETS];
    atomic_uint next_cache_slot;
    KeptDigests kept_digests;
    CacheHistory cache_history;

    SharedMap modules;         /* code of shader modules, by handle */
    SharedMap identified_code; /* the identifiers of inline code seen so far, by the code's digest */
    SharedMap libraries;       /* fingerprints of pipeline libraries, by handle */
    ObjectNames names;
    SeenFingerprints seen;
    DeferredOperations deferred;

    void (*free)(Device *device); /* called by the last of its holders */
    atomic_uint holders;          /* vkDestroyDevice, and threads that read the store for it (process/aside.h) */

    /* Held while the policy thread runs a command on this device. vkDestroyDevice waits for it. */
    pthread_mutex_t command_mutex;

    char run_name[PYLAYER_RUN_NAME_BYTES]; /* of the sentinel that the layer made; empty if there is none */
    _Atomic(Counters *) counters;          /* THREAD_SLOTS of them: these, or those in the sentinel's file */
    Counters own_counters[THREAD_SLOTS];
};

/* Returns false if the carrier keeps no pipelines and uses no stored ones, so that the layer must add nothing to
 * the device and hold nothing for it. */
static inline bool carrier_keeps(int carrier)
{
    return carrier != PYLAYER_CARRIER_OFF && carrier != PYLAYER_CARRIER_OBSERVE;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *,
                                                  const VkAllocationCallbacks *, VkDevice *);

/* Keeps what the layer has of a device until as many calls of device_release. */
static inline void device_hold(Device *device)
{
    atomic_fetch_add(&device->holders, 1);
}

static inline void device_release(Device *device)
{
    if (atomic_fetch_sub(&device->holders, 1) == 1)
        device->free(device);
}

/* Fills in what a request about a device says of its instance. */
void describe_instance(PylayerMessage *message, const Instance *instance);
/* Fills in what Python computes the identity and the plan from. info is NULL before vkCreateDevice. */
void describe_device(PylayerDeviceInfo *out, const Instance *instance, VkPhysicalDevice physical,
                     const VkDeviceCreateInfo *info, struct FeatureSupport *support);

static inline Counters *counters_of(Device *device)
{
    return atomic_load_explicit(&device->counters, memory_order_acquire) + thread_slot();
}

/* Notes that a pipeline with this fingerprint was created, of which so much is known. 0 is unknown, and not noted. */
static inline void note_created(Device *device, uint64_t fingerprint, unsigned known)
{
    if (fingerprint && !(known & SEEN_CREATED) && !fingerprints_note(device, fingerprint, SEEN_CREATED))
        count(&counters_of(device)->totals.fingerprints_dropped, 1);
}

#endif
