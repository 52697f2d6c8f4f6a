/*
 * made_up API DEVICE-CHAIN [KIND STAGE-CHAIN PIPELINE-CHAIN...]: creates a device with structures chained, and pipelines on
 * it. Chains are names with commas between them; 'made-up' is a structure that nobody knows, and its sType tells its place
 * in the chain. An empty chain is '-'. KIND is compute, graphics or rays, of which the device is always the same.
 * made_up cache FILE DEVICE-CHAIN: creates a VkPipelineCache of what the file holds, a pipeline with it, and writes its data
 * back.
 *
 * Prints for each the VkResult, and whether any byte of what was chained changed that must not.
 */
#include "rays.h"

#include "../pipeline_binary.h"

#define FIRST_MADE_UP 1999999000
#define TYPE_VULKAN_1_4_FEATURES 55
#define MAX_NODES 12
#define NODE_BYTES 256

/* Larger than what is chained, so that every byte that somebody writes by mistake is seen. */
typedef union {
    VkBaseOutStructure head;
    OneFeature feature;
    Flags2 flags2;
    VkPhysicalDeviceVulkan13Features vulkan13;
    VkPipelineCreationFeedbackCreateInfo feedback;
    VkShaderModuleCreateInfo code;
    VkPipelineRobustnessCreateInfoEXT robustness;
    VkDevicePipelineBinaryInternalCacheControlKHR internal_cache;
    VkPipelineBinaryInfoKHR binaries;
    unsigned char bytes[NODE_BYTES];
} Node;

typedef struct {
    Node nodes[MAX_NODES], before[MAX_NODES];
    int count;
} Chain;

static VkPipelineCreationFeedback feedback;

static Node node_named(const char *name, int place, const VkShaderModuleCreateInfo *code)
{
    static const struct {
        const char *name;
        int type;
        VkBool32 value;
    } features[] = {
        {"vulkan13", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VK_FALSE},
        {"vulkan14", TYPE_VULKAN_1_4_FEATURES, VK_FALSE},
        {"control", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, VK_FALSE},
        {"control-on", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES, VK_TRUE},
        {"maintenance5", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, VK_FALSE},
        {"maintenance5-on", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_5_FEATURES_KHR, VK_TRUE},
        {"binary", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, VK_FALSE},
        {"binary-on", VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_FEATURES_KHR, VK_TRUE},
        {"internal-cache-off", VK_STRUCTURE_TYPE_DEVICE_PIPELINE_BINARY_INTERNAL_CACHE_CONTROL_KHR, VK_TRUE},
    };
    Node node = {.head = {0}};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (!strcmp(name, features[i].name)) {
            node.feature.sType = (VkStructureType)features[i].type;
            node.feature.feature = features[i].value;
            return node;
        }
    if (!strcmp(name, "made-up")) {
        memset(&node, 0xa5, sizeof node);
        node.head.sType = (VkStructureType)(FIRST_MADE_UP + place);
    } else if (!strcmp(name, "flags2") || !strcmp(name, "capture")) {
        node.flags2.sType = TYPE_FLAGS2;
        node.flags2.flags = name[0] == 'c' ? CAPTURE_DATA : VK_PIPELINE_CREATE_ALLOW_DERIVATIVES_BIT;
    } else if (!strcmp(name, "feedback")) {
        node.feedback.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO;
        node.feedback.pPipelineCreationFeedback = &feedback;
    } else if (!strcmp(name, "robustness")) {
        node.robustness.sType = VK_STRUCTURE_TYPE_PIPELINE_ROBUSTNESS_CREATE_INFO_EXT;
    } else if (!strcmp(name, "code") && code) {
        node.code = *code;
    } else {
        fprintf(stderr, "no structure has the name %s\n", name);
        exit(2);
    }
    return node;
}

/* The chain lives as long as out. */
static const void *make_chain(Chain *out, const char *names, const VkShaderModuleCreateInfo *code)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", strcmp(names, "-") ? names : "");
    out->count = 0;
    for (char *rest, *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        if (out->count == MAX_NODES)
            exit(2);
        out->nodes[out->count] = node_named(name, out->count, code);
        out->count++;
    }
    for (int i = 0; i < out->count; i++)
        out->nodes[i].head.pNext = i + 1 < out->count ? &out->nodes[i + 1].head : NULL;
    memcpy(out->before, out->nodes, sizeof out->nodes);
    return out->count ? &out->nodes[0] : NULL;
}

