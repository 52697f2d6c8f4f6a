/*
 * recipes.h - what a recipe works on: one device and numbered slots of objects.
 *
 * A recipe is valid whatever its lines are: a line that Vulkan's valid usage forbids, that asks for what the device
 * lacks, or that needs an object which an earlier line did not give, is skipped and says so. Any lines can so be taken
 * out.
 */
#ifndef RECIPES_H
#define RECIPES_H

#include <stdio.h>

#include "newer.h"
#include "words.h"

enum {
    SLOTS = 10,
    MAX_BATCH = SLOTS,
    MAX_STAGES = 5,
    MAX_GROUPS = 5, /* of one create info */
    HANDLE_BYTES = 64,
    MAX_BINARIES = 8,
    LIBRARY_PARTS = 4,
    PRIVATE_SLOTS = 2,
    CANVAS_SIDE = 64, /* pixels */
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define COLOR_FORMAT VK_FORMAT_R8G8B8A8_UNORM

typedef enum { POINT_COMPUTE, POINT_GRAPHICS, POINT_RAYS } Point;

/* Of a device: device.c has the words for them, and what each needs. */
typedef enum {
    CONTROL_FEATURE,
    RENDERING,
    SUBGROUPS,
    PRIVATE_DATA,
    MULTIVIEW,
    VIEW_GEOMETRY,
    VIEW_TESSELLATION,
    LIBRARIES,
    ROBUSTNESS,
    ROBUSTNESS_2,
    EXECUTABLES,
    MESH_SHADERS,
    IDENTIFIERS,
    MAINTENANCE_5,
    SHADER_OBJECTS,
    LOCAL_READ,
    DESCRIPTOR_HEAP,
    INT64,
    TESSELLATION,
    GEOMETRY_SHADERS,
    VERTEX_STORES,
    FRAGMENT_STORES,
    NOT_IN_ALL, /* the word `all` does not ask for those that follow */
    BINARIES = NOT_IN_ALL,
    INCREMENTAL,
    MAINTENANCE_8,
    RAYS,
    FEATURE_COUNT
} Feature;

/* Number, name, stage, and bits of the features that each needs. */
#define NEEDS(feature) (1u << (feature))
#define SHADERS(SHADER)                                                                                                \
    SHADER(COMP0, comp0, COMPUTE_BIT, 0)                                                                               \
    SHADER(COMP1, comp1, COMPUTE_BIT, 0)                                                                               \
    SHADER(VERT0, vert0, VERTEX_BIT, 0)                                                                                \
    SHADER(VERT1, vert1, VERTEX_BIT, 0)                                                                                \
    SHADER(FRAG0, frag0, FRAGMENT_BIT, 0)                                                                              \
    SHADER(FRAG1, frag1, FRAGMENT_BIT, 0)                                                                              \
    SHADER(RGEN0, rgen0, RAYGEN_BIT_KHR, NEEDS(RAYS))                                                                  \
    SHADER(MISS0, miss0, MISS_BIT_KHR, NEEDS(RAYS))                                                                    \
    SHADER(HIT0, hit0, CLOSEST_HIT_BIT_KHR, NEEDS(RAYS))                                                               \
    SHADER(KERNEL, kernel, COMPUTE_BIT, 0)                                                                             \
    SHADER(WIDE, wide, COMPUTE_BIT, NEEDS(INT64))                                                                      \
    SHADER(SCENE_VERTEX, scene_vert, VERTEX_BIT, 0)                                                                    \
    SHADER(SCENE_FRAGMENT, scene_frag, FRAGMENT_BIT, 0)                                                                \
    SHADER(TASK, task, TASK_BIT_EXT, NEEDS(MESH_SHADERS))                                                              \
    SHADER(MESH, mesh, MESH_BIT_EXT, NEEDS(MESH_SHADERS))                                                              \
    SHADER(NUMBERS, numbers, COMPUTE_BIT, 0)                                                                           \
    SHADER(VERTEX, vertex, VERTEX_BIT, 0)                                                                              \
    SHADER(VERTEX_VIEWS, vertex_views, VERTEX_BIT, NEEDS(MULTIVIEW))                                                   \
    SHADER(VERTEX_WRITES, vertex_writes, VERTEX_BIT, NEEDS(VERTEX_STORES))                                             \
    SHADER(VERTEX_VIEWS_WRITES, vertex_views_writes, VERTEX_BIT, NEEDS(MULTIVIEW) | NEEDS(VERTEX_STORES))              \
    SHADER(CONTROL, control, TESSELLATION_CONTROL_BIT, NEEDS(TESSELLATION))                                            \
    SHADER(EVALUATION, evaluation, TESSELLATION_EVALUATION_BIT, NEEDS(TESSELLATION))                                   \
    SHADER(EVALUATION_VIEWS, evaluation_views, TESSELLATION_EVALUATION_BIT,                                            \
           NEEDS(TESSELLATION) | NEEDS(VIEW_TESSELLATION))                                                             \
    SHADER(GEOMETRY, geometry, GEOMETRY_BIT, NEEDS(GEOMETRY_SHADERS))                                                  \
    SHADER(GEOMETRY_VIEWS, geometry_views, GEOMETRY_BIT, NEEDS(GEOMETRY_SHADERS) | NEEDS(VIEW_GEOMETRY))               \
    SHADER(COLORS, colors, FRAGMENT_BIT, 0)                                                                            \
    SHADER(COLORS_WRITES, colors_writes, FRAGMENT_BIT, NEEDS(FRAGMENT_STORES))
#define SHADER_NUMBER(number, name, bit, needs) number,
typedef enum { SHADERS(SHADER_NUMBER) SHADER_COUNT } ShaderName;

typedef struct Shader {
    const char *name;
    VkShaderStageFlagBits stage;
    const uint32_t *code;
    size_t size;
    uint32_t needs; /* bits 1 << Feature */
} Shader;

#define COMMANDS(COMMAND)                                                                                              \
    COMMAND(PFN_vkGetShaderModuleIdentifierEXT, get_identifier, vkGetShaderModuleIdentifierEXT)                        \
    COMMAND(PFN_vkGetShaderModuleCreateInfoIdentifierEXT, get_code_identifier,                                         \
            vkGetShaderModuleCreateInfoIdentifierEXT)                                                                  \
    COMMAND(PFN_vkCreateRayTracingPipelinesKHR, create_rays, vkCreateRayTracingPipelinesKHR)                           \
    COMMAND(PFN_vkCreateDeferredOperationKHR, create_deferred, vkCreateDeferredOperationKHR)                           \
    COMMAND(PFN_vkDestroyDeferredOperationKHR, destroy_deferred, vkDestroyDeferredOperationKHR)                        \
    COMMAND(PFN_vkDeferredOperationJoinKHR, join_deferred, vkDeferredOperationJoinKHR)                                 \
    COMMAND(PFN_vkGetDeferredOperationResultKHR, deferred_result, vkGetDeferredOperationResultKHR)                     \
    COMMAND(PFN_vkGetRayTracingShaderGroupHandlesKHR, get_handles, vkGetRayTracingShaderGroupHandlesKHR)               \
    COMMAND(PFN_vkGetRayTracingCaptureReplayShaderGroupHandlesKHR, get_replay_handles,                                 \
            vkGetRayTracingCaptureReplayShaderGroupHandlesKHR)                                                         \
    COMMAND(PFN_vkGetRayTracingShaderGroupStackSizeKHR, get_stack_size, vkGetRayTracingShaderGroupStackSizeKHR)        \
    COMMAND(PFN_vkCreatePipelineBinariesKHR, create_binaries, vkCreatePipelineBinariesKHR)                             \
    COMMAND(PFN_vkDestroyPipelineBinaryKHR, destroy_binary, vkDestroyPipelineBinaryKHR)                                \
    COMMAND(PFN_vkGetPipelineKeyKHR, get_key, vkGetPipelineKeyKHR)                                                     \
    COMMAND(PFN_vkGetPipelineBinaryDataKHR, get_binary_data, vkGetPipelineBinaryDataKHR)                               \
    COMMAND(PFN_vkReleaseCapturedPipelineDataKHR, release_captured, vkReleaseCapturedPipelineDataKHR)                  \
    COMMAND(PFN_vkGetPipelineExecutablePropertiesKHR, get_executables, vkGetPipelineExecutablePropertiesKHR)           \
    COMMAND(PFN_vkGetPipelineExecutableStatisticsKHR, get_statistics, vkGetPipelineExecutableStatisticsKHR)            \
    COMMAND(PFN_vkGetPipelineExecutableInternalRepresentationsKHR, get_representations,                                \
            vkGetPipelineExecutableInternalRepresentationsKHR)                                                         \
    COMMAND(CreateShaders, create_shaders, vkCreateShadersEXT)                                                         \
    COMMAND(DestroyShader, destroy_shader, vkDestroyShaderEXT)                                                         \
    COMMAND(GetShaderBinaryData, get_shader_binary, vkGetShaderBinaryDataEXT)
#define COMMAND_MEMBER(type, member, name) type member;
typedef struct Commands {
    COMMANDS(COMMAND_MEMBER)
} Commands;

/* The words that a pipeline was made of, to make its create info again. */
typedef struct Wording {
    bool filled;
    Point point;
    char text[MAX_LINE];
    uint64_t linked[LIBRARY_PARTS]; /* PipelineSlot::serial of each library */
} Wording;

/* What has to be known of a pipeline to tell what it may be used for. */
typedef struct PipelineTraits {
    bool library, retains, identified, derivable, captured, fast_linked, statistics, representations;
    uint32_t parts;    /* graphics: bits of VkGraphicsPipelineLibraryFlagBitsEXT; rays: bits 1 << ShaderName */
    ShaderName vertex; /* graphics libraries */
    uint32_t groups, hit_groups; /* rays: how many, with those of libraries; bits 1 << number */
    bool dynamic_rendering, two_views, static_area, any_topology;
} PipelineTraits;

typedef struct PipelineSlot {
    VkPipeline handle;
    uint64_t serial;
    Wording wording;
    PipelineTraits traits;
    bool released;
} PipelineSlot;

typedef struct DataSlot {
    uint8_t *bytes;
    size_t size;
} DataSlot;

typedef struct BinarySlot {
    VkPipelineBinaryKHR handles[MAX_BINARIES];
    uint32_t count;
    bool complete; /* all that the pipeline has */
    Wording wording;
} BinarySlot;

typedef struct BinaryDataSlot {
    VkPipelineBinaryKeyKHR keys[MAX_BINARIES];
    VkPipelineBinaryDataKHR data[MAX_BINARIES];
    uint32_t count;
    Wording wording;
} BinaryDataSlot;

typedef struct Identifier {
    uint32_t size;
    uint8_t bytes[VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT];
} Identifier;

typedef enum { PASS_PLAIN, PASS_SUBPASSES, PASS_UNUSED, PASS_VIEWS, PASS_COUNT } Pass;

/* What all recipes of a process may share. */
typedef struct Device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkDevice handle;
    const VkAllocationCallbacks *allocator; /* of everything that recipes make; NULL: none */
    bool has[FEATURE_COUNT];
    bool no_internal_cache;
    bool unasked_identifiers; /* chained although the device does not have the extension enabled */
    uint32_t group_size, least_subgroup, largest_subgroup;
    uint32_t handle_size, replay_handle_size, most_recursion; /* of ray tracing */
    Commands commands;
    VkShaderModule modules[SHADER_COUNT]; /* with the word `modules` */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkRenderPass passes[PASS_COUNT];
    VkPipelineCache cache; /* of the whole program, with --cache */
} Device;

