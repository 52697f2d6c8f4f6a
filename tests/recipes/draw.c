/* draw.c - draws with a pipeline into an image without a window, so that what it does can be compared. */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

/* The buffer has the pixels of both layers, and behind them the values that shaders write. */
enum { PIXEL_BYTES = 2 * CANVAS_SIDE * CANVAS_SIDE * 4, VALUE_BYTES = 64 * 4 };

typedef struct Canvas {
    VkQueue queue;
    VkDescriptorPool sets;
    VkDescriptorSet set;
    VkImage image; /* of two layers */
    VkDeviceMemory image_memory;
    VkImageView views[2]; /* one layer, both layers */
    VkFramebuffer framebuffers[2];
    VkBuffer buffer;
    VkDeviceMemory buffer_memory;
    uint8_t *bytes; /* mapped */
    VkCommandPool pool;
    VkCommandBuffer commands;
} Canvas;

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static VkDeviceMemory allocate_memory(const Device *device, VkMemoryRequirements needs, VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(device->physical, &types);
    uint32_t type = 0;
    while (type < types.memoryTypeCount &&
           !(needs.memoryTypeBits >> type & 1 && (types.memoryTypes[type].propertyFlags & wanted) == wanted))
        type++;
    if (type == types.memoryTypeCount)
        die("no memory of the type that is needed");
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
    VkDeviceMemory memory;
    must(vkAllocateMemory(device->handle, &info, NULL, &memory), "vkAllocateMemory");
    return memory;
}

static void create_buffer(Canvas *canvas, const Device *device)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = PIXEL_BYTES + VALUE_BYTES,
                               .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkMemoryRequirements needs;
    void *mapped;
    must(vkCreateBuffer(device->handle, &info, NULL, &canvas->buffer), "vkCreateBuffer");
    vkGetBufferMemoryRequirements(device->handle, canvas->buffer, &needs);
    canvas->buffer_memory =
        allocate_memory(device, needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    must(vkBindBufferMemory(device->handle, canvas->buffer, canvas->buffer_memory, 0), "vkBindBufferMemory");
    must(vkMapMemory(device->handle, canvas->buffer_memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    canvas->bytes = mapped;
}

static void create_image(Canvas *canvas, const Device *device)
{
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = COLOR_FORMAT,
                              .extent = {CANVAS_SIDE, CANVAS_SIDE, 1},
                              .mipLevels = 1,
                              .arrayLayers = 2,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              .usage = VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT};
    VkMemoryRequirements needs;
    must(vkCreateImage(device->handle, &info, NULL, &canvas->image), "vkCreateImage");
    vkGetImageMemoryRequirements(device->handle, canvas->image, &needs);
    canvas->image_memory = allocate_memory(device, needs, 0);
    must(vkBindImageMemory(device->handle, canvas->image, canvas->image_memory, 0), "vkBindImageMemory");
    for (uint32_t i = 0; i < 2; i++) {
        VkRenderPass pass = objects.passes[i ? PASS_VIEWS : PASS_PLAIN];
        VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                      .image = canvas->image,
                                      .viewType = VK_IMAGE_VIEW_TYPE_2D_ARRAY,
                                      .format = COLOR_FORMAT,
                                      .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, i + 1}};
        must(vkCreateImageView(device->handle, &view, NULL, &canvas->views[i]), "vkCreateImageView");
        if (pass == VK_NULL_HANDLE)
            continue;
        VkFramebufferCreateInfo frame = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                         .renderPass = pass,
                                         .attachmentCount = 1,
                                         .pAttachments = &canvas->views[i],
                                         .width = CANVAS_SIDE,
                                         .height = CANVAS_SIDE,
                                         .layers = 1};
        must(vkCreateFramebuffer(device->handle, &frame, NULL, &canvas->framebuffers[i]), "vkCreateFramebuffer");
    }
}

