#include "objects.h"

#include "../files.h"

#include <stdlib.h>
#include <string.h>

// ---- Instance and device ---------------------------------------------------------------------------------------

void device_open(Device *device, const Options *o)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .pApplicationName = "pipelines",
                                           .applicationVersion = 1,
                                           .pEngineName = "demo",
                                           .apiVersion = o->api};
    bool binaries = uses_binaries(o), rays = o->kind == KIND_RAY_TRACING, libraries = o->kind == KIND_LIBRARIES;
    bool extends = o->api < VK_API_VERSION_1_1 && (o->cache_control || libraries); // part of Vulkan 1.1
    instance_create(device, &application, extends ? VK_KHR_GET_PHYSICAL_DEVICE_PROPERTIES_2_EXTENSION_NAME : NULL,
                    NULL);
    device_choose(device, o->device);
    if (o->features13 && device->api < VK_API_VERSION_1_3)
        die("--features13: %s has no Vulkan 1.3", device->properties.deviceName);
    const struct {
        bool wanted;
        const char *word;
        Feature feature;
    } needs[] = {
        // VUID-VkDeviceCreateInfo-pNext-06532: the struct of Vulkan 1.3 or that of the extension, never both.
        {!o->features13, "separate", FEATURE_COUNT},
        {o->cache_control, "control", CONTROL_FEATURE},
        {o->feedback && device->api < VK_API_VERSION_1_3, "extension=VK_EXT_pipeline_creation_feedback", FEATURE_COUNT},
        {libraries, "libraries", LIBRARIES},
        {rays, "rays", RAYS},
        {binaries, "binaries", BINARIES},
        {binaries && o->disable_internal_cache, "no-internal-cache", FEATURE_COUNT},
    };
    char text[MAX_LINE] = "least";
    for (size_t i = 0; i < COUNT_OF(needs); ++i)
        if (needs[i].wanted)
            strcat(strcat(text, " "), needs[i].word);
    const Words words = words_cut(text);
    must(device_create(device, &words), "vkCreateDevice");
    for (size_t i = 0; i < COUNT_OF(needs); ++i)
        if (needs[i].wanted && needs[i].feature < FEATURE_COUNT && !device->has[needs[i].feature])
            die("%s has no %s", device->properties.deviceName, needs[i].word);
}

void device_close(Device *device)
{
    device_destroy(device);
    vkDestroyInstance(device->instance, NULL);
}

// ---- Shader modules --------------------------------------------------------------------------------------------

static void create_modules(Objects *objects, const Device *device, const Options *options)
{
    uint32_t first = options->kind == KIND_RAY_TRACING ? RAYS_FIRST : 0,
             end = options->kind == KIND_RAY_TRACING ? SHADER_COUNT : RAYS_FIRST;
    for (uint32_t i = first; i < end; ++i) {
        const Code *code = device->api < VK_API_VERSION_1_1 ? &shaders[i].code_10 : &shaders[i].code_11;
        const VkShaderModuleCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = code->bytes, .pCode = code->words};
        must(vkCreateShaderModule(device->handle, &info, NULL, &objects->modules[i]), "vkCreateShaderModule");
    }
}

// ---- Layouts ---------------------------------------------------------------------------------------------------

// As compute.comp declares them.
static const VkDescriptorType compute_bindings[] = {
    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,         VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,         VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
    VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,         VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
    VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
};

// As graphics.glsl and graphics.vert declare them.
static const VkDescriptorType graphics_bindings[] = {
    VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,         VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
    VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
    VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
    VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,         VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
};

// As rays.glsl declares them.
static const VkDescriptorType rays_bindings[] = {
    VK_DESCRIPTOR_TYPE_ACCELERATION_STRUCTURE_KHR,
    VK_DESCRIPTOR_TYPE_STORAGE_IMAGE,
    VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
    VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
};

