/* device.c - the instance, and a device with the features that a recipe's first line names. */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

/* ---- features ------------------------------------------------------------------------------------------------ */

/* Every feature struct is this, with as many members as it has. */
enum { MOST_MEMBERS = 8, MAX_EXTENSIONS = 2 * FEATURE_COUNT };
typedef struct FeatureStruct {
    VkStructureType sType;
    void *pNext;
    VkBool32 members[MOST_MEMBERS];
} FeatureStruct;

#define TYPE(name) VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##name
#define CORE_13(name) offsetof(VkPhysicalDeviceVulkan13Features, name)

/* The feature structs that the word asks for, all of which the driver must have. */
typedef struct Row {
    const char *word;
    Feature feature;
    const char *extension; /* NULL: part of Vulkan 1.3 */
    VkStructureType type;
    uint32_t least;   /* so many members must be there */
    uint32_t enabled; /* so many are enabled, where the driver has them */
    size_t core;      /* of Vulkan 1.3: the first member in VkPhysicalDeviceVulkan13Features */
} Row;

/* The words of a line `device` are those of rows and core_rows, and
 *   all, without=WORD,...  everything but rays, binaries, incremental and maintenance8, and but these
 *   extension=NAME         an extension more, which has no features
 *   off=WORD,...           extensions of which the features are not enabled
 *   separate               Vulkan 1.3's features by a struct each
 *   modules                with a module of each shader, for elements of which the recipe has made none
 *   slots, group           with VkDevicePrivateDataCreateInfo, VkDeviceGroupDeviceCreateInfo
 *   no-internal-cache      with VkDevicePipelineBinaryInternalCacheControlKHR
 *   unasked-identifiers    pipelines may have identifiers although the extension is not enabled
 *   vulkan14               with a VkPhysicalDeviceVulkan14Features that enables nothing
 *   unknown=N              with a structure that nobody knows, behind N of the others
 *   allocator              everything with allocation callbacks */
static const Row rows[] = {
    {"control", CONTROL_FEATURE, NULL, TYPE(PIPELINE_CREATION_CACHE_CONTROL_FEATURES), 1, 1,
     CORE_13(pipelineCreationCacheControl)},
    {"rendering", RENDERING, NULL, TYPE(DYNAMIC_RENDERING_FEATURES), 1, 1, CORE_13(dynamicRendering)},
    {"subgroups", SUBGROUPS, NULL, TYPE(SUBGROUP_SIZE_CONTROL_FEATURES), 1, 2, CORE_13(subgroupSizeControl)},
    {"private", PRIVATE_DATA, NULL, TYPE(PRIVATE_DATA_FEATURES), 1, 1, CORE_13(privateData)},
    {"multiview", MULTIVIEW, NULL, TYPE(MULTIVIEW_FEATURES), 1, 3, 0},
    {"libraries", LIBRARIES, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME,
     TYPE(GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT), 1, 1, 0},
    {"robustness", ROBUSTNESS, VK_EXT_PIPELINE_ROBUSTNESS_EXTENSION_NAME, TYPE(PIPELINE_ROBUSTNESS_FEATURES_EXT), 1, 1,
     0},
    /* VUID-VkPipelineRobustnessCreateInfo-robustBufferAccess2-06931: that it is supported will do. */
    {"robustness2", ROBUSTNESS_2, VK_EXT_ROBUSTNESS_2_EXTENSION_NAME, TYPE(ROBUSTNESS_2_FEATURES_EXT), 1, 0, 0},
    {"executables", EXECUTABLES, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
     TYPE(PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR), 1, 1, 0},
    {"mesh", MESH_SHADERS, VK_EXT_MESH_SHADER_EXTENSION_NAME, TYPE(MESH_SHADER_FEATURES_EXT), 2, 2, 0},
    {"identifiers", IDENTIFIERS, VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME,
     TYPE(SHADER_MODULE_IDENTIFIER_FEATURES_EXT), 1, 1, 0},
    {"maintenance5", MAINTENANCE_5, VK_KHR_MAINTENANCE_5_EXTENSION_NAME, TYPE(MAINTENANCE_5_FEATURES_KHR), 1, 1, 0},
    {"shader-objects", SHADER_OBJECTS, "VK_EXT_shader_object", TYPE_SHADER_OBJECT_FEATURES, 1, 1, 0},
    {"local-read", LOCAL_READ, "VK_KHR_dynamic_rendering_local_read", TYPE_LOCAL_READ_FEATURES, 1, 1, 0},
    {"heap", DESCRIPTOR_HEAP, "VK_EXT_descriptor_heap", TYPE_DESCRIPTOR_HEAP_FEATURES, 1, 1, 0},
    {"binaries", BINARIES, VK_KHR_PIPELINE_BINARY_EXTENSION_NAME, TYPE(PIPELINE_BINARY_FEATURES_KHR), 1, 1, 0},
    {"incremental", INCREMENTAL, "VK_SEC_pipeline_cache_incremental_mode", TYPE_INCREMENTAL_CACHE_FEATURES, 1, 1, 0},
    {"maintenance8", MAINTENANCE_8, "VK_KHR_maintenance8", TYPE_MAINTENANCE_8_FEATURES, 1, 1, 0},
    {"rays", RAYS, VK_KHR_RAY_TRACING_PIPELINE_EXTENSION_NAME, TYPE(RAY_TRACING_PIPELINE_FEATURES_KHR), 1, 5, 0},
    {"rays", RAYS, VK_KHR_ACCELERATION_STRUCTURE_EXTENSION_NAME, TYPE(ACCELERATION_STRUCTURE_FEATURES_KHR), 1, 1, 0},
    {"rays", RAYS, NULL, TYPE(BUFFER_DEVICE_ADDRESS_FEATURES), 1, 1, 0},
};

