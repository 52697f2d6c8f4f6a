/* device.c - the instance, and one device a script with the features that its first line names. */
#include "differential.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_EXTENSIONS = 16 };

void instance_create(State *state, const VkAllocationCallbacks *allocator)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "differential",
                                     .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    uint32_t one = 1;
    if (vkCreateInstance(&info, allocator, &state->instance) ||
        vkEnumeratePhysicalDevices(state->instance, &one, &state->physical) < 0 || one == 0) {
        fputs("interpreter: no device\n", stderr);
        exit(1);
    }
    vkGetPhysicalDeviceProperties(state->physical, &state->properties);
}

void instance_destroy(State *state, const VkAllocationCallbacks *allocator)
{
    vkDestroyInstance(state->instance, allocator);
}

/* A vkCreateDevice call that grows. */
typedef struct Request {
    const char *extensions[MAX_EXTENSIONS];
    uint32_t extension_count;
    void *chain;
} Request;

static void add_extension(Request *request, const char *name)
{
    request->extensions[request->extension_count++] = name;
}

static void chain(Request *request, void *structure)
{
    VkBaseOutStructure *node = structure;
    node->pNext = request->chain;
    request->chain = node;
}

static Enabled enabled_by(const Words *words)
{
    Enabled enabled = {
        .control = words_value(words, "control"),
        .binaries = words_value(words, "binaries"),
        .maintenance5 = words_value(words, "maintenance5") || words_value(words, "binaries"),
        .identifiers = words_value(words, "identifiers") && words_value(words, "control"),
        .libraries = words_value(words, "libraries"),
        .rays = words_value(words, "rays"),
        .robustness = words_value(words, "robustness"),
        .executables = words_value(words, "executables"),
        .no_internal_cache = words_value(words, "binaries") && words_value(words, "no-internal-cache"),
    };
    return enabled;
}

#define FEATURE(variable, structure, type, member)                                                                     \
    structure variable = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type, .member = VK_TRUE}

/* Core 1.3 features by their own structures, or by the one for all. Either has to survive what a layer adds. */
static VkResult create(State *state, bool separate)
{
    const Enabled *enabled = &state->enabled;
    VkPhysicalDeviceVulkan13Features core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
                                             .pipelineCreationCacheControl = enabled->control,
                                             .dynamicRendering = VK_TRUE,
                                             .subgroupSizeControl = VK_TRUE,
                                             .computeFullSubgroups = VK_TRUE};
    FEATURE(rendering, VkPhysicalDeviceDynamicRenderingFeatures, DYNAMIC_RENDERING_FEATURES, dynamicRendering);
    FEATURE(control, VkPhysicalDevicePipelineCreationCacheControlFeatures, PIPELINE_CREATION_CACHE_CONTROL_FEATURES,
            pipelineCreationCacheControl);
    FEATURE(subgroups, VkPhysicalDeviceSubgroupSizeControlFeatures, SUBGROUP_SIZE_CONTROL_FEATURES,
            subgroupSizeControl);
    subgroups.computeFullSubgroups = VK_TRUE;
    FEATURE(maintenance5, VkPhysicalDeviceMaintenance5FeaturesKHR, MAINTENANCE_5_FEATURES_KHR, maintenance5);
    FEATURE(binaries, VkPhysicalDevicePipelineBinaryFeaturesKHR, PIPELINE_BINARY_FEATURES_KHR, pipelineBinaries);
    FEATURE(identifiers, VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT, SHADER_MODULE_IDENTIFIER_FEATURES_EXT,
            shaderModuleIdentifier);
    FEATURE(libraries, VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT, GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT,
            graphicsPipelineLibrary);
    FEATURE(rays, VkPhysicalDeviceRayTracingPipelineFeaturesKHR, RAY_TRACING_PIPELINE_FEATURES_KHR, rayTracingPipeline);
    FEATURE(acceleration, VkPhysicalDeviceAccelerationStructureFeaturesKHR, ACCELERATION_STRUCTURE_FEATURES_KHR,
            accelerationStructure);
    FEATURE(addresses, VkPhysicalDeviceBufferDeviceAddressFeatures, BUFFER_DEVICE_ADDRESS_FEATURES,
            bufferDeviceAddress);
    FEATURE(robustness, VkPhysicalDevicePipelineRobustnessFeaturesEXT, PIPELINE_ROBUSTNESS_FEATURES_EXT,
            pipelineRobustness);
    FEATURE(executables, VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR,
            PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, pipelineExecutableInfo);
    VkDevicePipelineBinaryInternalCacheControlKHR no_cache = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, .disableInternalCache = VK_TRUE};

    Request request = {.extension_count = 0};
    if (separate) {
        chain(&request, &rendering);
        chain(&request, &subgroups);
        if (enabled->control)
            chain(&request, &control);
    } else {
        chain(&request, &core);
    }
    if (enabled->maintenance5) {
        add_extension(&request, VK_KHR_MAINTENANCE_5_EXTENSION_NAME);
        chain(&request, &maintenance5);
    }
    if (enabled->binaries) {
        add_extension(&request, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME);
        chain(&request, &binaries);
    }
    if (enabled->no_internal_cache)
        chain(&request, &no_cache);
    if (enabled->identifiers) {
        add_extension(&request, VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME);
        chain(&request, &identifiers);
    }
    if (enabled->libraries || enabled->rays)
        add_extension(&request, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME);
    if (enabled->libraries) {
        add_extension(&request, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME);
        chain(&request, &libraries);
    }
    if (enabled->rays) {
        add_extension(&request, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME);
        add_extension(&request, VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME);
        add_extension(&request, VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME);
        chain(&request, &rays);
        chain(&request, &acceleration);
        chain(&request, &addresses);
    }
    if (enabled->robustness) {
        add_extension(&request, VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME);
        chain(&request, &robustness);
    }
    if (enabled->executables) {
        add_extension(&request, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
        chain(&request, &executables);
    }
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = request.chain,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = request.extension_count,
                               .ppEnabledExtensionNames = request.extensions};
    return vkCreateDevice(state->physical, &info, state->allocator, &state->device);
}

