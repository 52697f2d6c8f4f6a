/* gpu.c - see drawn.h */
#include <stdlib.h>

#include "drawn.h"

#include "colors.h"
#include "colors_writing.h"
#include "control.h"
#include "evaluation.h"
#include "evaluation_views.h"
#include "geometries.h"
#include "geometries_views.h"
#include "numbers.h"
#include "vertex.h"
#include "vertex_views.h"
#include "vertex_views_writes.h"
#include "vertex_writing.h"

#define PIXEL_BYTES (SIDE * SIDE * 4)

void die(const char *text)
{
    fprintf(stderr, "drawn: %s\n", text);
    exit(2);
}

static void must(VkResult result, const char *call)
{
    if (result == VK_SUCCESS)
        return;
    fprintf(stderr, "drawn: %s: VkResult %d\n", call, result);
    exit(2);
}

/* ---- device -------------------------------------------------------------------------------------------------- */

typedef struct Features {
    VkPhysicalDeviceVulkan11Features eleven;
    VkPhysicalDeviceVulkan13Features thirteen;
    VkPhysicalDeviceGraphicsPipelineLibraryFeaturesEXT libraries;
    VkPhysicalDeviceFeatures2 all;
} Features;

static void chain_features(Features *features, bool libraries)
{
    memset(features, 0, sizeof *features);
    features->libraries.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GRAPHICS_PIPELINE_LIBRARY_FEATURES_EXT;
    features->thirteen.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    features->thirteen.pNext = libraries ? &features->libraries : NULL;
    features->eleven.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    features->eleven.pNext = &features->thirteen;
    features->all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features->all.pNext = &features->eleven;
}

static bool offers_libraries(VkPhysicalDevice physical)
{
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL);
    VkExtensionProperties *all = calloc(count + 1, sizeof *all);
    if (!all)
        die("no memory");
    vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all);
    bool found = false;
    for (uint32_t i = 0; i < count; i++)
        found |= strcmp(all[i].extensionName, VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME) == 0;
    free(all);
    return found;
}

/* Enables what the pipelines need, and nothing else: drivers' keys depend on it. */
static void choose_features(Gpu *gpu, Features *wanted)
{
    Features have;
    bool libraries = offers_libraries(gpu->physical);
    chain_features(&have, libraries);
    vkGetPhysicalDeviceFeatures2(gpu->physical, &have.all);
    chain_features(wanted, libraries && have.libraries.graphicsPipelineLibrary);
    const VkPhysicalDeviceFeatures *core = &have.all.features;
    wanted->all.features.tessellationShader = core->tessellationShader;
    wanted->all.features.geometryShader = core->geometryShader;
    wanted->all.features.vertexPipelineStoresAndAtomics = core->vertexPipelineStoresAndAtomics;
    wanted->all.features.fragmentStoresAndAtomics = core->fragmentStoresAndAtomics;
    gpu->stages = (core->tessellationShader ? TESSELLATION : 0) | (core->geometryShader ? GEOMETRY : 0) |
                  (core->vertexPipelineStoresAndAtomics ? VERTEX_WRITES : 0) |
                  (core->fragmentStoresAndAtomics ? FRAGMENT_WRITES : 0);
    wanted->eleven.multiview = have.eleven.multiview;
    wanted->eleven.multiviewTessellationShader = have.eleven.multiviewTessellationShader;
    wanted->eleven.multiviewGeometryShader = have.eleven.multiviewGeometryShader;
    wanted->thirteen.dynamicRendering = have.thirteen.dynamicRendering;
    wanted->libraries.graphicsPipelineLibrary = libraries && have.libraries.graphicsPipelineLibrary;
    gpu->multiview = have.eleven.multiview;
    gpu->view_tessellation = have.eleven.multiviewTessellationShader;
    gpu->view_geometry = have.eleven.multiviewGeometryShader;
    gpu->dynamic_rendering = have.thirteen.dynamicRendering;
    gpu->libraries = wanted->libraries.graphicsPipelineLibrary;
}

