/*
 * boundary.h - everything that passes between the layer (C) and policy (Python).
 *
 * The C compiler and cffi's cdef both read this header. cffi reads the part below the line "cdef begins here", so that
 * part holds plain declarations only.
 *
 * Messages. The layer owns a mailbox. Application threads put messages in, and one policy thread takes them out. The
 * sender of a *request* waits for the answer until a deadline. Nobody waits for an *event*. In the other direction the
 * policy thread calls *commands*, the functions of PylayerShim.
 *
 * Ownership. A message belongs to the policy thread from next() until release(). Every pointer in it is valid for
 * exactly that long. Nothing in a message points to the application's memory: a sender that gives up waiting returns
 * to the application, which then frees what it passed in. A command reads the memory that Python passes to it before
 * it returns.
 *
 * Zero means 'do nothing'. If the answer to a request is late, missing or zero, the call goes to the driver exactly as
 * the application made it. No value here is a VkResult that reaches the application.
 */
#ifndef PYLAYER_BOUNDARY_H
#define PYLAYER_BOUNDARY_H

#include <stdint.h>

/* ---- cdef begins here ---- */

/* What Python knows, too, and each with its meaning: PylayerCounters of pylayer/report/counters.py, PylayerMarkedCall of
 * pylayer/store/crash_marker.py, and PylayerMode, PylayerPlan, PylayerPipelineKind, PylayerUnit, PylayerCellFlags,
 * PylayerOutcome, PylayerUnrecorded, PylayerVerdict and PylayerLogLevel of pylayer/values.py. PylayerPlan is the answer to
 * PLAN_DEVICE. All zero, the device runs as if the layer were not there. Each library refuses a partner with another
 * PYLAYER_BOUNDARY_VERSION, a digest of all that is declared here. */
#include "../build/boundary_tables.h"

#define PYLAYER_NAME_BYTES 256        /* VK_MAX_PHYSICAL_DEVICE_NAME_SIZE, VK_MAX_DRIVER_NAME_SIZE */
#define PYLAYER_UUID_BYTES 16         /* VK_UUID_SIZE */
#define PYLAYER_CACHE_HEADER_BYTES 32 /* sizeof(VkPipelineCacheHeaderVersionOne) */
#define PYLAYER_REASON_BYTES 128
#define PYLAYER_ABOUT_BYTES 4096
#define PYLAYER_ENTRY_POINT_BYTES 32
#define PYLAYER_OBJECT_NAME_BYTES 64
#define PYLAYER_CELL_OTHERS 7         /* further pipelines of a cell that are named */
#define PYLAYER_SHADERS 8             /* as many stages as a graphics pipeline can have, and more */
#define PYLAYER_DIGEST_BYTES 16       /* XXH3-128, canonical: most significant byte first */
#define PYLAYER_BINARY_KEY_BYTES 32   /* VK_MAX_PIPELINE_BINARY_KEY_SIZE_KHR */
#define PYLAYER_FILE_HEADER_BYTES 256 /* docs/internals/format.md */
#define PYLAYER_STORE_NAME_BYTES 80
#define PYLAYER_RUN_NAME_BYTES 51 /* a program's number, a hyphen, files.unique_name of Python */
/* docs/internals/format.md: 40 bytes, plus 4 for each of 1088 pieces, which cover 1 GiB of data. */
#define PYLAYER_SKETCH_BYTES 4392

enum PylayerMessageType {
    PYLAYER_MSG_PLAN_DEVICE = 1,    /* request: device -> plan */
    PYLAYER_MSG_DEVICE_CREATED = 2, /* request: created; policy calls open_store. An event if it need not */
    PYLAYER_MSG_ADMIT_CACHE = 3,    /* request: cache -> verdict; an event if the plan sets report_caches */
    PYLAYER_MSG_CACHE_USED = 4,     /* request: cache; the program read the data. Event: the driver failed on it */
    PYLAYER_MSG_CELL = 5,           /* event: cell */
    PYLAYER_MSG_STATE = 6,          /* event: state */
    PYLAYER_MSG_ADMIT_BINARY = 7,   /* request: cache, of a binary's data -> verdict: empty if another driver gave it */
    PYLAYER_MSG_STORE_DAMAGED = 8,  /* event: file; the layer could not use all of it */
    /* request: vkDestroyDevice waits, or exit(), without a device. Event: vkCreateDevice failed after its plan */
    PYLAYER_MSG_FLUSH = 9,
};

/* Whether a rule skips this process. The layer decides that where it can (shim/layer/instance/skip.c). If not, there is
 * a policy file but no usable copy of it, and policy decides, after it has written one. */
