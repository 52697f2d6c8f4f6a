/* device.c - an instance, and a device with all that the driver has of what the modes need. */
#include <stdarg.h>
#include <stdlib.h>

#include "paths.h"

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void must(VkResult result, const char *call)
{
    if (result != VK_SUCCESS)
        die("%s: VkResult %d", call, result);
}

/* ---- features ------------------------------------------------------------------------------------------------ */

/* Every feature struct is this, with as many members as it has. */
#define MOST_MEMBERS 8
typedef struct FeatureStruct {
    VkStructureType sType;
    void *pNext;
    VkBool32 members[MOST_MEMBERS];
} FeatureStruct;

/* enabled: how many of the first members are, where the driver has them; the rest stays off. */
static const struct {
    const char *extension; /* NULL: part of Vulkan 1.3 */
    VkStructureType type;
    uint32_t enabled;
} features[FEATURE_COUNT] = {
    [HAS_CACHE_CONTROL] = {NULL, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, 1},
    [HAS_DYNAMIC_RENDERING] = {NULL, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DYNAMIC_RENDERING_FEATURES, 1},
    [HAS_SUBGROUP_SIZES] = {NULL, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, 2},
    [HAS_PRIVATE_DATA] = {NULL, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PRIVATE_DATA_FEATURES, 1},
    [HAS_MULTIVIEW] = {NULL, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MULTIVIEW_FEATURES, 1},
    [HAS_LIBRARIES] = {VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME,
                       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT, 1},
    [HAS_PIPELINE_ROBUSTNESS] = {VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME,
                                 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_ROBUSTNESS_FEATURES_EXT, 1},
    /* VUID-VkPipelineRobustnessCreateInfo-robustBufferAccess2-06931: that it is supported will do. */
    [HAS_ROBUSTNESS_2] = {VK_EXT_ROBUSTNESS_2_EXTENSION_NAME,
                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT, 0},
    [HAS_EXECUTABLES] = {VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, 1},
    [HAS_MESH] = {VK_EXT_MESH_SHADER_EXTENSION_NAME, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MESH_SHADER_FEATURES_EXT, 2},
    [HAS_IDENTIFIERS] = {VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME,
                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT, 1},
    [HAS_MAINTENANCE_5] = {"VK_KHR_maintenance5", TYPE_MAINTENANCE_5_FEATURES, 1},
    [HAS_SHADER_OBJECTS] = {"VK_EXT_shader_object", TYPE_SHADER_OBJECT_FEATURES, 1},
    [HAS_LOCAL_READ] = {"VK_KHR_dynamic_rendering_local_read", TYPE_LOCAL_READ_FEATURES, 1},
    [HAS_DESCRIPTOR_HEAP] = {"VK_EXT_descriptor_heap", TYPE_DESCRIPTOR_HEAP_FEATURES, 1},
};

typedef struct Request {
    VkPhysicalDeviceFeatures2 base;
    FeatureStruct structs[FEATURE_COUNT];
    const char *extensions[FEATURE_COUNT + 1];
    uint32_t extension_count;
} Request;

static bool is_listed(const char *name, uint32_t count, const VkExtensionProperties *all)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(all[i].extensionName, name) == 0)
            return true;
    return false;
}

static void chain_what_is_listed(Request *request, VkPhysicalDevice physical, const DeviceOptions *options)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    VkExtensionProperties *all = calloc(count ? count : 1, sizeof *all);
    if (!all)
        die("no memory");
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    request->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    for (uint32_t i = 0; i < FEATURE_COUNT; i++) {
        const char *extension = features[i].extension;
        bool unwanted = i == HAS_IDENTIFIERS && options->without_identifiers;
        if (unwanted || (extension && !is_listed(extension, count, all)))
            continue;
        if (extension)
            request->extensions[request->extension_count++] = extension;
        if (i == HAS_LIBRARIES)
            request->extensions[request->extension_count++] = VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME;
        request->structs[i].sType = features[i].type;
        request->structs[i].pNext = request->base.pNext;
        request->base.pNext = &request->structs[i];
    }
    free(all);
}

static void choose_features(Context *context, Request *request)
{
    vkGetPhysicalDeviceFeatures2(context->physical, &request->base);
    context->int64 = request->base.features.shaderInt64;
    context->tessellation = request->base.features.tessellationShader;
    /* Robust access for all pipelines would make those alike that differ in it. */
    request->base.features =
        (VkPhysicalDeviceFeatures){.shaderInt64 = request->base.features.shaderInt64,
                                   .tessellationShader = request->base.features.tessellationShader};
    for (uint32_t i = 0; i < FEATURE_COUNT; i++) {
        FeatureStruct *one = &request->structs[i];
        /* VkPhysicalDeviceMeshShaderFeaturesEXT begins with taskShader. */
        context->has[i] = one->members[0] && (i != HAS_MESH || one->members[1]);
        memset(&one->members[features[i].enabled], 0, (MOST_MEMBERS - features[i].enabled) * sizeof(VkBool32));
    }
}