static void create_device(Gpu *gpu)
{
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "drawn", .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    must(vkCreateInstance(&instance, NULL, &gpu->instance), "vkCreateInstance");
    uint32_t one = 1;
    if (vkEnumeratePhysicalDevices(gpu->instance, &one, &gpu->physical) < 0 || one == 0)
        die("no Vulkan device");
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(gpu->physical, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_3)
        die("the device has no Vulkan 1.3");
    printf("device %s\n", properties.deviceName);
    Features features;
    choose_features(gpu, &features);
    static const char *const extensions[] = {VK_KHR_PIPELINE_LIBRARY_EXTENSION_NAME,
                                             VK_EXT_GRAPHICS_PIPELINE_LIBRARY_EXTENSION_NAME};
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features.all,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = gpu->libraries ? 2 : 0,
                               .ppEnabledExtensionNames = extensions};
    must(vkCreateDevice(gpu->physical, &info, NULL, &gpu->device), "vkCreateDevice");
    vkGetDeviceQueue(gpu->device, 0, 0, &gpu->queue);
}

/* ---- what pipelines need --------------------------------------------------------------------------------------- */

static bool shader_is_there(const Gpu *gpu, enum Shader shader)
{
    switch (shader) {
    case VERTEX_VIEWS:
        return gpu->multiview;
    case VERTEX_VIEWS_WRITES:
        return gpu->multiview && (gpu->stages & VERTEX_WRITES);
    case VERTEX_WRITING:
        return gpu->stages & VERTEX_WRITES;
    case CONTROL:
    case EVALUATION:
        return gpu->stages & TESSELLATION;
    case EVALUATION_VIEWS:
        return gpu->view_tessellation && (gpu->stages & TESSELLATION);
    case GEOMETRIES:
        return gpu->stages & GEOMETRY;
    case GEOMETRIES_VIEWS:
        return gpu->view_geometry && (gpu->stages & GEOMETRY);
    case COLORS_WRITING:
        return gpu->stages & FRAGMENT_WRITES;
    default:
        return true;
    }
}

static void create_modules(Gpu *gpu)
{
    static const struct {
        const uint32_t *words;
        size_t bytes;
    } code[SHADER_COUNT] = {
        [VERTEX] = {vertex, sizeof vertex},
        [VERTEX_VIEWS] = {vertex_views, sizeof vertex_views},
        [VERTEX_WRITING] = {vertex_writing, sizeof vertex_writing},
        [VERTEX_VIEWS_WRITES] = {vertex_views_writes, sizeof vertex_views_writes},
        [CONTROL] = {control, sizeof control},
        [EVALUATION] = {evaluation, sizeof evaluation},
        [EVALUATION_VIEWS] = {evaluation_views, sizeof evaluation_views},
        [GEOMETRIES] = {geometries, sizeof geometries},
        [GEOMETRIES_VIEWS] = {geometries_views, sizeof geometries_views},
        [COLORS] = {colors, sizeof colors},
        [COLORS_WRITING] = {colors_writing, sizeof colors_writing},
        [NUMBERS] = {numbers, sizeof numbers},
    };
    for (enum Shader shader = 0; shader < SHADER_COUNT; shader++) {
        VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                         .codeSize = code[shader].bytes,
                                         .pCode = code[shader].words};
        if (shader_is_there(gpu, shader))
            must(vkCreateShaderModule(gpu->device, &info, NULL, &gpu->modules[shader]), "vkCreateShaderModule");
    }
}

static void create_layout(Gpu *gpu)
{
    /* VUID-VkGraphicsPipelineCreateInfo-layout-07988: every stage that uses the buffer. */
    VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_ALL, NULL};
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
    must(vkCreateDescriptorSetLayout(gpu->device, &set, NULL, &gpu->set_layout), "vkCreateDescriptorSetLayout");
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &gpu->set_layout};
    must(vkCreatePipelineLayout(gpu->device, &layout, NULL, &gpu->layout), "vkCreatePipelineLayout");
}