enum PylayerSkip {
    PYLAYER_SKIP_NO = 0,
    PYLAYER_SKIP_YES = 1,
    PYLAYER_SKIP_ASK = 2,          /* no built-in rule skips it, but a rule of the policy file may */
    PYLAYER_SKIP_ASK_BUILT_IN = 3, /* a built-in rule skips it, unless the policy file says otherwise */
};

/* What one vkCreateInstance says about the program. Strings are the program's bytes, cut at the array's end. */
typedef struct PylayerInstanceInfo {
    uint64_t program_id;  /* the program's number in the store (program_name.h) */
    uint32_t api_version; /* VkApplicationInfo::apiVersion, VK_API_VERSION_1_0 where absent */
    uint32_t application_version;
    uint32_t engine_version;
    char application_name[PYLAYER_NAME_BYTES];
    char engine_name[PYLAYER_NAME_BYTES];
} PylayerInstanceInfo;

/* The physical device of a vkCreateDevice, and what can be enabled on it. */
typedef struct PylayerDeviceInfo {
    PylayerInstanceInfo instance;
    uint32_t api_version; /* VkPhysicalDeviceProperties::apiVersion */
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_version;
    uint32_t driver_id; /* VkDriverId; 0 if the driver does not report it (Vulkan 1.0) */
    uint8_t pipeline_cache_uuid[PYLAYER_UUID_BYTES];
    char device_name[PYLAYER_NAME_BYTES];
    char driver_name[PYLAYER_NAME_BYTES];
    char driver_info[PYLAYER_NAME_BYTES];
    uint8_t cache_control_supported; /* pipelineCreationCacheControl */
    uint8_t cache_control_requested; /* the application enables it itself */
    uint8_t feedback_supported;      /* VK_EXT_pipeline_creation_feedback or Vulkan 1.3 */
    uint8_t binaries_supported;      /* pipelineBinaries can be enabled, with the maintenance5 that it requires */
    uint8_t binaries_requested;      /* the application enables it itself */
    /* VkPhysicalDevicePipelineBinaryPropertiesKHR as the driver reports it; 0 without VK_KHR_pipeline_binary. */
    uint8_t internal_cache;         /* pipelineBinaryInternalCache */
    uint8_t internal_cache_control; /* pipelineBinaryInternalCacheControl */
    /* VkDevicePipelineBinaryInternalCacheControlKHR::disableInternalCache: the application wants no cache but those
     * that it holds itself. That excludes the layer's caches too. */
    uint8_t internal_cache_disabled;
} PylayerDeviceInfo;

typedef struct PylayerDeviceCreated {
    uint8_t mode;          /* PylayerMode in force */
    uint8_t cache_control; /* enabled, by the application or by the layer */
    uint8_t feedback;      /* VkPipelineCreationFeedback can be asked for */
    uint8_t reads_store;   /* the layer has read the device's folder, obeys a decision and watches for crashes */
    uint8_t records_state; /* STATE messages follow */
    uint8_t used_recently; /* with reads_store: a run said within a day what it used */
    uint64_t stored_cells; /* with reads_store: how many there are */
    uint8_t off_by;        /* the type of the block by which the layer is off; 0: it is on */
    char run_name[PYLAYER_RUN_NAME_BYTES]; /* the run that the layer has begun to record; empty: none */
} PylayerDeviceCreated;

/* Data that the program gave to vkCreatePipelineCache, or got from vkGetPipelineCacheData. */
typedef struct PylayerCacheInfo {
    uint32_t slot;      /* n-th vkCreatePipelineCache of the device, from 0 */
    int32_t result;     /* CACHE_USED: the VkResult with which the driver failed on the data; 0: the program read it */
    uint64_t data_size; /* bytes of the data */
    uint8_t data_is_null; /* pInitialData was NULL */
    uint32_t header_size; /* of what was given, the bytes copied to header[]; less than its size if data_size is */
    uint8_t header[PYLAYER_CACHE_HEADER_BYTES];
    uint8_t digest[PYLAYER_DIGEST_BYTES]; /* of all data; zero if there is none */
} PylayerCacheInfo;

/* A faster creation was a hit somewhere (docs/internals/performance.md: 8 to 70 us), or too short to be noticed alone.
 * */
#define PYLAYER_TOLD_NS 100000
/* A hit that takes longer is reported. */
#define PYLAYER_SLOW_NS 1000000

/* A stage of a pipeline. */
typedef struct PylayerShader {
    uint64_t code;  /* a hash of the SPIR-V, or of its identifier if the program uses identifiers; 0: unknown */
    uint32_t stage; /* VkShaderStageFlagBits; 0: there is no such stage */
    char name[PYLAYER_OBJECT_NAME_BYTES]; /* of vkSetDebugUtilsObjectNameEXT: UTF-8, cut at the array's end */
} PylayerShader;