static const struct {
    const char *word;
    Feature feature;
    size_t member; /* of VkPhysicalDeviceFeatures */
} core_rows[] = {
    {"int64", INT64, offsetof(VkPhysicalDeviceFeatures, shaderInt64)},
    {"tessellation", TESSELLATION, offsetof(VkPhysicalDeviceFeatures, tessellationShader)},
    {"geometry", GEOMETRY_SHADERS, offsetof(VkPhysicalDeviceFeatures, geometryShader)},
    {"vertex-stores", VERTEX_STORES, offsetof(VkPhysicalDeviceFeatures, vertexPipelineStoresAndAtomics)},
    {"fragment-stores", FRAGMENT_STORES, offsetof(VkPhysicalDeviceFeatures, fragmentStoresAndAtomics)},
};

/* Extensions without features, which those of the left side need. */
static const struct {
    Feature feature;
    const char *extension;
} needed[] = {
    {LIBRARIES, VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME},
    {RAYS, VK_KHR_DEFERRED_HOST_OPERATIONS_EXTENSION_NAME},
};

static VkBool32 *member_at(void *structure, size_t offset)
{
    return (VkBool32 *)(void *)((char *)structure + offset);
}

/* ---- what the driver has ----------------------------------------------------------------------------------------- */

/* A vkCreateDevice call that grows. */
typedef struct Request {
    const Words *words;
    FeatureStruct structs[COUNT_OF(rows)];
    VkPhysicalDeviceVulkan13Features core;
    VkPhysicalDeviceFeatures2 base;
    struct {
        VkBaseOutStructure head;
        VkBool32 members[32]; /* more than it has */
    } vulkan14;
    VkBaseOutStructure unknown;
    const char *extensions[MAX_EXTENSIONS];
    uint32_t extension_count;
    void *chain;
} Request;

static void chain(Request *request, void *structure)
{
    VkBaseOutStructure *node = structure;
    node->pNext = request->chain;
    request->chain = node;
}

static bool is_wanted(const Request *request, const char *word, Feature feature)
{
    const char *without = words_value(request->words, "without");
    if (without && listed(without, word))
        return false;
    if (words_value(request->words, word) || (words_value(request->words, "all") && feature < NOT_IN_ALL))
        return true;
    return feature == MAINTENANCE_5 && words_value(request->words, "binaries"); /* which cannot do without */
}