static const struct {
    const VkDescriptorType *types;
    uint32_t count;
    VkShaderStageFlags stages;
    uint32_t push_bytes;
} layout_table[LAYOUT_COUNT] = {
    [LAYOUT_COMPUTE] = {compute_bindings, COUNT_OF(compute_bindings), VK_SHADER_STAGE_COMPUTE_BIT, 32},
    [LAYOUT_GRAPHICS] = {graphics_bindings, COUNT_OF(graphics_bindings),
                         VK_SHADER_STAGE_VERTEX_BIT | VK_SHADER_STAGE_FRAGMENT_BIT, 96},
    [LAYOUT_RAYS] = {rays_bindings, COUNT_OF(rays_bindings),
                     VK_SHADER_STAGE_RAYGEN_BIT_KHR | VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR |
                         VK_SHADER_STAGE_MISS_BIT_KHR,
                     0},
};

static void create_layout(Objects *objects, VkDevice device, LayoutName name)
{
    VkDescriptorSetLayoutBinding bindings[16] = {{0}};
    for (uint32_t i = 0; i < layout_table[name].count; ++i)
        bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                     .descriptorType = layout_table[name].types[i],
                                                     .descriptorCount = 1,
                                                     .stageFlags = layout_table[name].stages};
    const VkDescriptorSetLayoutCreateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .bindingCount = layout_table[name].count,
                                                 .pBindings = bindings};
    must(vkCreateDescriptorSetLayout(device, &set, NULL, &objects->sets[name]), "vkCreateDescriptorSetLayout");
    const VkPushConstantRange range = {.stageFlags = layout_table[name].stages, .size = layout_table[name].push_bytes};
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &objects->sets[name],
        .pushConstantRangeCount = range.size ? 1 : 0,
        .pPushConstantRanges = &range,
    };
    must(vkCreatePipelineLayout(device, &layout, NULL, &objects->layouts[name]), "vkCreatePipelineLayout");
}

// ---- Render passes ---------------------------------------------------------------------------------------------

uint32_t pass_colors(Pass pass)
{
    return pass == PASS_GBUFFER ? 3 : 1;
}

// Only formats that every implementation can draw to and blend.
static VkFormat color_format(Pass pass, uint32_t choice, uint32_t attachment)
{
    static const VkFormat lit[COLOR_FORMATS] = {VK_FORMAT_R16G16B16A16_SFLOAT, VK_FORMAT_R8G8B8A8_UNORM,
                                                VK_FORMAT_A2B10G10R10_UNORM_PACK32};
    static const VkFormat screen[COLOR_FORMATS] = {VK_FORMAT_B8G8R8A8_SRGB, VK_FORMAT_R8G8B8A8_UNORM,
                                                   VK_FORMAT_R16G16B16A16_SFLOAT};
    static const VkFormat gbuffer[3][COLOR_FORMATS] = {
        {VK_FORMAT_R8G8B8A8_SRGB, VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_SRGB},
        {VK_FORMAT_R16G16B16A16_SFLOAT, VK_FORMAT_A2B10G10R10_UNORM_PACK32, VK_FORMAT_R8G8B8A8_UNORM},
        {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_B8G8R8A8_UNORM},
    };
    return pass == PASS_GBUFFER ? gbuffer[attachment][choice] : pass == PASS_SCREEN ? screen[choice] : lit[choice];
}

static VkAttachmentDescription attachment(VkFormat format, VkSampleCountFlagBits samples, VkImageLayout layout)
{
    return (VkAttachmentDescription){
        .format = format,
        .samples = samples,
        .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
        .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
        .stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE,
        .stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE,
        .initialLayout = VK_IMAGE_LAYOUT_UNDEFINED,
        .finalLayout = layout,
    };
}

