/* device.h - vkCreateDevice, vkDestroyDevice, and all that the layer holds for a device */
#ifndef PYLAYER_DEVICE_H
#define PYLAYER_DEVICE_H

#include "binaries/binary_history.h"
#include "binaries/binary_index.h"
#include "pipelines/deferred.h"
#include "loader/device_commands.h"
#include "device/features.h"
#include "instance/instance.h"
#include "caches/loading.h"
#include "caches/pipeline_cache.h"
#include "shaders/seen.h"
#include "shaders/shader_modules.h"

/* What one group of threads counted. A hit writes to no cache line that another group writes to. */
typedef struct Counters {
    _Alignas(CACHE_LINE_BYTES) PylayerCounters totals; /* without hits, the sum of kind_hits */
    uint64_t kind_hits[PYLAYER_KIND_COUNT];
    uint64_t untold;
} Counters;

struct Device {
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
#define MEMBER(group, member, type, name) type member;
    DEVICE_COMMANDS(MEMBER, MEMBER)
#undef MEMBER
    PFN_vkGetShaderModuleIdentifierEXT get_module_identifier; /* NULL where the application has not the feature */
    PFN_vkGetShaderModuleCreateInfoIdentifierEXT get_code_identifier;

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
    PatientMutex merge_mutex;
    uint8_t *empty_data; /* vkGetPipelineCacheData of an empty cache: what 'nothing was kept' looks like */
    size_t empty_size;
    atomic_int said_unreadable;    /* the log told that the driver does not give data */
    atomic_uint said_unknown[16];  /* sTypes of which the log told that the layer does not know them; 0: none */
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

    ShaderCodes modules;         /* by handle */
    ShaderCodes identified_code; /* the identifiers of inline code that was met, by its digest */
    SeenFingerprints seen;
    DeferredOperations deferred;

    /* Held while the policy thread runs a command on this device; vkDestroyDevice waits for its end. */
    pthread_mutex_t command_mutex;

    Counters counters[THREAD_SLOTS];
};

/* Whether pipelines are kept, and stored ones used: what the layer has to add to the device for that, or to hold. */
static inline bool carrier_keeps(int carrier)
{
    return carrier != PYLAYER_CARRIER_OFF && carrier != PYLAYER_CARRIER_OBSERVE;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateDevice(VkPhysicalDevice, const VkDeviceCreateInfo *,
                                                  const VkAllocationCallbacks *, VkDevice *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyDevice(VkDevice, const VkAllocationCallbacks *);

/* What Python makes the identity and the plan from; info NULL: there is no vkCreateDevice yet. */
/* What a request to plan or describe a device of this instance says of the instance. */
void describe_instance(PylayerMessage *message, const Instance *instance);
void describe_device(PylayerDeviceInfo *out, const Instance *instance, VkPhysicalDevice physical,
                     const VkDeviceCreateInfo *info, struct FeatureSupport *support);

static inline Counters *counters_of(Device *device)
{
    return &device->counters[thread_slot()];
}

#endif