static void resolve(State *state)
{
    Commands *commands = &state->commands;
#define RESOLVE(member, name) commands->member = (PFN_##name)vkGetDeviceProcAddr(state->device, #name)
    RESOLVE(get_identifier, vkGetShaderModuleIdentifierEXT);
    RESOLVE(get_code_identifier, vkGetShaderModuleCreateInfoIdentifierEXT);
    RESOLVE(create_rays, vkCreateRayTracingPipelinesKHR);
    RESOLVE(create_deferred, vkCreateDeferredOperationKHR);
    RESOLVE(destroy_deferred, vkDestroyDeferredOperationKHR);
    RESOLVE(join_deferred, vkDeferredOperationJoinKHR);
    RESOLVE(deferred_result, vkGetDeferredOperationResultKHR);
    RESOLVE(create_binaries, vkCreatePipelineBinariesKHR);
    RESOLVE(destroy_binary, vkDestroyPipelineBinaryKHR);
    RESOLVE(get_key, vkGetPipelineKeyKHR);
    RESOLVE(get_binary_data, vkGetPipelineBinaryDataKHR);
    RESOLVE(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef RESOLVE
}

/* One layout fits all shaders. */
static VkResult create_layout(State *state)
{
    VkDescriptorSetLayoutBinding bindings[2] = {
        {.binding = 0,
         .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_ALL},
        {.binding = 1,
         .descriptorType = VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR,
         .descriptorCount = 1,
         .stageFlags = VK_SHADER_STAGE_ALL},
    };
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = state->enabled.rays ? 2 : 1,
                                           .pBindings = bindings};
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_ALL, .size = 16};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &state->set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult result = vkCreateDescriptorSetLayout(state->device, &set, state->allocator, &state->set_layout);
    return result ? result : vkCreatePipelineLayout(state->device, &layout, state->allocator, &state->layout);
}

static VkResult create_render_pass(State *state)
{
    VkAttachmentDescription attachment = {.format = VK_FORMAT_R8G8B8A8_UNORM,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                          .finalLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass = {.colorAttachmentCount = 1, .pColorAttachments = &reference};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .attachmentCount = 1,
                                   .pAttachments = &attachment,
                                   .subpassCount = 1,
                                   .pSubpasses = &subpass};
    return vkCreateRenderPass(state->device, &info, state->allocator, &state->render_pass);
}

/* device [control] [maintenance5] [binaries] ... [separate] [allocator] */
VkResult device_create(State *state, const Words *words)
{
    state->allocator = words_value(words, "allocator") ? allocator_begin() : NULL;
    state->enabled = enabled_by(words);
    VkResult result = create(state, words_value(words, "separate") != NULL);
    if (result != VK_SUCCESS)
        return result;
    resolve(state);
    result = create_layout(state);
    return result ? result : create_render_pass(state);
}

void device_destroy(State *state)
{
    for (int i = 0; i < SLOTS; i++) {
        pipeline_slot_clear(state, &state->pipelines[i]);
        binary_slot_clear(state, &state->binaries[i]);
        binary_data_clear(&state->binary_data[i]);
        vkDestroyPipelineCache(state->device, state->caches[i], state->allocator);
        free(state->data[i].bytes);
    }
    for (int i = 0; i < SHADER_COUNT; i++)
        vkDestroyShaderModule(state->device, state->modules[i], state->allocator);
    vkDestroyRenderPass(state->device, state->render_pass, state->allocator);
    vkDestroyPipelineLayout(state->device, state->layout, state->allocator);
    vkDestroyDescriptorSetLayout(state->device, state->set_layout, state->allocator);
    vkDestroyDevice(state->device, state->allocator);
    State fresh = {.instance = state->instance, .physical = state->physical, .properties = state->properties};
    *state = fresh;
}
