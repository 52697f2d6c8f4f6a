/*
 * boundary.h - everything that passes between the layer (C) and policy (Python).
 *
 * One header, two readers: the C compiler and cffi's cdef. cffi reads the part below the line
 * "cdef begins here", so that part holds plain declarations only.
 *
 * The shape. The layer owns a mailbox. Application threads put messages in, one policy thread takes
 * them out. A *request* has a sender that waits for the answer until a deadline; an *event* has
 * nobody waiting. In the other direction the policy thread calls *commands*, the functions of
 * PylayerShim.
 *
 * Ownership. A message belongs to the policy thread from next() until release(); every pointer in it
 * is valid for exactly that long. Nothing in a message points to the application's memory, because
 * a sender that gave up waiting returns to the application, which then frees what it passed in.
 * Memory that a command receives from Python is read before the command returns, but for load_records.
 *
 * Zero means 'do nothing'. A request whose answer is late, missing or zero goes to the driver exactly
 * as the application made it. No value here is a VkResult that reaches the application.
 */
#ifndef PYLAYER_BOUNDARY_H
#define PYLAYER_BOUNDARY_H

#include <stdint.h>

/* ---- cdef begins here ---- */

/* Raised whenever a declaration below changes; both libraries refuse a partner of another number. */
#define PYLAYER_BOUNDARY_VERSION 7

#define PYLAYER_NAME_BYTES 256        /* VK_MAX_PHYSICAL_DEVICE_NAME_SIZE, VK_MAX_DRIVER_NAME_SIZE */
#define PYLAYER_UUID_BYTES 16         /* VK_UUID_SIZE */
#define PYLAYER_CACHE_HEADER_BYTES 32 /* sizeof(VkPipelineCacheHeaderVersionOne) */
#define PYLAYER_PLAN_NAME_BYTES 40
#define PYLAYER_ENTRY_POINT_BYTES 32
#define PYLAYER_DIGEST_BYTES 16     /* XXH3-128, canonical: most significant byte first */
#define PYLAYER_GLOBAL_KEY_BYTES 32 /* VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR */
#define PYLAYER_BINARY_KEY_BYTES 32 /* VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR */
/* sketch.h: 32 bytes, and 4 for each of 1088 pieces, which is 1 GiB of data. */
#define PYLAYER_SKETCH_BYTES 4384

enum PylayerLogLevel {
    PYLAYER_LOG_ERROR = 1,
    PYLAYER_LOG_WARN = 2,
    PYLAYER_LOG_INFO = 3,
    PYLAYER_LOG_DEBUG = 4,
};

/* How new pipelines of a device are kept: docs/architecture.md, 'Carriers'. */
enum PylayerCarrier {
    PYLAYER_CARRIER_OFF = 0,
    PYLAYER_CARRIER_CELLS = 1,
    PYLAYER_CARRIER_SNAPSHOT = 2,
    PYLAYER_CARRIER_BINARIES = 3, /* with all that cells need, for the pipelines that cannot be binaries */
    PYLAYER_CARRIER_OBSERVE = 4,  /* not: calls go to the driver as the application made them, and are counted */
};

/*
 * Kinds of pipeline that a driver may treat differently from each other when it looks into a
 * VkPipelineCache. They index bit masks and counters; they never decide what is correct.
 */
enum PylayerPipelineKind {
    PYLAYER_KIND_COMPUTE = 0,
    PYLAYER_KIND_GRAPHICS = 1,
    PYLAYER_KIND_GRAPHICS_LIBRARY = 2,     /* VK_PIPELINE_CREATE_LIBRARY_BIT_KHR */
    PYLAYER_KIND_GRAPHICS_FAST_LINKED = 3, /* linked without LINK_TIME_OPTIMIZATION */
    PYLAYER_KIND_GRAPHICS_OPTIMIZED_LINK = 4,
    PYLAYER_KIND_RAY_TRACING = 5,
    PYLAYER_KIND_RAY_TRACING_LIBRARY = 6,
    PYLAYER_KIND_RAY_TRACING_LINKED = 7,
};
#define PYLAYER_KIND_COUNT 8