/* What the creation of one pipeline added to a fresh VkPipelineCache, or the pipeline's binaries. */
typedef struct PylayerCell {
    uint8_t unit;       /* PylayerUnit */
    uint8_t kind;       /* PylayerPipelineKind */
    uint8_t flags;      /* PylayerCellFlags */
    uint64_t create_ns; /* duration of the vkCreate*Pipelines call that compiled it */
    /* A hash of what the pipeline's create info says, the same in every process. 0: unknown. It is approximate: it
     * tells which stored records are still in use and never decides what is correct. */
    uint64_t fingerprint;
    /* Of the other pipelines in the cell; all 0: there are none, there are more, or one of them has none. */
    uint64_t others[PYLAYER_CELL_OTHERS];
    uint64_t start_ns;  /* CLOCK_MONOTONIC when that call began */
    uint32_t thread;    /* gettid() of the thread that called */
    uint32_t pipelines; /* number that create_ns covers, if it is not 1 */
    uint32_t stages;    /* VkShaderStageFlags; of a linked pipeline, without its libraries' stages */
    uint8_t
        outcome; /* PylayerOutcome. If it is not KEPT, there is no data: the message reports it, and how long it took */
    char entry_point[PYLAYER_ENTRY_POINT_BYTES]; /* of the last stage: UTF-8, cut at the array's end */
    PylayerShader shaders[PYLAYER_SHADERS];      /* the first stages */
} PylayerCell;

/* An object (format.md, 'Recordings'): what the program passed to create something. It comes after those that it
 * refers to. */
typedef struct PylayerState {
    uint8_t kind;       /* StateKind (shim/layer/state/object.h) */
    uint8_t unrecorded; /* PylayerUnrecorded, of a pipeline; there is no data then */
    uint32_t structure; /* VkStructureType */
    /* Of a pipeline that the program created, as PylayerCell has it. Of a shader module: the digest of its identifier. 0:
     * neither. */
    uint64_t fingerprint;
    uint64_t wait_ns; /* how long its creation took */
} PylayerState;

typedef struct PylayerMessage {
    int32_t type;     /* PylayerMessageType */
    uint64_t device;  /* serial number of the device in this process, from 1; 0: none */
    uint64_t time_ns; /* CLOCK_MONOTONIC when it was sent */
    union {
        PylayerDeviceInfo info;
        PylayerDeviceCreated created;
        PylayerCacheInfo cache;
        PylayerCell cell;
        PylayerState state;
        char file[PYLAYER_STORE_NAME_BYTES];
    };
    const uint8_t
        *data;     /* CELL: see PylayerUnit. STATE: the object. ADMIT_CACHE: the data's sketch. Owned by the message */
    uint64_t size; /* its bytes */
    uint8_t skip;  /* PylayerSkip, for PLAN_DEVICE */
    PylayerPlan plan; /* PLAN_DEVICE: the answer, zeroed when sent */
    /* PLAN_DEVICE: answer, not kept with the plan: with record_state, this run records. */
    uint8_t record_now;
    /* PLAN_DEVICE: the device uses the plan of a stored decision already, so nobody waits for an answer. */
    uint8_t kept;
    uint8_t decision_key[PYLAYER_DIGEST_BYTES]; /* PLAN_DEVICE: of the decision to keep; zero: keep none */
    int32_t verdict;                            /* ADMIT_CACHE, ADMIT_BINARY: the answer, zeroed when sent */
} PylayerMessage;

/*
 * The crash marker: which stored or application data the driver is working on now, and which call that the layer added
 * to what the application asked for it is in. The layer makes and maps one file for each device in use. Whoever finds
 * the file after its process died knows what that process died of. Policy reads marks with Python's struct, so do not
 * change the layout alone. LiveFile (shim/layer/store/store.h) is the whole file.
 */
#define PYLAYER_MARK_IDS 13
#define PYLAYER_MARK_COUNT 62

/* ids: for RECORDS the first eight bytes of the records' digests, for APPLICATION and MERGE those of the data's
 * digests, for all others fingerprints. */
typedef struct PylayerMark {
    uint32_t call;     /* PylayerMarkedCall, written last and cleared first */
    uint16_t kind;     /* PylayerPipelineKind of the first pipeline; 0 in calls that have no kind */
    uint16_t id_count; /* at most PYLAYER_MARK_IDS; a longer call takes more marks, or its rest is not marked */
    uint64_t cache;    /* PIPELINES, COMPILE: the APPLICATION id of the cache that the application passed; 0: none */
    uint64_t ids[PYLAYER_MARK_IDS];
    uint64_t used; /* pipelines that the driver created with stored data, in earlier calls with this mark */
} PylayerMark;