static VkRenderPass create_pass(const Gpu *gpu, bool two_views)
{
    VkAttachmentDescription attachment = {.format = FORMAT,
                                          .samples = VK_SAMPLE_COUNT_1_BIT,
                                          .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                          .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                          .finalLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkAttachmentReference color = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
    VkSubpassDescription subpass = {.colorAttachmentCount = 1, .pColorAttachments = &color};
    uint32_t mask = 3;
    VkRenderPassMultiviewCreateInfo views = {
        .sType = VK_STRUCTURE_TYPE_RENDER_PASS_MULTIVIEW_CREATE_INFO, .subpassCount = 1, .pViewMasks = &mask};
    VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                   .pNext = two_views ? &views : NULL,
                                   .attachmentCount = 1,
                                   .pAttachments = &attachment,
                                   .subpassCount = 1,
                                   .pSubpasses = &subpass};
    VkRenderPass pass;
    must(vkCreateRenderPass(gpu->device, &info, NULL, &pass), "vkCreateRenderPass");
    return pass;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static VkDeviceMemory allocate(const Gpu *gpu, VkMemoryRequirements needs, VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(gpu->physical, &types);
    uint32_t type = 0;
    while (type < types.memoryTypeCount &&
           !(needs.memoryTypeBits >> type & 1 && (types.memoryTypes[type].propertyFlags & wanted) == wanted))
        type++;
    if (type == types.memoryTypeCount)
        die("no memory of the type that is needed");
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
    VkDeviceMemory memory;
    must(vkAllocateMemory(gpu->device, &info, NULL, &memory), "vkAllocateMemory");
    return memory;
}

static VkBuffer create_buffer(const Gpu *gpu, VkDeviceSize size, VkBufferUsageFlags usage, VkDeviceMemory *memory,
                              uint8_t **bytes)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = usage};
    VkBuffer buffer;
    VkMemoryRequirements needs;
    void *mapped;
    must(vkCreateBuffer(gpu->device, &info, NULL, &buffer), "vkCreateBuffer");
    vkGetBufferMemoryRequirements(gpu->device, buffer, &needs);
    *memory = allocate(gpu, needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    must(vkBindBufferMemory(gpu->device, buffer, *memory, 0), "vkBindBufferMemory");
    must(vkMapMemory(gpu->device, *memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    *bytes = mapped;
    return buffer;
}

static void create_image(Gpu *gpu)
{
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = FORMAT,
                              .extent = {SIDE, SIDE, 1},
                              .mipLevels = 1,
                              .arrayLayers = 2,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    VkMemoryRequirements needs;
    must(vkCreateImage(gpu->device, &info, NULL, &gpu->image), "vkCreateImage");
    vkGetImageMemoryRequirements(gpu->device, gpu->image, &needs);
    gpu->image_memory = allocate(gpu, needs, 0);
    must(vkBindImageMemory(gpu->device, gpu->image, gpu->image_memory, 0), "vkBindImageMemory");
    for (uint32_t i = 0; i < 2; i++) {
        VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                      .image = gpu->image,
                                      .viewType = VK_IMAGE_VIEW_TYPE_2D_ARRAY,
                                      .format = FORMAT,
                                      .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, i + 1}};
        must(vkCreateImageView(gpu->device, &view, NULL, &gpu->views[i]), "vkCreateImageView");
        if (gpu->passes[i] == VK_NULL_HANDLE)
            continue;
        VkFramebufferCreateInfo frame = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                         .renderPass = gpu->passes[i],
                                         .attachmentCount = 1,
                                         .pAttachments = &gpu->views[i],
                                         .width = SIDE,
                                         .height = SIDE,
                                         .layers = 1};
        must(vkCreateFramebuffer(gpu->device, &frame, NULL, &gpu->framebuffers[i]), "vkCreateFramebuffer");
    }
}