enum PylayerMessageType {
    PYLAYER_MSG_CREATE_INSTANCE = 1, /* event: instance; sent before the driver is called */
    PYLAYER_MSG_PLAN_DEVICE = 2,     /* request: device -> plan */
    PYLAYER_MSG_DEVICE_CREATED = 3,  /* event: created */
    PYLAYER_MSG_ADMIT_CACHE = 4,     /* request: cache -> verdict; an event where the plan has report_caches */
    PYLAYER_MSG_CACHE_REFUSED = 5,   /* event: cache; the driver failed on admitted data */
    PYLAYER_MSG_CELL = 6,            /* event: cell */
    PYLAYER_MSG_FLUSH_DEVICE = 7,    /* request: vkDestroyDevice waits; event: vkCreateDevice failed after its plan */
    PYLAYER_MSG_FLUSH_PROCESS = 8,   /* request: exit() waits */
    PYLAYER_MSG_CACHE_EMPTY = 9,     /* event: cache; created with no initial data */
    PYLAYER_MSG_CACHE_READ = 10,     /* event: read; vkGetPipelineCacheData wrote into the application's buffer */
    PYLAYER_MSG_BINARY_READ = 11,    /* event: binary; vkGetPipelineBinaryDataKHR gave data to the application */
    PYLAYER_MSG_PROPERTIES = 12,     /* request: info -> properties; the application asks for them, device 0 */
};

/* Whether policy has to decide if a process is left alone. The layer does where it can (shim/layer/instance/skip.c). */
enum PylayerSkip {
    PYLAYER_SKIP_NO = 0,           /* it is not */
    PYLAYER_SKIP_ASK = 1,          /* not by the built-in rules; the policy file's are policy's to read */
    PYLAYER_SKIP_ASK_BUILT_IN = 2, /* by the built-in rules, unless the policy file says otherwise */
};

/* What one vkCreateInstance said about the program. Strings are UTF-8, cut at the array's end. */
typedef struct PylayerInstanceInfo {
    uint32_t api_version; /* VkApplicationInfo::apiVersion, VK_API_VERSION_1_0 where absent */
    uint32_t application_version;
    uint32_t engine_version;
    char application_name[PYLAYER_NAME_BYTES];
    char engine_name[PYLAYER_NAME_BYTES];
} PylayerInstanceInfo;

/* The physical device below a vkCreateDevice, and what can be enabled on it. */
typedef struct PylayerDeviceInfo {
    PylayerInstanceInfo instance;
    uint32_t api_version; /* VkPhysicalDeviceProperties::apiVersion */
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_version;
    uint32_t driver_id; /* VkDriverId; 0 where the driver cannot say (Vulkan 1.0) */
    uint8_t pipeline_cache_uuid[PYLAYER_UUID_BYTES];
    char device_name[PYLAYER_NAME_BYTES];
    char driver_name[PYLAYER_NAME_BYTES];
    char driver_info[PYLAYER_NAME_BYTES];
    uint8_t cache_control_supported; /* pipelineCreationCacheControl */
    uint8_t cache_control_requested; /* the application enables it itself */
    uint8_t feedback_supported;      /* VK_EXT_pipeline_creation_feedback or Vulkan 1.3 */
    uint8_t binary_data_compressed;  /* pipelineBinaryCompressedData; 0 without VK_KHR_pipeline_binary */
    uint8_t binaries_supported;      /* pipelineBinaries can be enabled, with the maintenance5 that it needs */
    uint8_t binaries_requested;      /* the application enables it itself */
    /* VkPhysicalDevicePipelineBinaryPropertiesKHR as the driver says it; 0 without VK_KHR_pipeline_binary. */
    uint8_t internal_cache;             /* pipelineBinaryInternalCache */
    uint8_t internal_cache_control;     /* pipelineBinaryInternalCacheControl */
    uint8_t prefers_internal_cache;     /* pipelineBinaryPrefersInternalCache */
    uint8_t precompiled_internal_cache; /* pipelineBinaryPrecompiledInternalCache */
    /* VkDevicePipelineBinaryInternalCacheControlKHR::disableInternalCache: the application wants no cache that it
     * does not hold itself, so none of the layer's either. */
    uint8_t internal_cache_disabled;
} PylayerDeviceInfo;