/* As many pipelines, records and cache data can be blocked: block_list.MAX_ENTRIES. */
#define PYLAYER_BLOCKED 1024

/*
 * All that is decided about a program on a device. Policy compiles it (pylayer/store/decisions.py) and keeps it for the
 * next process that asks the same. The layer obeys it without the interpreter, while it is valid.
 */
typedef struct PylayerDecision {
    uint8_t key[PYLAYER_DIGEST_BYTES]; /* PylayerMessage::decision_key */
    PylayerPlan plan;
    uint8_t reads_all;      /* files of all programs, not only of this one */
    uint8_t marker_outside; /* the crash marker's file goes to the runtime directory, because the store is read-only */
    uint8_t off_by;         /* type of the block by which the layer is off (store/block_list.py); 0: it is on */
    uint8_t undecided;      /* policy reads the counters when the device ends, because it may decide something else */
    uint8_t calls_off[PYLAYER_ADDED_CALLS]; /* bit masks of PylayerPipelineKind, by PylayerMarkedCall */
    /* Of the crash marker's file. The layer fills in the process, and program and time if they are 0. */
    uint8_t header[PYLAYER_FILE_HEADER_BYTES];
    char reason[PYLAYER_REASON_BYTES]; /* why the device has this mode; empty: there is no decision */
    char about[PYLAYER_ABOUT_BYTES];   /* lines of the run's file: program, device and reason */
    uint64_t valid_from_s, valid_s;    /* seconds since 1970, and for how many it is valid */
    uint64_t block_files;              /* from which files it was compiled: the sum of the XXH3-64 of their names */
    uint64_t blocked_count;
    /* Fingerprints of pipelines, or 1 + PylayerPipelineKind for those without, and the first eight bytes of the digests
     * of records and of the program's cache data, ascending. The driver gets none of this data, and nothing stored for
     * these pipelines. */
    uint64_t blocked[PYLAYER_BLOCKED];
} PylayerDecision;

/* A frame that the program presented. */
typedef struct PylayerFrame {
    uint64_t time_ns;   /* CLOCK_MONOTONIC when vkQueuePresentKHR was called */
    uint32_t number;    /* of its swapchain, from 1; its lowest 32 bits */
    uint32_t thread;    /* gettid() of the thread that called */
    uint32_t swapchain; /* in order of their first presents, from 1; one that replaces another has its number */
} PylayerFrame;

/*
 * Commands. Only the policy thread calls them, without the GIL (cffi releases it). They return 0 or a count on
 * success, and -1 if the device is gone or the call failed. vkDestroyDevice waits for the command in progress on its
 * device.
 */
typedef struct PylayerShim {
    uint32_t boundary_version;

    /* Returns the next message, or NULL after timeout_ns (negative: there is no limit), or if none will come any more.
     * Cells wait up to 20 ms so that policy takes them in batches; any other message ends that wait at once. */
    PylayerMessage *(*next)(int64_t timeout_ns);
    /* Wakes the sender of a request. Returns -1 if the sender no longer waits. */
    int32_t (*answer)(PylayerMessage *message);
    /* Ends the ownership of a message. An unanswered request is answered with what its message holds. */
    void (*release)(PylayerMessage *message);

    /* Reads the device's folder, obeys the decision, and makes the crash marker. Call it while the program waits in
     * DEVICE_CREATED, or later for a device that keeps nothing. Fills in what is in force then. */
    int32_t (*open_store)(uint64_t device, const PylayerDecision *decision, PylayerDeviceCreated *out);
    /* From now on the device creates everything as if the layer were not there. */
    int32_t (*switch_off)(uint64_t device);
    int32_t (*counters)(uint64_t device, PylayerCounters *out);
    /* Writes at most capacity frames that were presented since the last call. Returns how many, and adds to *lost those
     * for which the ring had no room. */
    int64_t (*frames)(uint64_t device, PylayerFrame *out, uint64_t capacity, uint64_t *lost);
    /* Writes at most capacity distinct fingerprints of pipelines that the device created, in no order. Returns how
     * many there are in all. */
    int64_t (*fingerprints)(uint64_t device, uint64_t *out, uint64_t capacity);
    /* As cells_join (shim/layer/caches/caches.h). */
    int64_t (*join_cells)(uint64_t device, const uint8_t *cells, const uint64_t *sizes, uint32_t cell_count,
                          uint8_t *out, uint64_t capacity);
    /* As executable_name (program_name.h). */
    const char *(*executable)(void);
    /* Returns false if a line of this level would not be written. */
    _Bool (*log_wanted)(enum PylayerLogLevel level);
    void (*log)(int32_t level, const char *text);
    /* Returns false once next() will never return a message again. */
    _Bool (*is_open)(void);
} PylayerShim;

#endif