static bool is_listed(const char *name, uint32_t count, const VkExtensionProperties *all)
{
    for (uint32_t i = 0; name && i < count; i++)
        if (strcmp(all[i].extensionName, name) == 0)
            return true;
    return name == NULL;
}

/* Fills the structs of what is wanted and listed with what the driver has; the others have no type. */
static void query(Device *device, Request *request)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(device->physical, NULL, &count, NULL);
    VkExtensionProperties *all = allocate(count + 1, sizeof *all);
    vkEnumerateDeviceExtensionProperties(device->physical, NULL, &count, all);
    request->base.sType = TYPE(FEATURES_2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!is_wanted(request, rows[i].word, rows[i].feature) || !is_listed(rows[i].extension, count, all))
            continue;
        request->structs[i].sType = rows[i].type;
        request->structs[i].pNext = request->base.pNext;
        request->base.pNext = &request->structs[i];
    }
    free(all);
    vkGetPhysicalDeviceFeatures2(device->physical, &request->base);
}

static void note_what_is_there(Device *device, const Request *request)
{
    bool lacks[FEATURE_COUNT] = {false};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        device->has[rows[i].feature] = true;
        for (uint32_t member = 0; member < rows[i].least; member++)
            lacks[rows[i].feature] |= !request->structs[i].members[member];
    }
    for (int i = 0; i < FEATURE_COUNT; i++)
        device->has[i] &= !lacks[i];
    device->has[IDENTIFIERS] &= device->has[CONTROL_FEATURE];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].feature != MULTIVIEW)
            continue;
        device->has[VIEW_GEOMETRY] = request->structs[i].members[1];
        device->has[VIEW_TESSELLATION] = request->structs[i].members[2];
    }
}

/* ---- what is enabled --------------------------------------------------------------------------------------------- */

static void add_extension(Request *request, const char *name)
{
    if (name)
        request->extensions[request->extension_count++] = name;
}

/* Vulkan 1.3's features by their own structs, or by the one for all: either has to survive what a layer adds. With
 * off=FEATURE,... an extension is there and its features are off; recipes do as if these were on. */
static void enable(Device *device, Request *request)
{
    bool separate = words_value(request->words, "separate") != NULL;
    const char *off = words_value(request->words, "off");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FeatureStruct *one = &request->structs[i];
        if (!one->sType || !device->has[rows[i].feature])
            continue;
        add_extension(request, rows[i].extension);
        uint32_t enabled = off && listed(off, rows[i].word) ? 0 : rows[i].enabled;
        memset(&one->members[enabled], 0, (MOST_MEMBERS - enabled) * sizeof(VkBool32));
        if (rows[i].core && !separate)
            memcpy(member_at(&request->core, rows[i].core), one->members, rows[i].enabled * sizeof(VkBool32));
        else
            chain(request, one);
    }
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (device->has[needed[i].feature])
            add_extension(request, needed[i].extension);
    add_extension(request, words_value(request->words, "extension"));
    request->core.sType = TYPE(VULKAN_1_3_FEATURES);
    if (!separate)
        chain(request, &request->core);
    request->vulkan14.head.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES;
    if (words_value(request->words, "vulkan14"))
        chain(request, &request->vulkan14);
}

/* Nothing else of Vulkan 1.0: robust access for all pipelines would make those alike that differ in it, and drivers'
 * keys depend on what is enabled. */
static void enable_core(Device *device, Request *request)
{
    VkPhysicalDeviceFeatures wanted = {0};
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(core_rows); i++) {
        bool there = *member_at(&request->base.features, core_rows[i].member) &&
                     is_wanted(request, core_rows[i].word, core_rows[i].feature);
        *member_at(&wanted, core_rows[i].member) = there;
        device->has[core_rows[i].feature] = there;
        any |= there;
    }
    request->base.features = wanted;
    if (any)
        chain(request, &request->base);
}