/* Answer to PLAN_DEVICE. All zero: the device runs as if the layer were not there. */
typedef struct PylayerPlan {
    uint8_t carrier;          /* PylayerCarrier wanted */
    uint8_t fallback_carrier; /* PylayerCarrier where what that one needs cannot be enabled */
    uint8_t check_caches;     /* ask ADMIT_CACHE for the application's initial data */
    uint8_t report_caches;    /* with check_caches: ADMIT_CACHE is an event, and all data passes */
    uint8_t strict_caches;    /* with check_caches: data without a verdict in time becomes an empty cache */
    uint8_t seed_caches;      /* merge the store into an application's cache that lacks a pipeline */
    uint8_t adopt;            /* keep what the driver's own disk cache answers */
    uint8_t plain_kinds;      /* bit mask of PylayerPipelineKind: never probe these */
    uint8_t may_be_kept;      /* the same request always gets this plan */
    uint8_t driver_cache_off; /* switch the driver's own cache off, where it has internal_cache_control */
    uint8_t check_binaries;   /* compare binaries that the application brings with what it read in earlier runs */
    /* Altered data is replaced by the stored bytes where one content alone is known under its key; else, as without
     * this, vkCreatePipelineBinariesKHR fails with VK_ERROR_INITIALIZATION_FAILED. */
    uint8_t restore_binaries;
    uint8_t tell_creations; /* CELL messages also of pipelines that leave nothing to keep: PYLAYER_UNIT_NONE */
    int64_t load_wait_ns;   /* longest wait of one pipeline creation for the store */
    int64_t answer_wait_ns; /* longest wait for a verdict */
    int64_t flush_wait_ns;  /* longest wait at vkDestroyDevice and exit */
    uint64_t queue_bytes;   /* events beyond this many bytes waiting are dropped and counted */
    /* What an application reads out of its caches is copied for policy up to this size; 0: never. So is
     * what it reads out of a VkPipelineBinaryKHR. */
    uint64_t keep_cache_bytes;
    uint64_t index_bytes; /* bound of the binaries that the device holds in memory */
} PylayerPlan;

typedef struct PylayerDeviceCreated {
    uint8_t carrier;            /* PylayerCarrier in force: wanted, fallback or off */
    uint8_t cache_control;      /* enabled, by the application or by the layer */
    uint8_t feedback;           /* VkPipelineCreationFeedback can be asked for */
    uint64_t empty_cache_bytes; /* vkGetPipelineCacheData of an empty VkPipelineCache */
    /* vkGetPipelineKeyKHR without a create info: changes with whatever makes the driver's binaries useless. Only
     * where pipelineBinaries is enabled; the rest is zero. */
    uint32_t global_key_size;
    uint8_t global_key[PYLAYER_GLOBAL_KEY_BYTES];
    uint8_t binaries;         /* pipelineBinaries is enabled, by the application or by the layer */
    uint8_t driver_cache_off; /* the driver's own cache is switched off, by the application or by the layer */
} PylayerDeviceCreated;

/* vkCreatePipelineCache. The layer copies the header, never the whole data. */
typedef struct PylayerCacheInfo {
    uint64_t cache;       /* serial number of the vkCreatePipelineCache call, from 1 */
    uint64_t data_size;   /* VkPipelineCacheCreateInfo::initialDataSize */
    uint32_t header_size; /* bytes of header[] that data_size allowed to copy */
    int32_t result;       /* CACHE_REFUSED: the driver's VkResult */
    uint8_t data_is_null; /* pInitialData was NULL */
    uint8_t header[PYLAYER_CACHE_HEADER_BYTES];
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of all initial data; zero when there is none */
    uint32_t slot;                        /* n-th vkCreatePipelineCache of the device, from 0 */
    uint8_t load_expected;                /* pipeline creations that miss wait for a load_done or load_cancel more */
    /* Owned by the message. Of ADMIT_CACHE after VERDICT_SKETCH, and where nobody waits (report_caches); else NULL. */
    uint64_t sketch_size;
    const uint8_t *sketch;
} PylayerCacheInfo;

/* What vkGetPipelineCacheData gave to the application. */
typedef struct PylayerCacheRead {
    uint64_t cache; /* serial number and slot as in PylayerCacheInfo */
    uint64_t size;  /* bytes written */
    uint32_t slot;
    uint8_t incomplete;                   /* VK_INCOMPLETE: the buffer was too small for all data */
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of the bytes written */
    /* Owned by the message. NULL where policy has these bytes already (it was sent them, or answered PASS_KEPT),
     * where they are incomplete or larger than keep_cache_bytes, and where the queue had no room for them. */
    const uint8_t *data;
    /* Owned by the message; NULL where policy has it already, or has no use for it (strict_caches). */
    uint64_t sketch_size;
    const uint8_t *sketch;
} PylayerCacheRead;