/* What the command line adds to every pipeline. */
typedef struct Additions {
    bool feedback, statistics, flags2;
} Additions;

typedef struct State {
    Device *device;
    FILE *out;
    Additions add;
    VkResult last; /* of the last line that created pipelines */
    uint64_t next_serial;
    const struct State *shared; /* with whose caches the slots began, or NULL */
    const uint32_t *code[SHADER_COUNT];
    VkShaderModule modules[SHADER_COUNT];
    Identifier identifiers[SHADER_COUNT];
    VkPipelineCache caches[SLOTS];
    DataSlot data[SLOTS];
    PipelineSlot pipelines[SLOTS];
    BinarySlot binaries[SLOTS];
    BinaryDataSlot binary_data[SLOTS];
    VkPrivateDataSlot private_slots[PRIVATE_SLOTS];
    struct Operation *operations[SLOTS]; /* pipelines.c; those that nothing destroys stay */
    uint8_t replay_handles[MAX_GROUPS][HANDLE_BYTES];
    struct Canvas *canvas; /* draw.c */
} State;

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(VkResult result, const char *call);
/* Zeroed memory, never NULL. */
void *allocate(size_t count, size_t size);

/* A word such as `C3`: its slot; -1 where it names none of this letter. */
int slot_of(const char *word, char letter);

