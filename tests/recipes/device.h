/* device.h - an instance, and a device with the features that words name; what the demo has of it, too. */
#ifndef RECIPES_DEVICE_H
#define RECIPES_DEVICE_H

#include <stdio.h>

#include "newer.h"
#include "words.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

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
    MAINTENANCE_8,
    LAYOUTS,
    RAYS,
    FEATURE_COUNT
} Feature;

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
    COMMAND(PFN_vkSetDebugUtilsObjectNameEXT, set_name, vkSetDebugUtilsObjectNameEXT)                                  \
    COMMAND(CreateShaders, create_shaders, vkCreateShadersEXT)                                                         \
    COMMAND(DestroyShader, destroy_shader, vkDestroyShaderEXT)                                                         \
    COMMAND(GetShaderBinaryData, get_shader_binary, vkGetShaderBinaryDataEXT)
#define COMMAND_MEMBER(type, member, name) type member;
typedef struct Commands {
    COMMANDS(COMMAND_MEMBER)
} Commands;

typedef struct Device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkPhysicalDeviceProperties properties;
    uint32_t api; /* what both the program and the device speak */
    char driver[VK_MAX_DRIVER_NAME_SIZE + VK_MAX_DRIVER_INFO_SIZE + 4];
    uint32_t least_subgroup, largest_subgroup;
    uint32_t handle_size, replay_handle_size, most_recursion; /* of ray tracing */
    VkDevice handle;
    uint64_t instance_ns, device_ns;        /* that creating them took */
    const VkAllocationCallbacks *allocator; /* of everything that recipes make; NULL: none */
    bool has[FEATURE_COUNT];
    bool names; /* the instance has VK_EXT_debug_utils */
    bool no_internal_cache;
    bool unasked_identifiers; /* chained although the device does not have the extension enabled */
    Commands commands;
} Device;

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(VkResult result, const char *call);
/* Zeroed memory, never NULL. */
void *allocate(size_t count, size_t size);
uint64_t now_ns(void);

/* extension: of the instance, or NULL */
void instance_create(Device *device, const VkApplicationInfo *application, const char *extension,
                     const VkAllocationCallbacks *allocator);
bool is_gpu(const VkPhysicalDeviceProperties *properties);
/* By its number or a part of its name; NULL: the first GPU, or else the first. */
void device_choose(Device *device, const char *wanted);
/* With what the line names, as far as the driver has it. */
VkResult device_create(Device *device, const Words *words);
void device_destroy(Device *device);

/* Of ray tracing: a hit group, or else a general one, of this stage. */
VkRayTracingShaderGroupCreateInfoKHR ray_group(bool hit, uint32_t stage);
VkResult join_to_the_end(const Device *device, VkDeferredOperationKHR operation);
/* The same with so many threads, this one among them. Returns whether one of them has completed the operation. */
bool join_with_threads(const Device *device, VkDeferredOperationKHR operation, uint32_t threads);

/* allocator.c: callbacks that count, and check which thread calls them */
const VkAllocationCallbacks *allocator_begin(void);
/* This thread joins an operation, too. */
void allocator_allow_thread(void);
void allocator_report(void);

#endif