enum PylayerVerdict {
    PYLAYER_VERDICT_NONE = 0, /* as the application made it */
    PYLAYER_VERDICT_PASS = 1,
    PYLAYER_VERDICT_EMPTY = 2,     /* create the cache with no initial data */
    PYLAYER_VERDICT_PASS_KEPT = 3, /* pass; policy has a copy of this data already */
    PYLAYER_VERDICT_SKETCH = 4,    /* none yet: ask again, with a sketch of the data */
};

enum PylayerCellFlags {
    PYLAYER_CELL_ADOPTED = 1,    /* the driver's disk cache answered; nothing was compiled */
    PYLAYER_CELL_AFTER_LOAD = 2, /* the store was wholly merged when the probe missed */
    PYLAYER_CELL_EMPTY = 4,      /* the driver put nothing into the cell; data is NULL */
    PYLAYER_CELL_CAPTURED = 8,   /* binaries, compiled with CAPTURE_DATA because the driver's cache did not have them */
    /* Statistics or internal representations were asked for, for which drivers may leave their caches alone (Vulkan,
     * VK_KHR_pipeline_executable_properties): what became of this cell says nothing about others. */
    PYLAYER_CELL_INTERNALS = 16,
};

/* What the data of a PylayerCell is. */
enum PylayerUnit {
    PYLAYER_UNIT_CELL = 0,     /* data of a VkPipelineCache */
    PYLAYER_UNIT_BINARIES = 1, /* all VkPipelineBinaryKHR of the pipeline: docs/format.md, 'Binaries' */
    PYLAYER_UNIT_NONE = 2,     /* there is none: what became of the creation is told, and how long it took */
};

/* What became of a creation that left nothing to keep. */
enum PylayerOutcome {
    PYLAYER_OUTCOME_KEPT = 0,        /* none of these: as unit and flags say */
    PYLAYER_OUTCOME_COMPILED = 1,    /* and kept elsewhere, or not at all */
    PYLAYER_OUTCOME_UNCACHEABLE = 2, /* compiled, and the driver gave nothing that could be kept */
    PYLAYER_OUTCOME_PLAIN = 3,       /* created without a probe; no cache had it, or the driver does not tell */
    PYLAYER_OUTCOME_PASSED = 4,      /* the layer did nothing; over PYLAYER_TOLD_NS */
    PYLAYER_OUTCOME_SLOW = 5,        /* found, and it took over PYLAYER_SLOW_NS */
    PYLAYER_OUTCOME_FAILED = 6,      /* the driver returned an error */
    PYLAYER_OUTCOME_WAITED = 7,      /* no pipeline: a thread waited for the store, over PYLAYER_TOLD_NS */
};

/* What is faster than this was found somewhere (docs/performance.md: 8 to 70 us), or nobody noticed. */
#define PYLAYER_TOLD_NS 100000
/* A hit that takes this long is worth a look. */
#define PYLAYER_SLOW_NS 1000000

/* What creating one pipeline added to a fresh VkPipelineCache, or the pipeline's binaries. */
typedef struct PylayerCell {
    uint8_t unit;        /* PylayerUnit */
    uint8_t kind;        /* PylayerPipelineKind */
    uint8_t flags;       /* PylayerCellFlags */
    uint64_t size;       /* bytes of data */
    uint64_t create_ns;  /* duration of the vkCreate*Pipelines call that compiled it */
    const uint8_t *data; /* owned by the message */
    /* Of what the pipeline's create info says; the same in every process, 0: unknown. Approximate: it never decides
     * what is correct, it tells which stored records are still in use. */
    uint64_t fingerprint;
    uint64_t start_ns;                           /* CLOCK_MONOTONIC when that call began */
    uint32_t thread;                             /* gettid() of the thread that called */
    uint32_t pipelines;                          /* that create_ns covers, where it is not 1 */
    uint32_t stages;                             /* VkShaderStageFlags, of a linked pipeline without its libraries' */
    uint8_t outcome;                             /* PylayerOutcome, of PYLAYER_UNIT_NONE */
    char entry_point[PYLAYER_ENTRY_POINT_BYTES]; /* of the last of its stages: UTF-8, cut at the array's end */
} PylayerCell;

