/*
 * create_info.h - one view of VkGraphics-, VkCompute- and VkRayTracingPipelineCreateInfo.
 *
 * The three begin alike (sType, pNext, flags) and end with the base pipeline. Change lists what the layer changes. It
 * always changes a copy.
 */
#ifndef PYLAYER_CREATE_INFO_H
#define PYLAYER_CREATE_INFO_H

#include "driver/driver.h"
#include "vulkan/pnext.h"
#include "vulkan/walk.h"

enum BindPoint { BIND_GRAPHICS, BIND_COMPUTE, BIND_RAY_TRACING };

typedef struct CreateInfoHead {
    VkStructureType sType;
    const void *pNext;
    VkPipelineCreateFlags flags;
} CreateInfoHead;

/* Room for one create info of any bind point. */
typedef union AnyCreateInfo {
    CreateInfoHead head;
    VkGraphicsPipelineCreateInfo graphics;
    VkComputePipelineCreateInfo compute;
    VkRayTracingPipelineCreateInfoKHR ray_tracing;
} AnyCreateInfo;

/* One call of the application. */
typedef struct PipelineCall {
    const Driver *driver;
    struct Device *device; /* for pipelines/, which uses all that is held for a device. Nobody below does */
    enum BindPoint point;
    VkDeferredOperationKHR deferred;
    VkPipelineCache cache;
    uint32_t count;
    const void *infos;
    const VkAllocationCallbacks *allocator;
    VkPipeline *pipelines;
    bool probe; /* creates only what the caches have */
} PipelineCall;

/* What one create info asks for, read once, and the storage that a changed copy needs. */
typedef struct Element {
    uint64_t flags; /* VkPipelineCreateFlags2 if chained, otherwise the legacy flags */
    const VkPipelineCreateFlags2CreateInfoKHR *flags2;
    const VkPipelineCreationFeedbackCreateInfoEXT *app_feedback;
    const VkPipelineBinaryInfoKHR *app_binaries;
    enum PylayerPipelineKind kind;
    uint64_t fingerprint; /* PylayerCell::fingerprint */
    unsigned known;       /* bits of enum Seen, as far as looked up */
    bool from_binaries;   /* the application passes binaries */
    bool captures;        /* the application sets CAPTURE_DATA */
    bool left_alone;      /* drivers do not or must not find it in a cache, or it cannot be created alone */
    /* A bit that tells apart pipelines without shaders of their own: libraries of vertex input, of outputs, of both, and
     * fast-linked pipelines. 0: it has shaders. */
    uint32_t codeless;
    bool blocked; /* a process died while creating it: no stored data is used */
    VkPipelineCreateFlags2CreateInfoKHR own_flags2;
    VkPipelineCreationFeedbackCreateInfoEXT own_feedback;
    VkPipelineCreationFeedbackEXT feedback;
    VkBaseOutStructure *copies; /* of the chain, malloc'd */
} Element;

#define CAPTURE_DATA VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR
#define FAIL_ON_COMPILE ((uint64_t)VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT_EXT)
#define CAPTURE_INTERNALS                                                                                              \
    ((uint64_t)(VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |                                                        \
                VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR))
#define CAPTURE_REPLAY ((uint64_t)VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR)
#define EARLY_RETURN ((uint64_t)VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT_EXT)

/* The call goes to the driver unchanged. VUID-vkCreateGraphicsPipelines-pNext-09616 and -09617 forbid a
 * VkPipelineCache for a whole call in which binaries are passed or captured. */
static inline bool element_is_untouchable(const Element *element)
{
    return element->from_binaries || element->captures || element->left_alone;
}

const void *create_info_at(const PipelineCall *call, uint32_t index);
void element_read(Element *element, const PipelineCall *call, uint32_t index);
/* Returns the state that a graphics create info itself defines, without its libraries' (Vulkan,
 * VkGraphicsPipelineLibraryCreateInfoEXT). */
uint32_t graphics_subsets(const VkGraphicsPipelineCreateInfo *info, enum PylayerPipelineKind kind);
/* VUID-VkGraphicsPipelineCreateInfo-pStages-06600: pStages must be valid only with one of these. */
#define SUBSETS_WITH_STAGES                                                                                            \
    (VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT |                                                  \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT)
/* How the driver's create info differs from the application's. */
typedef struct Change {
    uint64_t set, clear; /* flags */
    /* The element is created apart from its call, and derives from nothing: its parent may be in the call, or was found in
     * a cache, of which a driver can use nothing. */
    bool alone;
    bool feedback;                     /* chained if the device supports it */
    VkPipelineBinaryInfoKHR *binaries; /* chained: the application chains none */
} Change;

/*
 * Writes this element's create info with the change to *out. Returns false if a struct of unknown size precedes one
 * that would have to change, or if memory is short: then only the feedback is changed. Release
 * with element_release. A copy made for the element before is released here.
 */
bool element_build(Element *element, const PipelineCall *call, uint32_t index, Change change, AnyCreateInfo *out);
/* Returns false if the flags cannot be changed because a struct of unknown size precedes them. */
bool element_flags_can_change(const Element *element, const PipelineCall *call, uint32_t index);
void element_release(Element *element);
/* Returns the driver's feedback on the pipeline; NULL if none was requested or the driver gave none. */
const VkPipelineCreationFeedbackEXT *element_feedback(const Element *element);
/* Clears the application cache hit bit in the application's feedback, for a pipeline that was not found in a cache
 * that the application passed. The bit means only that (Vulkan,
 * VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT). */
void element_clear_application_hit(const Element *element);
/* Writes the duration into the application's feedback, if the driver wrote none. Also clears the application cache
 * hit bit. */
void element_fill_feedback(const Element *element, uint64_t duration_ns);
/* Marks the application's feedback as not valid, for the pipeline and its stages (Vulkan,
 * VkPipelineCreationFeedbackCreateInfo). */
void element_clear_feedback(const Element *element);

/* Returns the stages that the create info itself defines, without its libraries'. */
const VkPipelineShaderStageCreateInfo *create_info_stages(const PipelineCall *call, uint32_t index,
                                                          enum PylayerPipelineKind kind, uint32_t *stage_count);
/* Calls the next layer's vkCreate*Pipelines. infos points to count create infos in the call's own layout. */
VkResult call_driver(const PipelineCall *call, VkPipelineCache cache, uint32_t count, const void *infos,
                     VkPipeline *pipelines);
size_t create_info_size(enum BindPoint point);
static inline enum StructureIndex create_info_structure(enum BindPoint point)
{
    static const enum StructureIndex structures[] = {STRUCTURE_GRAPHICS, STRUCTURE_COMPUTE, STRUCTURE_RAY_TRACING};
    return structures[point];
}

/* ---- pipeline_facts.c: what a walk has to know of a pipeline: which members count, which pointers are valid --- */

/* Adds to walk->facts and walk->dynamic. FACT_LINKED must be in walk->facts before, if it is to count, and so must what
 * else is known of the pipeline's libraries. */
void pipeline_learn(Walk *walk, const VkGraphicsPipelineCreateInfo *info, uint32_t subsets, uint32_t stage_count);
/* Returns whether the pipeline is linked from libraries. */
bool pipeline_is_linked(const PipelineCall *call, const AnyCreateInfo *info);

#endif
