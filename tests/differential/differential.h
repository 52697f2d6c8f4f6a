/*
 * differential.h - what a script works on: one device and numbered slots of objects.
 *
 * A script is valid whatever its lines are: a line that Vulkan's valid usage forbids, or that needs an object which an
 * earlier line did not give, is skipped and says so. Any lines can so be taken out of a script.
 */
#ifndef DIFFERENTIAL_H
#define DIFFERENTIAL_H

#include <stdio.h>

#include "../pipeline_binary.h"
#include "words.h"

enum { SLOTS = 10, MAX_BATCH = 4, MAX_STAGES = 3, MAX_BINARIES = 8, LIBRARY_PARTS = 4 };

typedef enum { POINT_COMPUTE, POINT_GRAPHICS, POINT_RAYS } Point;

typedef enum {
    SHADER_COMP0,
    SHADER_COMP1,
    SHADER_VERT0,
    SHADER_VERT1,
    SHADER_FRAG0,
    SHADER_FRAG1,
    SHADER_RGEN0,
    SHADER_MISS0,
    SHADER_HIT0,
    SHADER_COUNT
} ShaderName;

typedef struct Shader {
    const char *name;
    VkShaderStageFlagBits stage;
    uint32_t *code; /* of this script alone: see shaders_salt */
    size_t size;
} Shader;

/* What the script's `device` line asked for. */
typedef struct Enabled {
    bool control, maintenance5, binaries, identifiers, libraries, rays, robustness, executables, no_internal_cache;
} Enabled;

typedef struct Commands {
    PFN_vkGetShaderModuleIdentifierEXT get_identifier;
    PFN_vkGetShaderModuleCreateInfoIdentifierEXT get_code_identifier;
    PFN_vkCreateRayTracingPipelinesKHR create_rays;
    PFN_vkCreateDeferredOperationKHR create_deferred;
    PFN_vkDestroyDeferredOperationKHR destroy_deferred;
    PFN_vkDeferredOperationJoinKHR join_deferred;
    PFN_vkGetDeferredOperationResultKHR deferred_result;
    PFN_vkCreatePipelineBinariesKHR create_binaries;
    PFN_vkDestroyPipelineBinaryKHR destroy_binary;
    PFN_vkGetPipelineKeyKHR get_key;
    PFN_vkGetPipelineBinaryDataKHR get_binary_data;
    PFN_vkReleaseCapturedPipelineDataKHR release_captured;
} Commands;

/* The words that a pipeline was made of, to make its create info again. */
typedef struct Recipe {
    bool filled;
    Point point;
    char text[MAX_LINE];
    uint64_t linked[LIBRARY_PARTS]; /* PipelineSlot::serial of each library */
} Recipe;

/* What has to be known of a pipeline to tell what it may be used for. */
typedef struct PipelineTraits {
    bool library, retains, identified, derivable, captured, fast_linked;
    uint32_t parts;    /* graphics: bits of VkGraphicsPipelineLibraryFlagBitsEXT; rays: bits 1 << ShaderName */
    ShaderName vertex; /* graphics libraries */
    bool dynamic_rendering;
} PipelineTraits;

typedef struct PipelineSlot {
    VkPipeline handle;
    uint64_t serial;
    Recipe recipe;
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
    Recipe recipe;
} BinarySlot;

typedef struct BinaryDataSlot {
    VkPipelineBinaryKeyKHR keys[MAX_BINARIES];
    VkPipelineBinaryDataKHR data[MAX_BINARIES];
    uint32_t count;
    Recipe recipe;
} BinaryDataSlot;

typedef struct Identifier {
    uint32_t size;
    uint8_t bytes[VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT];
} Identifier;

typedef struct State {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    VkDevice device;
    const VkAllocationCallbacks *allocator; /* of everything that the script makes; NULL: none */
    Enabled enabled;
    Commands commands;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkRenderPass render_pass;
    uint64_t next_serial;

    VkShaderModule modules[SHADER_COUNT];
    Identifier identifiers[SHADER_COUNT];
    VkPipelineCache caches[SLOTS];
    DataSlot data[SLOTS];
    PipelineSlot pipelines[SLOTS];
    BinarySlot binaries[SLOTS];
    BinaryDataSlot binary_data[SLOTS];
} State;

/* A word such as `C3`: its slot; -1 where it names none of this letter. */
int slot_of(const char *word, char letter);

/* Ends a line that is not done, with why: the slot that is empty or the rule that forbids it. */
void skip(const char *why);

/* device.c */
void instance_create(State *state, const VkAllocationCallbacks *allocator);
void instance_destroy(State *state, const VkAllocationCallbacks *allocator);
VkResult device_create(State *state, const Words *words);
void device_destroy(State *state);

/* shaders.c */
extern Shader shaders[SHADER_COUNT];
void shaders_salt(uint32_t salt);
int shader_named(const char *name);
VkShaderModuleCreateInfo shader_info(ShaderName name);
void run_module(State *state, const Words *words);
void run_unmodule(State *state, const Words *words);
void run_identify(State *state, const Words *words);

/* caches.c */
void run_cache(State *state, const Words *words);
void run_uncache(State *state, const Words *words);
void run_merge(State *state, const Words *words);
void run_read(State *state, const Words *words);

/* pipelines.c: elements are the words between the slashes */
void run_pipelines(State *state, Point point, const Words *words, Words *elements, uint32_t count);
void run_unpipeline(State *state, const Words *words);
void pipeline_slot_clear(State *state, PipelineSlot *slot);

/* binaries.c */
void run_global_key(State *state);
void run_key(State *state, const Words *words);
void run_binaries(State *state, const Words *words);
void run_binary_data(State *state, const Words *words);
void run_release(State *state, const Words *words);
void run_unbinaries(State *state, const Words *words);
void binary_slot_clear(State *state, BinarySlot *slot);
void binary_data_clear(BinaryDataSlot *slot);

/* allocator.c: callbacks that count, and check which thread calls them */
const VkAllocationCallbacks *allocator_begin(void);
void allocator_report(void);

#endif