static void insert_unknown(Request *request)
{
    VkBaseOutStructure *before = NULL, *behind = request->chain;
    for (uint32_t place = words_number(request->words, "unknown", 0); behind && place > 0; place--) {
        before = behind;
        behind = behind->pNext;
    }
    request->unknown = (VkBaseOutStructure){.sType = TYPE_UNKNOWN, .pNext = behind};
    if (before)
        before->pNext = &request->unknown;
    else
        request->chain = &request->unknown;
}

static VkResult create(Device *device, Request *request)
{
    VkDevicePipelineBinaryInternalCacheControlKHR no_cache = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, .disableInternalCache = VK_TRUE};
    VkDevicePrivateDataCreateInfo slots = {.sType = VK_STRUCTURE_TYPE_DEVICE_PRIVATE_DATA_CREATE_INFO,
                                           .privateDataSlotRequestCount = 1};
    VkDeviceGroupDeviceCreateInfo group = {.sType = VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO,
                                           .physicalDeviceCount = 1,
                                           .pPhysicalDevices = &device->physical};
    device->no_internal_cache = device->has[BINARIES] && words_value(request->words, "no-internal-cache");
    if (device->no_internal_cache)
        chain(request, &no_cache);
    if (device->has[PRIVATE_DATA] && words_value(request->words, "slots"))
        chain(request, &slots);
    if (words_value(request->words, "group"))
        chain(request, &group);
    if (words_value(request->words, "unknown"))
        insert_unknown(request);
    Request before;
    memcpy(&before, request, sizeof before);
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = request->chain,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = request->extension_count,
                               .ppEnabledExtensionNames = request->extensions};
    VkResult result = vkCreateDevice(device->physical, &info, device->allocator, &device->handle);
    if (memcmp(&before, request, sizeof before) != 0)
        die("vkCreateDevice changed what it was given");
    return result;
}

/* ---- what pipelines need ------------------------------------------------------------------------------------------ */

static void resolve(Device *device)
{
    Commands *commands = &device->commands;
#define RESOLVE(type, member, name) commands->member = (type)vkGetDeviceProcAddr(device->handle, #name);
    COMMANDS(RESOLVE)
    /* Drivers have commands of extensions whose features are off, or have them not. */
    device->has[BINARIES] &= commands->destroy_binary != NULL;
}

/* One layout fits all shaders. */
static VkResult create_layout(Device *device)
{
    VkDescriptorSetLayoutBinding bindings[] = {
        {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
        {1, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL},
        {2, VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR, 1, VK_SHADER_STAGE_ALL, NULL},
    };
    VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                           .bindingCount = device->has[RAYS] ? 3 : 2,
                                           .pBindings = bindings};
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_ALL, .size = 16};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = 1,
                                         .pSetLayouts = &device->set_layout,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult result = vkCreateDescriptorSetLayout(device->handle, &set, device->allocator, &device->set_layout);
    return result ? result : vkCreatePipelineLayout(device->handle, &layout, device->allocator, &device->layout);
}

/* With one color attachment, which may be unused; one or two subpasses, one or two views. */
static VkResult create_pass(Device *device, Pass pass)
{
    VkAttachmentDescription attachment = {.format = COLOR_FORMAT,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                          .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                          .finalLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference color = {pass == PASS_UNUSED ? VK_ATTACHMENT_UNUSED : 0,
                                   VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference unused = {VK_ATTACHMENT_UNUSED, VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpasses[2] = {{.colorAttachmentCount = 1,
                                          .pColorAttachments = &color,
                                          .pDepthStencilAttachment = pass == PASS_UNUSED ? &unused : NULL},
                                         {.colorAttachmentCount = 1, .pColorAttachments = &color}};
    uint32_t count = pass == PASS_SUBPASSES ? 2 : 1, mask = 3;
    VkRenderPassMultiviewCreateInfo views = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO, .subpassCount = count, .pViewMasks = &mask};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .pNext = pass == PASS_VIEWS ? &views : NULL,
                                   .attachmentCount = 1,
                                   .pAttachments = &attachment,
                                   .subpassCount = count,
                                   .pSubpasses = subpasses};
    return vkCreateRenderPass(device->handle, &info, device->allocator, &device->passes[pass]);
}

static VkResult create_modules(Device *device)
{
    VkResult result = VK_SUCCESS;
    for (ShaderName name = 0; name < SHADER_COUNT && !result; name++) {
        VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = shaders[name].size,
                                         .pCode = shaders[name].code};
        if (shader_is_there(device, name))
            result = vkCreateShaderModule(device->handle, &info, device->allocator, &device->modules[name]);
    }
    return result;
}