/* What a function of a line returns that prints this word. Others return NULL where they have printed what came of it, or
 * why the line is skipped: the slot that is empty or the rule that forbids it. */
extern const char done[];

/* Lines by their first word, the least number of words, and what they do. */
#define LINES(LINE)                                                                                                    \
    LINE("module", 2, run_module)                                                                                      \
    LINE("unmodule", 2, run_unmodule)                                                                                  \
    LINE("identify", 2, run_identify)                                                                                  \
    LINE("identifiers", 3, run_identifiers)                                                                            \
    LINE("cache", 2, run_cache)                                                                                        \
    LINE("uncache", 2, run_uncache)                                                                                    \
    LINE("merge", 2, run_merge)                                                                                        \
    LINE("read", 2, run_read)                                                                                          \
    LINE("unpipeline", 2, run_unpipeline)                                                                              \
    LINE("key", 2, run_key)                                                                                            \
    LINE("binaries", 2, run_binaries)                                                                                  \
    LINE("bindata", 2, run_binary_data)                                                                                \
    LINE("more", 3, run_more)                                                                                          \
    LINE("where", 2, run_where)                                                                                        \
    LINE("release", 2, run_release)                                                                                    \
    LINE("unbinaries", 2, run_unbinaries)                                                                              \
    LINE("globalkey", 1, run_global_key)                                                                               \
    LINE("executables", 2, run_executables)                                                                            \
    LINE("attach", 3, run_attach)                                                                                      \
    LINE("attached", 3, run_attached)                                                                                  \
    LINE("about", 1, run_about)                                                                                        \
    LINE("shader-object", 2, run_shader_object)                                                                        \
    LINE("draw", 2, run_draw)                                                                                          \
    LINE("groups", 2, run_groups)                                                                                      \
    LINE("capture", 2, run_capture)                                                                                    \
    LINE("operation", 2, run_operation)                                                                                \
    LINE("unoperation", 2, run_unoperation)                                                                            \
    LINE("join", 2, run_join)                                                                                          \
    LINE("await", 2, run_await)                                                                                        \
    LINE("finish", 2, run_finish)
