/*
 * recipes.h - what a recipe works on: one device and numbered slots of objects.
 *
 * A recipe is valid whatever its lines are: a line that Vulkan's valid usage forbids, that asks for what the device
 * lacks, or that needs an object which an earlier line did not give, is skipped and says so. Any lines can so be taken
 * out.
 */
#ifndef RECIPES_H
#define RECIPES_H

#include "device.h"

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

#define COLOR_FORMAT VK_FORMAT_R8G8B8A8_UNORM

typedef enum { POINT_COMPUTE, POINT_GRAPHICS, POINT_RAYS } Point;

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
    SHADER(SAMPLED, sampled, COMPUTE_BIT, NEEDS(LAYOUTS))                                                              \
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

/* What all recipes on a device share (objects.c). There is one device at a time. */
typedef struct Objects {
    VkShaderModule modules[SHADER_COUNT]; /* with the word `modules` */
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkRenderPass passes[PASS_COUNT];
    VkPipelineCache cache; /* of the whole program, with --cache */
} Objects;

extern Objects objects;
VkResult objects_create(const Device *device, const Words *words);
void objects_destroy(const Device *device);

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
    LINE("layout", 2, run_layout)                                                                                      \
    LINE("more", 3, run_more)                                                                                          \
    LINE("where", 2, run_where)                                                                                        \
    LINE("release", 2, run_release)                                                                                    \
    LINE("unbinaries", 2, run_unbinaries)                                                                              \
    LINE("globalkey", 1, run_global_key)                                                                               \
    LINE("executables", 2, run_executables)                                                                            \
    LINE("name", 2, run_name)                                                                                          \
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

/* main.c: everything in the slots */
void state_clear(State *state);

/* shaders.c */
extern const Shader shaders[SHADER_COUNT];
void shaders_salt(State *state, uint32_t salt);
int shader_named(const char *name);
bool shader_is_there(const Device *device, ShaderName name);
VkShaderModuleCreateInfo shader_info(const State *state, ShaderName name);

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

#endif
