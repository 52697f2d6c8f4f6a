/*
 * build.h - from the words of one element to a create info, with everything that this points to.
 *
 * An element is a slot for the pipeline, and of these words some. All pipelines:
 *   flags=NAME,...                 flag_names in build.c
 *   flags2[=always]                flags in VkPipelineCreateFlags2CreateInfo; always: where there are none, too
 *   legacy=statistics|fail         beside those: flags that do not count
 *   from=module|inline|nothing|id|id:flipped|id:SIZE|garbage|garbage:SIZE:BYTE,...
 *                                  where the code of each stage is from; the last serves all stages behind it
 *   no-identifier                  each stage with an identifier of no bytes
 *   spec=VALUE, spec=ID:VALUE,...  constants: 1, 1.5, or 1l for one of eight bytes; without a value there are none
 *   base=P1|#N                     the pipeline that it derives from, or the number of this in the call
 *   link=P0,P1,...                 libraries
 *   binaries=B0                    from binaries; of all other words only feedback counts
 *   no-binaries                    with VkPipelineBinaryInfoKHR of no binaries
 *   feedback=pipeline|stages       with creation feedback
 *   robust=pipeline|stage|both     with VkPipelineRobustnessCreateInfo; level=on|off|2
 *   heap=SOURCE,NUMBERS            mappings of VK_EXT_descriptor_heap
 *   unknown[=stage]                with a structure that nobody knows
 *   reversed                       all chains in the other order
 * Compute:
 *   shader=NAME                    shaders.c has the names
 *   subgroup=least|largest|SIZE, stage-flags=varying,full
 * Graphics:
 *   vert=NAME, tesc, tese, geom, task, mesh, frag
 *   part=input,vertex,fragment,output              of a library, or those that a link has itself
 *   pass=plain|subpasses|views|dynamic, subpass=N  the render pass; dynamic: VkPipelineRenderingCreateInfo
 *   color=half|undefined|none, mask=VIEWS, locations              with pass=dynamic
 *   strip, patches=N, discard, blend, static       static: with viewport and scissor
 *   any-topology                                   topology and primitive restart are dynamic
 * Ray tracing:
 *   shaders=rgen,miss,hit
 *   groups=STAGE,...               the stage of each group; otherwise each stage has one
 *   depth=N|most, dynamic-stack
 *   replay                         with the handles that a line `capture` read
 */
#ifndef RECIPES_BUILD_H
#define RECIPES_BUILD_H

#include "recipes.h"

typedef enum {
    FOR_CREATION,
    FOR_KEY, /* a key, or a look into the driver's cache: nothing captured, no binaries */
} Purpose;

enum { MAX_NODES = 12, MAX_CONSTANTS = 4, HEAP_BINDINGS = 2 };

/* Feedback as the program's memory holds it before a call. None of its bits is one of Vulkan's: a driver that adds bits
 * to what was there is seen. */
enum { POISON = 0x2babaab0 };

typedef union AnyCreateInfo {
    VkComputePipelineCreateInfo compute;
    VkGraphicsPipelineCreateInfo graphics;
    VkRayTracingPipelineCreateInfoKHR rays;
} AnyCreateInfo;

/* What may hang on a stage. */
typedef struct StageNodes {
    VkShaderModuleCreateInfo code;
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT identifier;
    VkPipelineRobustnessCreateInfoEXT robustness;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup_size;
    DescriptorMapping mappings[HEAP_BINDINGS];
    DescriptorMappingInfo mapping;
    VkBaseInStructure unknown;
} StageNodes;

/* A chain that grows. */
typedef struct Nodes {
    void *all[MAX_NODES];
    uint32_t count;
} Nodes;