static VkResult create_objects(Device *device, const Words *words)
{
    VkResult result = create_layout(device);
    for (Pass pass = PASS_PLAIN; pass < PASS_COUNT && !result; pass++)
        if (pass != PASS_VIEWS || device->has[MULTIVIEW])
            result = create_pass(device, pass);
    return result || !words_value(words, "modules") ? result : create_modules(device);
}

/* ---- */

void instance_create(Device *device, const VkAllocationCallbacks *allocator)
{
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "recipes", .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    uint32_t one = 1;
    must(vkCreateInstance(&info, allocator, &device->instance), "vkCreateInstance");
    if (vkEnumeratePhysicalDevices(device->instance, &one, &device->physical) < 0 || one == 0)
        die("no Vulkan device");
    VkPhysicalDeviceRayTracingPipelinePropertiesKHR rays = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_RAY_TRACING_PIPELINE_PROPERTIES_KHR};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, .pNext = &rays};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &sizes};
    vkGetPhysicalDeviceProperties2(device->physical, &properties);
    device->properties = properties.properties;
    device->least_subgroup = sizes.minSubgroupSize;
    device->largest_subgroup = sizes.maxSubgroupSize;
    device->handle_size = rays.shaderGroupHandleSize;
    device->replay_handle_size = rays.shaderGroupHandleCaptureReplaySize;
    device->most_recursion = rays.maxRayRecursionDepth;
    if (device->properties.apiVersion < VK_API_VERSION_1_3)
        die("the device has no Vulkan 1.3");
    VkPhysicalDeviceGroupProperties group = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES};
    if (vkEnumeratePhysicalDeviceGroups(device->instance, &one, &group) >= 0)
        device->group_size = group.physicalDeviceCount;
}

void instance_destroy(Device *device, const VkAllocationCallbacks *allocator)
{
    vkDestroyInstance(device->instance, allocator);
}

VkResult device_create(Device *device, const Words *words)
{
    Request request = {.words = words};
    device->allocator = words_value(words, "allocator") ? allocator_begin() : NULL;
    device->unasked_identifiers = words_value(words, "unasked-identifiers");
    query(device, &request);
    note_what_is_there(device, &request);
    enable(device, &request);
    enable_core(device, &request);
    VkResult result = create(device, &request);
    if (result != VK_SUCCESS)
        return result;
    resolve(device);
    return create_objects(device, words);
}

void device_destroy(Device *device)
{
    for (int i = 0; i < SHADER_COUNT; i++)
        vkDestroyShaderModule(device->handle, device->modules[i], device->allocator);
    for (Pass pass = PASS_PLAIN; pass < PASS_COUNT; pass++)
        vkDestroyRenderPass(device->handle, device->passes[pass], device->allocator);
    vkDestroyPipelineLayout(device->handle, device->layout, device->allocator);
    vkDestroyDescriptorSetLayout(device->handle, device->set_layout, device->allocator);
    vkDestroyPipelineCache(device->handle, device->cache, device->allocator);
    vkDestroyDevice(device->handle, device->allocator);
    *device = (Device){.instance = device->instance,
                       .physical = device->physical,
                       .properties = device->properties,
                       .group_size = device->group_size,
                       .least_subgroup = device->least_subgroup,
                       .largest_subgroup = device->largest_subgroup,
                       .handle_size = device->handle_size,
                       .replay_handle_size = device->replay_handle_size,
                       .most_recursion = device->most_recursion};
}