static void create_set(Gpu *gpu)
{
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
    must(vkCreateDescriptorPool(gpu->device, &pool, NULL, &gpu->sets), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = gpu->sets,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &gpu->set_layout};
    must(vkAllocateDescriptorSets(gpu->device, &info, &gpu->set), "vkAllocateDescriptorSets");
    VkDescriptorBufferInfo whole = {gpu->values, 0, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = gpu->set,
                                  .descriptorCount = 1,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = &whole};
    vkUpdateDescriptorSets(gpu->device, 1, &write, 0, NULL);
}

void gpu_open(Gpu *gpu, bool with_cache)
{
    memset(gpu, 0, sizeof *gpu);
    create_device(gpu);
    create_modules(gpu);
    create_layout(gpu);
    for (unsigned i = 0; i < (gpu->multiview ? 2u : 1u); i++)
        gpu->passes[i] = create_pass(gpu, i == 1);
    gpu->pixels =
        create_buffer(gpu, 2 * PIXEL_BYTES, VK_BUFFER_USAGE_TRANSFER_DST_BIT, &gpu->pixels_memory, &gpu->pixel_bytes);
    gpu->values = create_buffer(gpu, VALUES * sizeof(uint32_t), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, &gpu->values_memory,
                                &gpu->value_bytes);
    create_image(gpu);
    create_set(gpu);
    VkPipelineCacheCreateInfo cache = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (with_cache)
        must(vkCreatePipelineCache(gpu->device, &cache, NULL, &gpu->cache), "vkCreatePipelineCache");
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    must(vkCreateCommandPool(gpu->device, &pool, NULL, &gpu->pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = gpu->pool, .commandBufferCount = 1};
    must(vkAllocateCommandBuffers(gpu->device, &commands, &gpu->commands), "vkAllocateCommandBuffers");
}

void gpu_close(Gpu *gpu)
{
    vkDestroyCommandPool(gpu->device, gpu->pool, NULL);
    vkDestroyPipelineCache(gpu->device, gpu->cache, NULL);
    vkDestroyDescriptorPool(gpu->device, gpu->sets, NULL);
    for (unsigned i = 0; i < 2; i++) {
        vkDestroyFramebuffer(gpu->device, gpu->framebuffers[i], NULL);
        vkDestroyImageView(gpu->device, gpu->views[i], NULL);
        vkDestroyRenderPass(gpu->device, gpu->passes[i], NULL);
    }
    vkDestroyImage(gpu->device, gpu->image, NULL);
    vkDestroyBuffer(gpu->device, gpu->pixels, NULL);
    vkDestroyBuffer(gpu->device, gpu->values, NULL);
    vkFreeMemory(gpu->device, gpu->image_memory, NULL);
    vkFreeMemory(gpu->device, gpu->pixels_memory, NULL);
    vkFreeMemory(gpu->device, gpu->values_memory, NULL);
    for (enum Shader shader = 0; shader < SHADER_COUNT; shader++)
        vkDestroyShaderModule(gpu->device, gpu->modules[shader], NULL);
    vkDestroyPipelineLayout(gpu->device, gpu->layout, NULL);
    vkDestroyDescriptorSetLayout(gpu->device, gpu->set_layout, NULL);
    vkDestroyDevice(gpu->device, NULL);
    vkDestroyInstance(gpu->instance, NULL);
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

void gpu_clear(Gpu *gpu)
{
    memset(gpu->pixel_bytes, 0, 2 * PIXEL_BYTES);
    memset(gpu->value_bytes, 0, VALUES * sizeof(uint32_t));
}

static void begin(Gpu *gpu)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    must(vkBeginCommandBuffer(gpu->commands, &info), "vkBeginCommandBuffer");
}

/* Everything before is done, and seen by everything behind and by the host. */
static void barrier(Gpu *gpu, VkImageLayout from, VkImageLayout to)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    VkImageMemoryBarrier image = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                  .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
                                  .oldLayout = from,
                                  .newLayout = to,
                                  .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                  .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                  .image = gpu->image,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 2}};
    vkCmdPipelineBarrier(gpu->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL,
                         from != to, &image);
}