static int changed(const Chain *chain)
{
    return memcmp(chain->before, chain->nodes, (size_t)chain->count * sizeof *chain->nodes) != 0;
}

static Program program;

static bool has_extension(VkPhysicalDevice physical, const char *name)
{
    static VkExtensionProperties all[512];
    uint32_t count = sizeof all / sizeof *all;
    if (vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all) < 0)
        exit(1);
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(all[i].extensionName, name))
            return true;
    return false;
}

/* Extensions of what is chained, where the device has them. */
static uint32_t extensions_for(VkPhysicalDevice physical, const char *names, const char **extensions)
{
    static const char *const of[][2] = {
        {"control", "VK_EXT_pipeline_creation_cache_control"},
        {"maintenance5", "VK_KHR_maintenance5"},
        {"binary", "VK_KHR_pipeline_binary"},
        {"internal-cache-off", "VK_KHR_pipeline_binary"},
    };
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strstr(names, of[i][0]) && has_extension(physical, of[i][1]) &&
            !(count && !strcmp(extensions[count - 1], of[i][1])))
            extensions[count++] = of[i][1];
    return count;
}

static void make_device(const char *api, const char *names)
{
    static Chain of_instance, chain;
    const char *extensions[8];
    Wanted wanted = {.api = VK_MAKE_API_VERSION(0, 1, (uint32_t)atoi(api + 2), 0),
                     .instance_chain = make_chain(&of_instance, "made-up", NULL),
                     .features = make_chain(&chain, names, NULL),
                     .extensions = extensions};
    must(open_instance(&program, &wanted), "vkCreateInstance");
    wanted.extension_count = extensions_for(program.physical, names, extensions);
    VkResult result = open_device(&program, &wanted);
    printf("device result=%d changed=%d\n", result, changed(&chain) || changed(&of_instance));
    if (result)
        exit(1);
    must(open_shader(&program), "vkCreateShaderModule");
}

/* ---- pipelines ------------------------------------------------------------------------------------ */

/* void main() {} of a vertex shader, assembled by hand. */
static const uint32_t vertex_code[] = {
    0x07230203, 0x00010000, 0,          6, 0, 0x00020011, 1, 0x0003000e, 0, 1, 0x0005000f, 0, 4,          0x6e69616d, 0,
    0x00020013, 2,          0x00030021, 3, 2, 0x00050036, 2, 4,          0, 3, 0x000200f8, 5, 0x000100fd, 0x00010038,
};
static const VkShaderModuleCreateInfo vertex_info = {
    .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof vertex_code, .pCode = vertex_code};

static VkPipelineShaderStageCreateInfo stage_of(VkShaderStageFlagBits stage, const VkShaderModuleCreateInfo *code,
                                                const char *entry, Chain *chain, const char *names,
                                                VkShaderModule *module)
{
    VkPipelineShaderStageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = stage, .pName = entry};
    if (!strstr(names, "code"))
        must(vkCreateShaderModule(program.device, code, NULL, module), "vkCreateShaderModule");
    info.module = *module;
    info.pNext = make_chain(chain, names, code);
    return info;
}

static VkResult create_compute_pipeline(const void *chain, const VkPipelineShaderStageCreateInfo *stage,
                                        VkPipelineCache cache, VkPipeline *pipeline)
{
    VkComputePipelineCreateInfo info = compute_info(&program, "main");
    info.pNext = chain;
    info.stage = *stage;
    return vkCreateComputePipelines(program.device, cache, 1, &info, NULL, pipeline);
}

static VkResult create_graphics_pipeline(const void *chain, const VkPipelineShaderStageCreateInfo *stage,
                                         VkPipeline *pipeline)
{
    VkSubpassDescription subpass = {.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS};
    VkRenderPassCreateInfo pass_info = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO, .subpassCount = 1, .pSubpasses = &subpass};
    VkRenderPass pass;
    must(vkCreateRenderPass(program.device, &pass_info, NULL, &pass), "vkCreateRenderPass");
    VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
    VkPipelineInputAssemblyStateCreateInfo assembly = {.sType =
                                                           VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
                                                       .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    VkPipelineRasterizationStateCreateInfo raster = {.sType =
                                                         VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                                                     .rasterizerDiscardEnable = VK_TRUE,
                                                     .lineWidth = 1};
    VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                         .pNext = chain,
                                         .stageCount = 1,
                                         .pStages = stage,
                                         .pVertexInputState = &input,
                                         .pInputAssemblyState = &assembly,
                                         .pRasterizationState = &raster,
                                         .layout = program.layout,
                                         .renderPass = pass};
    VkResult result = vkCreateGraphicsPipelines(program.device, VK_NULL_HANDLE, 1, &info, NULL, pipeline);
    vkDestroyRenderPass(program.device, pass, NULL);
    return result;
}

