/*
 * create_info.h - VkGraphics-, VkCompute- and VkRayTracingPipelineCreateInfo seen as one.
 *
 * The three begin alike (sType, pNext, flags) and end with the base pipeline. What the layer changes is in Change, and
 * is always changed in a copy.
 */
#ifndef PYLAYER_CREATE_INFO_H
#define PYLAYER_CREATE_INFO_H

#include "vulkan/pnext.h"

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
    Device *device;
    enum BindPoint point;
    VkDeferredOperationKHR deferred;
    VkPipelineCache cache;
    uint32_t count;
    const void *infos;
    const VkAllocationCallbacks *allocator;
    VkPipeline *pipelines;
    /* Not NULL: nothing may be compiled, and it is told whether the caches that were looked into held everything that
     * is stored. */
    bool *probe_after_load;
} PipelineCall;

/* What one create info asks for, read from it once, and the storage that a changed copy needs. */
typedef struct Element {
    uint64_t flags; /* VkPipelineCreateFlags2 where chained, else the legacy flags */
    const VkPipelineCreateFlags2CreateInfoKHR *flags2;
    const VkPipelineCreationFeedbackCreateInfoEXT *app_feedback;
    const VkPipelineBinaryInfoKHR *app_binaries;
    enum PylayerPipelineKind kind;
    uint64_t fingerprint; /* PylayerCell::fingerprint */
    bool from_binaries;   /* the application gives binaries */
    bool captures;        /* the application sets CAPTURE_DATA */
    bool left_alone;      /* drivers do not find it in a cache, or must not; or it cannot be created by itself */
    bool plain;           /* created without a probe */
    bool suspect;         /* a process died when it created this one: nothing stored is used */
    VkPipelineCreateFlags2CreateInfoKHR own_flags2;
    VkPipelineCreationFeedbackCreateInfoEXT own_feedback;
    VkPipelineCreationFeedbackEXT feedback;
    VkPipelineBinaryInfoKHR own_binaries;
    VkBaseOutStructure *copies, *last_copy;
} Element;

#define CAPTURE_DATA VK_PIPELINE_CREATE_2_CAPTURE_DATA_BIT_KHR
#define FAIL_ON_COMPILE ((uint64_t)VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT_EXT)
#define CAPTURE_REPLAY ((uint64_t)VK_PIPELINE_CREATE_RAY_TRACING_SHADER_GROUP_HANDLE_CAPTURE_REPLAY_BIT_KHR)
#define EARLY_RETURN ((uint64_t)VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT_EXT)

/* The call goes to the driver as it is. VUID-vkCreateGraphicsPipelines-pNext-09616 and -09617 forbid a VkPipelineCache for
 * all of a call in which binaries are given or captured. */
static inline bool element_is_untouchable(const Element *element)
{
    return element->from_binaries || element->captures || element->left_alone;
}

const void *create_info_at(const PipelineCall *call, uint32_t index);
void element_read(Element *element, const PipelineCall *call, uint32_t index);
/* Returns the state that a graphics create info gives itself, libraries apart (Vulkan,
 * VkGraphicsPipelineLibraryCreateInfoEXT). */
uint32_t graphics_subsets(const VkGraphicsPipelineCreateInfo *info, enum PylayerPipelineKind kind);
/* VUID-VkGraphicsPipelineCreateInfo-pStages-06600: only with one of these need pStages be valid. */
#define SUBSETS_WITH_STAGES                                                                                            \
    (VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT |                                                  \
     VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT)
/* What the driver is to get otherwise than the application made it. */
typedef struct Change {
    uint64_t set, clear; /* flags */
    /* Apart from its call: basePipelineIndex, which counts within the call, becomes the handle of the pipeline created
     * there. Where that one was not created this one derives from nothing. */
    bool alone;
    bool feedback;                           /* chained where the device has it */
    const VkPipelineBinaryInfoKHR *binaries; /* chained, or in the place of the application's own */
} Change;

/*
 * Writes to *out the create info of this element with the change. False: a struct of unknown size stands in front of one
 * that would have to change, or memory is short, and only the base pipeline and the feedback are changed. Release with
 * element_release; what was written for the element before is released here.
 */
bool element_build(Element *element, const PipelineCall *call, uint32_t index, Change change, AnyCreateInfo *out);
/* False: its flags stand behind a struct of unknown size. */
bool element_flags_can_change(const Element *element, const PipelineCall *call, uint32_t index);
void element_release(Element *element);
/* The driver's answer about the pipeline; NULL where none was asked for or it gave none. */
const VkPipelineCreationFeedbackEXT *element_feedback(const Element *element);
/* The application passed no cache in which this pipeline was found, and the bit means just that (Vulkan,
 * VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT). */
void element_clear_application_hit(const Element *element);
/* Tells the application, where it asked and the driver said nothing, how long the creation took. */
void element_fill_feedback(const Element *element, uint64_t duration_ns);
/* No feedback that is valid, of the pipeline and of its stages (Vulkan, VkPipelineCreationFeedbackCreateInfo). */
void element_clear_feedback(const Element *element);

/* The stages that the create info gives itself, libraries apart. */
const VkPipelineShaderStageCreateInfo *create_info_stages(const PipelineCall *call, uint32_t index,
                                                          enum PylayerPipelineKind kind, uint32_t *stage_count);
/* Each stage has its code: a module, what makes one, or a module identifier. */
bool create_info_has_code(const PipelineCall *call, uint32_t index, enum PylayerPipelineKind kind);
/* Its parent is an earlier element of the call. */
bool create_info_derives_within_call(const PipelineCall *call, uint32_t index, uint64_t flags);

/* vkCreate*Pipelines of the next layer. infos points to count create infos in the call's own layout. */
VkResult call_driver(const PipelineCall *call, VkPipelineCache cache, uint32_t count, const void *infos,
                     VkPipeline *pipelines);
size_t create_info_size(enum BindPoint point);

#endif