static void create_set(Canvas *canvas, const Device *device)
{
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
    must(vkCreateDescriptorPool(device->handle, &pool, NULL, &canvas->sets), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = canvas->sets,
                                        .descriptorSetCount = 1,
                                        .pSetLayouts = &objects.set_layout};
    must(vkAllocateDescriptorSets(device->handle, &info, &canvas->set), "vkAllocateDescriptorSets");
    VkDescriptorBufferInfo values = {canvas->buffer, PIXEL_BYTES, VALUE_BYTES};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .dstSet = canvas->set,
                                  .descriptorCount = 1,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = &values};
    vkUpdateDescriptorSets(device->handle, 1, &write, 0, NULL);
}

static void create_commands(Canvas *canvas, const Device *device)
{
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT};
    must(vkCreateCommandPool(device->handle, &pool, NULL, &canvas->pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = canvas->pool, .commandBufferCount = 1};
    must(vkAllocateCommandBuffers(device->handle, &commands, &canvas->commands), "vkAllocateCommandBuffers");
    vkGetDeviceQueue(device->handle, 0, 0, &canvas->queue);
}

static Canvas *canvas_of(State *state)
{
    if (state->canvas)
        return state->canvas;
    Canvas *canvas = state->canvas = allocate(1, sizeof *canvas);
    const Device *device = state->device;
    create_buffer(canvas, device);
    create_image(canvas, device);
    create_set(canvas, device);
    create_commands(canvas, device);
    return canvas;
}

void canvas_destroy(State *state)
{
    Canvas *canvas = state->canvas;
    VkDevice device = state->device->handle;
    if (!canvas)
        return;
    vkDestroyCommandPool(device, canvas->pool, NULL);
    vkDestroyDescriptorPool(device, canvas->sets, NULL);
    for (unsigned i = 0; i < 2; i++) {
        vkDestroyFramebuffer(device, canvas->framebuffers[i], NULL);
        vkDestroyImageView(device, canvas->views[i], NULL);
    }
    vkDestroyImage(device, canvas->image, NULL);
    vkDestroyBuffer(device, canvas->buffer, NULL);
    vkFreeMemory(device, canvas->image_memory, NULL);
    vkFreeMemory(device, canvas->buffer_memory, NULL);
    free(canvas);
    state->canvas = NULL;
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

static void begin(Canvas *canvas)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    must(vkBeginCommandBuffer(canvas->commands, &info), "vkBeginCommandBuffer");
}

/* Everything before is done, and seen by everything behind and by the host. */
static void barrier(Canvas *canvas, VkImageLayout from, VkImageLayout to)
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
                                  .image = canvas->image,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 2}};
    vkCmdPipelineBarrier(canvas->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL,
                         from != to, &image);
}