/* What vkGetPipelineBinaryDataKHR gave to the application, all of it. */
typedef struct PylayerBinaryRead {
    uint32_t key_size; /* VkPipelineBinaryKeyKHR */
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of the data */
    uint64_t size;                        /* bytes of the data */
    /* Owned by the message. NULL where it is larger than keep_cache_bytes and where the queue had no room for it. */
    const uint8_t *data;
} PylayerBinaryRead;

/*
 * Answer to PROPERTIES: VkPhysicalDevicePipelineBinaryPropertiesKHR as the application shall see it. All zero: as the
 * driver says.
 */
typedef struct PylayerProperties {
    uint8_t answered;                   /* 1: the rest is policy's word */
    uint8_t internal_cache;             /* VK_TRUE also where the driver says VK_FALSE: the layer answers */
    uint8_t internal_cache_control;     /* likewise: the layer obeys disableInternalCache */
    uint8_t prefers_internal_cache;     /* the value to report */
    uint8_t precompiled_internal_cache; /* the value to report */
} PylayerProperties;

/* A binary that the program read in an earlier run, for load_attested. */
typedef struct PylayerAttested {
    uint32_t key_size; /* VkPipelineBinaryKeyKHR */
    uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of its data */
    uint8_t stale;                        /* read under another identity: useless here, and data is NULL */
    uint64_t size;                        /* bytes of its data */
    const uint8_t *data;                  /* to restore it from; NULL where only its digest is known */
} PylayerAttested;

typedef struct PylayerMessage {
    int32_t type;     /* PylayerMessageType */
    uint64_t device;  /* serial number of the device in this process, from 1; 0: none */
    uint64_t time_ns; /* CLOCK_MONOTONIC when it was sent */
    union {
        PylayerInstanceInfo instance;
        PylayerDeviceInfo info;
        PylayerDeviceCreated created;
        PylayerCacheInfo cache;
        PylayerCacheRead read;
        PylayerCell cell;
        PylayerBinaryRead binary;
    };
    uint8_t skip;     /* PylayerSkip, of PLAN_DEVICE and PROPERTIES */
    PylayerPlan plan; /* PLAN_DEVICE: the answer, zeroed when sent */
    /* PLAN_DEVICE: the name of the file in which a plan may be kept, digests of what a plan can depend on; empty: none.
     * The general one is for a plan that does not depend on the program. kept: one was found, the device has it already
     * and nobody waits. */
    uint8_t kept;
    char plan_name[PYLAYER_PLAN_NAME_BYTES];
    char general_plan_name[PYLAYER_PLAN_NAME_BYTES];
    /* PLAN_DEVICE, PROPERTIES: layer_settings.h has its form; NULL: none. Owned by the message. */
    const char *layer_settings;
    int32_t verdict;              /* ADMIT_CACHE: the answer, zeroed when sent */
    PylayerProperties properties; /* PROPERTIES: the answer, zeroed when sent */
} PylayerMessage;

/*
 * The crash sentinel: what stored or application data is in the driver's hands just now. One file for each device that
 * runs, made by policy, mapped by the layer; who finds it after its process died knows what that process died of.
 * Marks begin at PYLAYER_MARKS_OFFSET; policy reads them with Python's struct, so the layout is fixed.
 */
#define PYLAYER_MARKS_OFFSET 256 /* a file header of the store comes first: docs/format.md */
#define PYLAYER_MARK_IDS 14
#define PYLAYER_MARK_COUNT 62
#define PYLAYER_LIVE_BYTES 8192

enum PylayerMarkedCall {
    PYLAYER_MARK_NONE = 0,
    PYLAYER_MARK_TAKEN = 1,       /* about to be filled in: says nothing */
    PYLAYER_MARK_RECORDS = 2,     /* vkCreatePipelineCache and vkMergePipelineCaches with stored records */
    PYLAYER_MARK_APPLICATION = 3, /* vkCreatePipelineCache with the application's data */
    PYLAYER_MARK_MERGE = 4,       /* vkMergePipelineCaches by the application, with caches that began with such data */
    PYLAYER_MARK_PIPELINES = 5,   /* vkCreate*Pipelines with a cache, or binaries, that stored data is in */
    PYLAYER_MARK_COMPILE = 6,     /* the same, where the driver may compile, and so take seconds */
};