/* ---- device -------------------------------------------------------------------------------------------------- */

static void create_instance(Context *context)
{
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "paths", .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    must(vkCreateInstance(&info, NULL, &context->instance), "vkCreateInstance");
    uint32_t one = 1;
    if (vkEnumeratePhysicalDevices(context->instance, &one, &context->physical) < 0 || one == 0)
        die("no Vulkan device");
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
    vkGetPhysicalDeviceProperties2(context->physical, &properties);
    context->min_subgroup = sizes.minSubgroupSize;
    context->max_subgroup = sizes.maxSubgroupSize;
}

static void create_device(Context *context, const DeviceOptions *options)
{
    Request request = {.extension_count = 0};
    chain_what_is_listed(&request, context->physical, options);
    choose_features(context, &request);
    VkPhysicalDeviceGroupProperties group = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES};
    uint32_t one = 1;
    if (vkEnumeratePhysicalDeviceGroups(context->instance, &one, &group) < 0)
        die("no device group");
    context->group_size = group.physicalDeviceCount;
    VkDeviceGroupDeviceCreateInfo group_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO,
                                                .pNext = &request.base,
                                                .physicalDeviceCount = 1,
                                                .pPhysicalDevices = &context->physical};
    const void *chain = options->group ? (const void *)&group_info : &request.base;
    VkDevicePrivateDataCreateInfo slots = {.sType = VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO,
                                           .pNext = chain,
                                           .privateDataSlotRequestCount = options->reserved_slots};
    if (options->reserved_slots && context->has[HAS_PRIVATE_DATA])
        chain = &slots;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = chain,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = request.extension_count,
                               .ppEnabledExtensionNames = request.extensions};
    must(vkCreateDevice(context->physical, &info, NULL, &context->device), "vkCreateDevice");
}

/* ---- what pipelines need -------------------------------------------------------------------------------------- */

static void create_layout(Context *context)
{
    VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
    };
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = COUNT_OF(bindings),
                                           .pBindings = bindings};
    must(vkCreateDescriptorSetLayout(context->device, &set, NULL, &context->set), "vkCreateDescriptorSetLayout");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &context->set,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    must(vkCreatePipelineLayout(context->device, &layout, NULL, &context->layout), "vkCreatePipelineLayout");
}

/* Two subpasses with one color attachment; two views where wanted. */
static VkRenderPass create_pass(VkDevice device, bool views)
{
    VkAttachmentDescription attachment = {.format = COLOR_FORMAT,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                          .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                          .finalLayout = VK_IMAGE_LAYOUT_GENERAL};
    VkAttachmentReference color = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpasses[2] = {{.colorAttachmentCount = 1, .pColorAttachments = &color},
                                         {.colorAttachmentCount = 1, .pColorAttachments = &color}};
    uint32_t masks[2] = {3, 3};
    VkRenderPassMultiviewCreateInfo multiview = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO, .subpassCount = 2, .pViewMasks = masks};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .pNext = views ? &multiview : NULL,
                                   .attachmentCount = 1,
                                   .pAttachments = &attachment,
                                   .subpassCount = 2,
                                   .pSubpasses = subpasses};
    VkRenderPass pass;
    must(vkCreateRenderPass(device, &info, NULL, &pass), "vkCreateRenderPass");
    return pass;
}

void context_create(Context *context, const DeviceOptions *options)
{
    memset(context, 0, sizeof *context);
    create_instance(context);
    create_device(context, options);
    create_layout(context);
    context->pass = create_pass(context->device, false);
    if (context->has[HAS_MULTIVIEW])
        context->views_pass = create_pass(context->device, true);
    for (enum Shader shader = 0; shader < SHADER_COUNT; shader++) {
        VkShaderModuleCreateInfo info = shader_code(shader);
        if (shader_is_there(context, shader))
            must(vkCreateShaderModule(context->device, &info, NULL, &context->modules[shader]), "vkCreateShaderModule");
    }
}

void context_destroy(Context *context)
{
    for (enum Shader shader = 0; shader < SHADER_COUNT; shader++)
        vkDestroyShaderModule(context->device, context->modules[shader], NULL);
    vkDestroyRenderPass(context->device, context->views_pass, NULL);
    vkDestroyRenderPass(context->device, context->pass, NULL);
    vkDestroyPipelineLayout(context->device, context->layout, NULL);
    vkDestroyDescriptorSetLayout(context->device, context->set, NULL);
    vkDestroyDevice(context->device, NULL);
    vkDestroyInstance(context->instance, NULL);
}