#define DECLARE_LINE(name, least_words, function) const char *function(State *state, const Words *words);
LINES(DECLARE_LINE)

/* device.c */
void instance_create(Device *device, const VkAllocationCallbacks *allocator);
void instance_destroy(Device *device, const VkAllocationCallbacks *allocator);
/* With what the line names, as far as the driver has it. */
VkResult device_create(Device *device, const Words *words);
void device_destroy(Device *device);

/* main.c: everything in the slots */
void state_clear(State *state);

/* shaders.c */
extern const Shader shaders[SHADER_COUNT];
void shaders_salt(State *state, uint32_t salt);
int shader_named(const char *name);
bool shader_is_there(const Device *device, ShaderName name);
VkShaderModuleCreateInfo shader_info(const State *state, ShaderName name);

/* caches.c */

/* rays.c */

/* pipelines.c: elements are the words between the slashes */
const char *run_pipelines(State *state, Point point, const Words *words, Words *elements, uint32_t count);
void pipeline_slot_clear(State *state, PipelineSlot *slot);

/* inspect.c */
uint64_t digest(uint64_t before, const void *bytes, size_t size);
enum { DIGEST_OF_NOTHING = 0 };
uint64_t statistics_digest(const Device *device, VkPipeline pipeline);

/* draw.c */
void canvas_destroy(State *state);

/* binaries.c */
void binary_slot_clear(State *state, BinarySlot *slot);
void binary_data_clear(BinaryDataSlot *slot);

/* allocator.c: callbacks that count, and check which thread calls them */
const VkAllocationCallbacks *allocator_begin(void);
/* This thread joins an operation, too. */
void allocator_allow_thread(void);
void allocator_report(void);

#endif