static VkRenderPass create_pass(VkDevice device, Pass pass, uint32_t format, VkSampleCountFlagBits samples)
{
    VkAttachmentDescription attachments[4];
    VkAttachmentReference colors[3];
    uint32_t count = pass_colors(pass);
    for (uint32_t i = 0; i < count; ++i) {
        attachments[i] = attachment(color_format(pass, format, i), samples, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
        colors[i] = (VkAttachmentReference){i, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    }
    const VkAttachmentReference depth = {count, VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL};
    bool has_depth = pass != PASS_SCREEN;
    if (has_depth)
        attachments[count] = attachment(VK_FORMAT_D16_UNORM, samples, VK_IMAGE_LAYOUT_DEPTH_STENCIL_ATTACHMENT_OPTIMAL);
    const VkSubpassDescription subpass = {
        .pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS,
        .colorAttachmentCount = count,
        .pColorAttachments = colors,
        .pDepthStencilAttachment = has_depth ? &depth : NULL,
    };
    const VkRenderPassCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
        .attachmentCount = count + (has_depth ? 1 : 0),
        .pAttachments = attachments,
        .subpassCount = 1,
        .pSubpasses = &subpass,
    };
    VkRenderPass created;
    must(vkCreateRenderPass(device, &info, NULL, &created), "vkCreateRenderPass");
    return created;
}

static void create_passes(Objects *objects, VkDevice device)
{
    for (uint32_t pass = 0; pass < PASS_COUNT; ++pass)
        for (uint32_t format = 0; format < COLOR_FORMATS; ++format) {
            objects->passes[pass][format][0] = create_pass(device, (Pass)pass, format, VK_SAMPLE_COUNT_1_BIT);
            objects->passes[pass][format][1] = create_pass(device, (Pass)pass, format, VK_SAMPLE_COUNT_4_BIT);
        }
}

// ---- The program's own cache -----------------------------------------------------------------------------------

void create_cache(Objects *objects, VkDevice device, const Options *options)
{
    if (options->cache == CACHE_NONE)
        return;
    uint64_t start = now_ns();
    void *data = options->cache == CACHE_FILE ? read_file(options->cache_file, &objects->cache_loaded_bytes) : NULL;
    const VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                            .initialDataSize = objects->cache_loaded_bytes,
                                            .pInitialData = data};
    uint64_t read = now_ns();
    VkResult result = vkCreatePipelineCache(device, &info, NULL, &objects->cache);
    objects->read_cache_ns = read - start;
    objects->create_cache_ns = now_ns() - read;
    free(data);
    must(result, "vkCreatePipelineCache");
}

size_t cache_size(const Objects *objects, VkDevice device)
{
    size_t size = 0;
    if (objects->cache)
        must(vkGetPipelineCacheData(device, objects->cache, &size, NULL), "vkGetPipelineCacheData");
    return size;
}

void cache_save(const Objects *objects, VkDevice device, const char *path)
{
    size_t size = cache_size(objects, device);
    void *data = allocate(size, 1);
    must(vkGetPipelineCacheData(device, objects->cache, &size, data), "vkGetPipelineCacheData");
    write_file(path, data, size);
    free(data);
}

// ---- All of them -----------------------------------------------------------------------------------------------

void objects_create(Objects *objects, const Device *device, const Options *options)
{
    memset(objects, 0, sizeof *objects);
    create_modules(objects, device, options);
    const bool rays = options->kind == KIND_RAY_TRACING;
    for (uint32_t i = rays ? LAYOUT_RAYS : 0; i < (rays ? LAYOUT_COUNT : LAYOUT_RAYS); ++i)
        create_layout(objects, device->handle, (LayoutName)i);
    if (!rays && options->kind != KIND_COMPUTE)
        create_passes(objects, device->handle);
    create_cache(objects, device->handle, options);
}

void objects_destroy(Objects *objects, VkDevice device)
{
    vkDestroyPipelineCache(device, objects->cache, NULL);
    for (uint32_t i = 0; i < PASS_COUNT * COLOR_FORMATS * SAMPLE_COUNTS; ++i)
        vkDestroyRenderPass(device, (&objects->passes[0][0][0])[i], NULL);
    for (uint32_t i = 0; i < LAYOUT_COUNT; ++i) {
        vkDestroyPipelineLayout(device, objects->layouts[i], NULL);
        vkDestroyDescriptorSetLayout(device, objects->sets[i], NULL);
    }
    for (uint32_t i = 0; i < SHADER_COUNT; ++i)
        vkDestroyShaderModule(device, objects->modules[i], NULL);
}