/* ids: RECORDS, the first eight bytes of the records' digests; APPLICATION and MERGE, those of the data's digests;
 * PIPELINES and COMPILE, fingerprints. */
typedef struct PylayerMark {
    uint32_t call;     /* PylayerMarkedCall, written last and cleared first */
    uint16_t kind;     /* PIPELINES, COMPILE: PylayerPipelineKind of the first one */
    uint16_t id_count; /* at most PYLAYER_MARK_IDS; of a longer call, more marks follow or its rest is not marked */
    uint64_t cache;    /* PIPELINES, COMPILE: as of APPLICATION, of the cache that the application passed; 0: none */
    uint64_t ids[PYLAYER_MARK_IDS];
} PylayerMark;

/* Totals of one device since its creation. Times are nanoseconds of wall clock, summed over threads. */
typedef struct PylayerCounters {
    uint64_t pipelines;        /* created for the application, all ways */
    uint64_t hits;             /* answered by a VkPipelineCache, the layer's or the application's, or by binaries */
    uint64_t application_hits; /* of those, by the application's own cache */
    uint64_t compiled;         /* compiled into a cell that is kept */
    uint64_t adopted;          /* answered by the driver's own cache, then kept as a cell */
    uint64_t uncacheable;      /* created anew, and the driver put nothing into the cell */
    uint64_t plain;            /* created without a probe: snapshot carrier and plain kinds */
    uint64_t plain_compiled;   /* of those, not found in a cache by creation feedback, or the driver did not tell */
    uint64_t passed;           /* calls' pipelines that the layer did not touch */
    uint64_t compile_required; /* the application asked not to compile, and nothing was found */
    uint64_t failed;           /* the driver returned an error */
    uint64_t caches_emptied;   /* application caches whose initial data was refused */
    uint64_t absorbed;         /* snapshot carrier: application caches merged into the layer's */
    uint64_t events_dropped;   /* cells lost because the queue was full or policy had ended */
    uint64_t answers_late;     /* requests that went on without an answer */
    uint64_t hit_ns;           /* as creation feedback tells */
    uint64_t compile_ns;
    uint64_t plain_ns;
    uint64_t load_wait_ns;         /* pipeline creations that waited for the store */
    uint64_t load_failed;          /* records that the driver refused as initial data */
    uint64_t fingerprints_dropped; /* creations whose fingerprint found no room */
    uint64_t binary_hits;          /* of hits, created from binaries */
    uint64_t binaries_kept;        /* pipelines whose binaries were read and sent to policy: compiled or adopted */
    uint64_t binaries_captured;    /* of those, compiled with CAPTURE_DATA */
    uint64_t binaries_missing;     /* compiled pipelines whose binaries the driver did not give */
    uint64_t binaries_evicted;     /* with which the driver failed to create a pipeline; created as asked instead */
    uint64_t binaries_unindexed;   /* for which index_bytes left no room */
    uint64_t application_binaries; /* that the application gave to vkCreatePipelineBinariesKHR as data */
    uint64_t binaries_attested;    /* of those, as it read them in an earlier run; the rest is unknown */
    uint64_t binaries_altered;     /* of those, known by their key, with other data */
    uint64_t binaries_stale;       /* of those, read under another identity */
    uint64_t binaries_restored;    /* of the altered, replaced by the stored bytes */
    uint64_t binaries_refused;     /* answered with VK_ERROR_INITIALIZATION_FAILED by the layer */
    uint64_t create_info_hits;     /* vkCreatePipelineBinariesKHR with a create info, answered by the layer's index */
    uint64_t deferred;             /* of pipelines, created in deferred operations */
} PylayerCounters;

/* What is not a total: of one device, and of the process's queue. */
typedef struct PylayerActivity {
    uint64_t kind_hits[PYLAYER_KIND_COUNT]; /* PylayerCounters::hits by PylayerPipelineKind */
    uint64_t untold;                        /* creations that policy was not told of: the queue was full */
    uint64_t queued;                        /* messages in the queue */
    uint64_t queued_bytes;                  /* their bytes */
    uint64_t queued_bytes_most;             /* most there ever were */
} PylayerActivity;

/*
 * Commands. Called by the policy thread only, without the GIL (cffi releases it). They return
 * 0 or a count on success, -1 where the device is gone or the call failed; a device that is being
 * destroyed waits for the command in progress.
 */