/* Everything points into the structure itself: it must not be moved once built. */
typedef struct Build {
    Point point;
    PipelineTraits traits;
    Wording wording;
    uint64_t flags;
    AnyCreateInfo info;
    uint32_t stage_count;
    VkPipelineShaderStageCreateInfo stages[MAX_STAGES];

    uint8_t constants[MAX_CONSTANTS * sizeof(uint64_t)];
    VkSpecializationMapEntry constant_entries[MAX_CONSTANTS];
    VkSpecializationInfo specialization;
    StageNodes stage_nodes[MAX_STAGES];
    uint8_t changed_identifier[VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT];

    bool wants_feedback;
    VkPipelineCreationFeedbackCreateInfo feedback_info;
    VkPipelineCreationFeedback feedback, stage_feedback[MAX_STAGES];
    VkPipelineCreateFlags2CreateInfoKHR flags2;
    VkPipelineRobustnessCreateInfoEXT robustness;
    VkPipelineBinaryInfoKHR binary_info;
    VkBaseInStructure unknown;
    Nodes nodes;

    VkVertexInputBindingDescription vertex_binding;
    VkVertexInputAttributeDescription vertex_attribute;
    VkPipelineVertexInputStateCreateInfo vertex_input;
    VkPipelineInputAssemblyStateCreateInfo assembly;
    VkPipelineTessellationStateCreateInfo tessellation;
    VkViewport area;
    VkRect2D scissor;
    VkPipelineViewportStateCreateInfo viewport;
    VkPipelineRasterizationStateCreateInfo rasterization;
    VkPipelineMultisampleStateCreateInfo multisample;
    VkPipelineDepthStencilStateCreateInfo depth;
    VkPipelineColorBlendAttachmentState blend_attachment;
    VkPipelineColorBlendStateCreateInfo blend;
    VkPipelineDynamicStateCreateInfo dynamic;
    VkFormat color_format;
    VkPipelineRenderingCreateInfo rendering;
    uint32_t attachment_location;
    AttachmentLocations attachment_locations;
    VkGraphicsPipelineLibraryCreateInfoEXT library_parts;

    VkPipeline libraries[LIBRARY_PARTS];
    VkPipelineLibraryCreateInfoKHR linked;
    uint32_t group_count;
    VkRayTracingShaderGroupCreateInfoKHR groups[MAX_GROUPS];
    VkRayTracingPipelineInterfaceCreateInfoKHR interface;
} Build;

/* Fills a zeroed Build. NULL, or why this may not be called. */
const char *build(State *state, Build *out, Point point, const Words *words, Purpose purpose);

/* The same from what a slot remembers. With binaries, which may be NULL, stages have no code. more: words of which only
 * feedback counts, or NULL. */
const char *build_again(State *state, Build *out, const Wording *wording, Purpose purpose, const BinarySlot *binaries,
                        const Words *more);

/* stages.c: adds a stage. NULL, or why not. */
const char *add_stage(State *state, Build *out, ShaderName name, const Words *words, Purpose purpose);

/* graphics.c, rays.c */
const char *build_graphics(State *state, Build *out, const Words *words, Purpose purpose);
const char *build_rays(State *state, Build *out, const Words *words, Purpose purpose);

/* The libraries of `link=P0,P1`: their slots in order, with VK_NULL_HANDLE refused. NULL, or why not. */
const char *link_libraries(State *state, Build *out, const Words *words, const PipelineSlot **slots, uint32_t *count);

void set_base(AnyCreateInfo *info, Point point, VkPipeline handle, int32_t index);

/* None with descriptor heaps. */
VkPipelineLayout layout_of(const State *state, const Build *out);

void add_node(Nodes *nodes, void *node);

/* The first of them. Both orders of a chain are the same call (Vulkan, 'pNext chains have no order'). */
const void *chain_nodes(const Nodes *nodes, bool reversed);

/* What `robust=` and `level=` say for where: "pipeline" or "stage". NULL, or why not. */
const char *read_robustness(const State *state, const Words *words, const char *where, bool *wanted,
                            VkPipelineRobustnessCreateInfoEXT *robustness);

#endif