static void print_pipeline(VkResult result, VkPipeline pipeline, const Chain *chain, const Chain *of_stage)
{
    printf("pipeline result=%d created=%d feedback=%d changed=%d\n", result, pipeline != VK_NULL_HANDLE,
           !!(feedback.flags & VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT), changed(chain) || changed(of_stage));
    feedback.flags = 0;
    vkDestroyPipeline(program.device, pipeline, NULL);
}

/* The second compute pipeline is another one. */
static void create(bool graphics, int number, const char *names, const char *stage_names)
{
    static Chain chain, of_stage;
    VkShaderModule module = VK_NULL_HANDLE;
    VkPipelineShaderStageCreateInfo stage = stage_of(
        graphics ? VK_SHADER_STAGE_VERTEX_BIT : VK_SHADER_STAGE_COMPUTE_BIT, graphics ? &vertex_info : &shader_info,
        number && !graphics ? "twin" : "main", &of_stage, stage_names, &module);
    VkPipeline pipeline = VK_NULL_HANDLE;
    const void *next = make_chain(&chain, names, NULL);
    VkResult result = graphics ? create_graphics_pipeline(next, &stage, &pipeline)
                               : create_compute_pipeline(next, &stage, VK_NULL_HANDLE, &pipeline);
    print_pipeline(result, pipeline, &chain, &of_stage);
    vkDestroyShaderModule(program.device, module, NULL);
}

static void create_rays(const char *names, const char *stage_names)
{
    static Chain chain, of_stage;
    static Rays rays;
    RayPipeline rays_info;
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof sky_rmiss_14, .pCode = sky_rmiss_14};
    rays_open(&rays);
    program.device = rays.program.device;
    ray_pipeline(&rays_info, &rays, 1);
    rays_info.info.pNext = make_chain(&chain, names, NULL);
    if (strstr(stage_names, "code"))
        rays_info.stages[1].module = VK_NULL_HANDLE;
    rays_info.stages[1].pNext = make_chain(&of_stage, stage_names, &code);
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result =
        rays.create(rays.program.device, VK_NULL_HANDLE, VK_NULL_HANDLE, 1, &rays_info.info, NULL, &pipeline);
    print_pipeline(result, pipeline, &chain, &of_stage);
    rays_close(&rays);
}

static void use_cache(const char *path, const char *device_names)
{
    static unsigned char data[1 << 20];
    static Chain chain, of_stage;
    make_device("1.3", device_names);
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(data, 1, sizeof data, file) : 0;
    if (file)
        fclose(file);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                      .pNext = make_chain(&chain, "made-up", NULL),
                                      .initialDataSize = size,
                                      .pInitialData = data};
    VkPipelineCache cache;
    must(vkCreatePipelineCache(program.device, &info, NULL, &cache), "vkCreatePipelineCache");
    VkShaderModule module = VK_NULL_HANDLE;
    VkPipelineShaderStageCreateInfo stage =
        stage_of(VK_SHADER_STAGE_COMPUTE_BIT, &shader_info, "main", &of_stage, "-", &module);
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = create_compute_pipeline(NULL, &stage, cache, &pipeline);
    print_pipeline(result, pipeline, &chain, &of_stage);
    size = sizeof data;
    must(vkGetPipelineCacheData(program.device, cache, &size, data), "vkGetPipelineCacheData");
    file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        exit(1);
    vkDestroyPipelineCache(program.device, cache, NULL);
    vkDestroyShaderModule(program.device, module, NULL);
}

int main(int count, char **arguments)
{
    if (count < 3 || (count < 4 && !strcmp(arguments[1], "cache")))
        return 2;
    if (count > 5 && !strcmp(arguments[3], "rays")) {
        create_rays(arguments[5], arguments[4]);
        return 0;
    }
    if (!strcmp(arguments[1], "cache"))
        use_cache(arguments[2], arguments[3]);
    else
        make_device(arguments[1], arguments[2]);
    for (int i = 5; i < count; i++)
        create(!strcmp(arguments[3], "graphics"), i - 5, arguments[i], arguments[4]);
    close_program(&program);
    return 0;
}