typedef struct PylayerShim {
    uint32_t boundary_version;

    /* Next message, or NULL after timeout_ns (negative: no limit). Cells linger up to 20 ms so that
     * they are taken in batches; any other message ends the wait at once. */
    PylayerMessage *(*next)(int64_t timeout_ns);
    /* Wakes the sender of a request. Returns 0, or -1 when the sender no longer waits. */
    int32_t (*answer)(PylayerMessage *message);
    /* Ends the ownership of a message; unanswered requests are answered with what they hold. */
    void (*release)(PylayerMessage *message);

    /* Publishes count records, base+offsets[i] with sizes[i] bytes each and PYLAYER_DIGEST_BYTES of digests, to become
     * caches and be merged into the device's. Returns once the records published before are finished; the memory of these ones is used
     * until the next load_records or load_done of the device returns. */
    int64_t (*load_records)(uint64_t device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                            const uint8_t *digests, uint64_t count);
    /* Finishes what was published; pipeline creations stop waiting. How many records the driver took in all, of
     * this load: records may be published again afterwards, for another load that nobody waits for and that ends
     * with load_done too. */
    int64_t (*load_done)(uint64_t device);
    /* Copies count binaries records, laid out like those of load_records, into the device's index before it returns;
     * before the load's load_done. What is no binaries record is left out. How many found room. */
    int64_t (*load_binaries)(uint64_t device, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             uint64_t count);
    /* Copies what is known of the application's binaries; before the load's load_done. How many it took. */
    int64_t (*load_attested)(uint64_t device, const PylayerAttested *attested, uint64_t count);
    /* One more load is expected, as the first one is when the device is created: pipeline creations that miss wait
     * until each has had its load_done, or load_cancel where it does not come. */
    int32_t (*load_begin)(uint64_t device);
    int32_t (*load_cancel)(uint64_t device);
    /* Policy has data for the application's n-th cache where bit n of slots is set (n < 64): where that is created
     * empty, or the driver fails on its data, the layer itself expects one more load. Before this is called, for each. */
    int32_t (*restorable)(uint64_t device, uint64_t slots);
    /* Maps the crash sentinel, PYLAYER_LIVE_BYTES of an open file; the descriptor stays the caller's. Before any load.
     * -2: a page of this file system may be gone when it is written to again. */
    int32_t (*watch)(uint64_t device, int32_t fd);
    /* Pipelines with these fingerprints, in ascending order, and those of the kinds in the bit mask whose fingerprint is
     * unknown, are created without anything stored. Once, before the first load_records. */
    int32_t (*suspect)(uint64_t device, const uint64_t *fingerprints, uint64_t count, uint32_t kinds);
    /* Never probe this kind again on this device. */
    int32_t (*make_plain)(uint64_t device, int32_t kind);
    /* Creation feedback does not tell of this kind whether the driver's own cache answered: adopt no more. */
    int32_t (*stop_adopting)(uint64_t device, int32_t kind);
    /* From now on the device creates everything as if the layer were not there. */
    int32_t (*switch_off)(uint64_t device);
    /* vkGetPipelineCacheData of the device's merged cache: bytes written, or needed when data is NULL. */
    int64_t (*read_merged)(uint64_t device, uint8_t *data, uint64_t size);
    int32_t (*counters)(uint64_t device, PylayerCounters *out);
    int32_t (*activity)(uint64_t device, PylayerActivity *out);
    /* Writes at most capacity of the distinct fingerprints of pipelines that the device created, in no order. How
     * many there are in all. */
    int64_t (*fingerprints)(uint64_t device, uint64_t *out, uint64_t capacity);
    /* What program this is, as rules name it (program_name.h). NULL: no memory. Valid for ever. */
    const char *(*executable)(void);
    /* secure_getenv in the program's own scope: where RTLD_DEEPBIND is used, the interpreter's libc may see
     * another environ than the program's. NULL: not set. Valid until the program changes its environment. */
    const char *(*environment)(const char *name);
    /* Whether a line of this level would be written. */
    int32_t (*log_wanted)(int32_t level);
    void (*log)(int32_t level, const char *text);
    /* 0 once next() will never give a message again. */
    int32_t (*is_open)(void);
} PylayerShim;

#endif