static void finish(Gpu *gpu)
{
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &gpu->commands};
    must(vkEndCommandBuffer(gpu->commands), "vkEndCommandBuffer");
    must(vkQueueSubmit(gpu->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    must(vkQueueWaitIdle(gpu->queue), "vkQueueWaitIdle");
}

static void begin_rendering(Gpu *gpu, bool pass, bool two_views)
{
    VkClearValue clear = {.color = {.float32 = {0, 0, 0, 0}}};
    VkRect2D area = {{0, 0}, {SIDE, SIDE}};
    if (pass) {
        VkRenderPassBeginInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                      .renderPass = gpu->passes[two_views],
                                      .framebuffer = gpu->framebuffers[two_views],
                                      .renderArea = area,
                                      .clearValueCount = 1,
                                      .pClearValues = &clear};
        vkCmdBeginRenderPass(gpu->commands, &info, VK_SUBPASS_CONTENTS_INLINE);
        return;
    }
    VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                       .imageView = gpu->views[two_views],
                                       .imageLayout = VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL,
                                       .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                       .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                       .clearValue = clear};
    VkRenderingInfo info = {.sType = VK_STRUCTURE_TYPE_RENDERING_INFO,
                            .renderArea = area,
                            .layerCount = 1,
                            .viewMask = two_views ? 3 : 0,
                            .colorAttachmentCount = 1,
                            .pColorAttachments = &color};
    vkCmdBeginRendering(gpu->commands, &info);
}

void gpu_draw(Gpu *gpu, VkPipeline pipeline, bool pass, bool two_views)
{
    VkBufferImageCopy copy = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, two_views ? 2 : 1},
                              .imageExtent = {SIDE, SIDE, 1}};
    begin(gpu);
    barrier(gpu, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    vkCmdBindPipeline(gpu->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
    vkCmdBindDescriptorSets(gpu->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, gpu->layout, 0, 1, &gpu->set, 0, NULL);
    begin_rendering(gpu, pass, two_views);
    vkCmdDraw(gpu->commands, 3, 1, 0, 0);
    if (pass)
        vkCmdEndRenderPass(gpu->commands);
    else
        vkCmdEndRendering(gpu->commands);
    barrier(gpu, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdCopyImageToBuffer(gpu->commands, gpu->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, gpu->pixels, 1, &copy);
    barrier(gpu, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    finish(gpu);
}

void gpu_dispatch(Gpu *gpu, VkPipeline pipeline)
{
    begin(gpu);
    vkCmdBindPipeline(gpu->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(gpu->commands, VK_PIPELINE_BIND_POINT_COMPUTE, gpu->layout, 0, 1, &gpu->set, 0, NULL);
    vkCmdDispatch(gpu->commands, 1, 1, 1);
    barrier(gpu, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_UNDEFINED);
    finish(gpu);
}

/* ---- what came of it ------------------------------------------------------------------------------------------- */

unsigned gpu_pixels(const Gpu *gpu)
{
    unsigned drawn = 0;
    for (size_t i = 0; i < 2 * PIXEL_BYTES; i += 4)
        drawn +=
            (gpu->pixel_bytes[i] | gpu->pixel_bytes[i + 1] | gpu->pixel_bytes[i + 2] | gpu->pixel_bytes[i + 3]) != 0;
    return drawn;
}

static uint64_t digest(const uint8_t *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

uint64_t gpu_image_digest(const Gpu *gpu)
{
    return digest(gpu->pixel_bytes, 2 * PIXEL_BYTES);
}

uint64_t gpu_values_digest(const Gpu *gpu)
{
    return digest(gpu->value_bytes, VALUES * sizeof(uint32_t));
}