static void finish(Canvas *canvas)
{
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &canvas->commands};
    must(vkEndCommandBuffer(canvas->commands), "vkEndCommandBuffer");
    must(vkQueueSubmit(canvas->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    must(vkQueueWaitIdle(canvas->queue), "vkQueueWaitIdle");
}

static void begin_rendering(Canvas *canvas, const Device *device, bool in_pass, bool two_views)
{
    VkClearValue clear = {.color = {.float32 = {0, 0, 0, 0}}};
    VkRect2D area = {{0, 0}, {CANVAS_SIDE, CANVAS_SIDE}};
    if (in_pass) {
        VkRenderPassBeginInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                      .renderPass = objects.passes[two_views ? PASS_VIEWS : PASS_PLAIN],
                                      .framebuffer = canvas->framebuffers[two_views],
                                      .renderArea = area,
                                      .clearValueCount = 1,
                                      .pClearValues = &clear};
        vkCmdBeginRenderPass(canvas->commands, &info, VK_SUBPASS_CONTENTS_INLINE);
        return;
    }
    VkRenderingAttachmentInfo color = {.sType = VK_STRUCTURE_TYPE_RENDERING_ATTACHMENT_INFO,
                                       .imageView = canvas->views[two_views],
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
    vkCmdBeginRendering(canvas->commands, &info);
}

static void draw(Canvas *canvas, const Device *device, VkPipeline pipeline, const PipelineTraits *traits)
{
    bool in_pass = !traits->dynamic_rendering, two_views = traits->two_views;
    VkViewport area = {0, 0, CANVAS_SIDE, CANVAS_SIDE, 0, 1};
    VkRect2D scissor = {{0, 0}, {CANVAS_SIDE, CANVAS_SIDE}};
    VkBufferImageCopy copy = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, two_views ? 2 : 1},
                              .imageExtent = {CANVAS_SIDE, CANVAS_SIDE, 1}};
    begin(canvas);
    barrier(canvas, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL);
    vkCmdBindPipeline(canvas->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline);
    vkCmdBindDescriptorSets(canvas->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, objects.layout, 0, 1, &canvas->set, 0,
                            NULL);
    begin_rendering(canvas, device, in_pass, two_views);
    if (!traits->static_area) {
        vkCmdSetViewport(canvas->commands, 0, 1, &area);
        vkCmdSetScissor(canvas->commands, 0, 1, &scissor);
    }
    if (traits->any_topology) {
        vkCmdSetPrimitiveTopology(canvas->commands, VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST);
        vkCmdSetPrimitiveRestartEnable(canvas->commands, VK_FALSE);
    }
    vkCmdDraw(canvas->commands, 3, 1, 0, 0);
    if (in_pass)
        vkCmdEndRenderPass(canvas->commands);
    else
        vkCmdEndRendering(canvas->commands);
    barrier(canvas, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    vkCmdCopyImageToBuffer(canvas->commands, canvas->image, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, canvas->buffer, 1,
                           &copy);
    barrier(canvas, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL);
    finish(canvas);
}

static void dispatch(Canvas *canvas, const Device *device, VkPipeline pipeline)
{
    begin(canvas);
    vkCmdBindPipeline(canvas->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(canvas->commands, VK_PIPELINE_BIND_POINT_COMPUTE, objects.layout, 0, 1, &canvas->set, 0,
                            NULL);
    vkCmdDispatch(canvas->commands, 1, 1, 1);
    barrier(canvas, VK_IMAGE_LAYOUT_UNDEFINED, VK_IMAGE_LAYOUT_UNDEFINED);
    finish(canvas);
}

/* ---- what came of it ------------------------------------------------------------------------------------------- */

static unsigned drawn_pixels(const Canvas *canvas)
{
    unsigned drawn = 0;
    for (size_t i = 0; i < PIXEL_BYTES; i += 4) {
        const uint8_t *pixel = canvas->bytes + i;
        drawn += (pixel[0] | pixel[1] | pixel[2] | pixel[3]) != 0;
    }
    return drawn;
}

/* draw P0: into an image without a window, or with a compute pipeline into a buffer */
const char *run_draw(State *state, const Words *words)
{
    int slot = slot_of(words->word[1], 'P');
    const PipelineSlot *pipeline = slot < 0 ? NULL : &state->pipelines[slot];
    if (!pipeline || !pipeline->handle || pipeline->wording.point == POINT_RAYS || pipeline->traits.library)
        return words->word[1];
    Canvas *canvas = canvas_of(state);
    memset(canvas->bytes, 0, PIXEL_BYTES + VALUE_BYTES);
    if (pipeline->wording.point == POINT_COMPUTE)
        dispatch(canvas, state->device, pipeline->handle);
    else
        draw(canvas, state->device, pipeline->handle, &pipeline->traits);
    fprintf(state->out, "drawn=%u image=%016llx values=%016llx\n", drawn_pixels(canvas),
            (unsigned long long)digest(DIGEST_OF_NOTHING, canvas->bytes, PIXEL_BYTES),
            (unsigned long long)digest(DIGEST_OF_NOTHING, canvas->bytes + PIXEL_BYTES, VALUE_BYTES));
    return NULL;
}
