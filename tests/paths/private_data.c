/* private_data.c - what a program attaches to pipelines and caches is there when it asks, and on no other object. */
#include "modes.h"

#define PIPELINES 3
#define SLOTS 2 /* the device reserved one */

static void check(Path *path, const char *name, VkObjectType type, uint64_t object, VkPrivateDataSlot slot,
                  uint64_t expected)
{
    uint64_t found = ~0ull;
    vkGetPrivateData(path->context->device, type, object, slot, &found);
    say(path, name, "kept=%d", found == expected);
}

static void attach(Path *path, const char *name, VkObjectType type, uint64_t object, const VkPrivateDataSlot *slots,
                   uint64_t value)
{
    VkDevice device = path->context->device;
    check(path, name, type, object, slots[0], 0);
    VkResult first = vkSetPrivateData(device, type, object, slots[0], value);
    VkResult second = vkSetPrivateData(device, type, object, slots[1], value + 1);
    say(path, name, "set=%d,%d", first, second);
}

void mode_private_data(Path *path)
{
    if (lacks(path, path->context->has[HAS_PRIVATE_DATA], "private-data"))
        return;
    VkDevice device = path->context->device;
    VkPrivateDataSlot slots[SLOTS];
    VkPrivateDataSlotCreateInfo slot_info = {.sType = VK_STRUCTURE_TYPE_PRIVATE_DATA_SLOT_CREATE_INFO};
    for (uint32_t i = 0; i < SLOTS; i++)
        if (vkCreatePrivateDataSlot(device, &slot_info, NULL, &slots[i]) != VK_SUCCESS)
            die("vkCreatePrivateDataSlot failed");
    VkPipelineCache cache;
    VkPipelineCacheCreateInfo cache_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (vkCreatePipelineCache(device, &cache_info, NULL, &cache) != VK_SUCCESS)
        die("vkCreatePipelineCache failed");
    attach(path, "cache", VK_OBJECT_TYPE_PIPELINE_CACHE, (uint64_t)cache, slots, 7);

    Kernel kernels[PIPELINES];
    VkComputePipelineCreateInfo infos[PIPELINES];
    VkPipeline pipelines[PIPELINES];
    for (uint32_t i = 0; i < PIPELINES; i++) {
        kernel_init(&kernels[i], path->context, 800 + i);
        infos[i] = kernels[i].info;
    }
    create_kernels(path, "kernels", PIPELINES, infos, pipelines);
    for (uint32_t i = 0; i < PIPELINES; i++)
        attach(path, "pipeline", VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[i], slots, 100 + 10 * i);
    for (uint32_t i = 0; i < PIPELINES; i++) {
        check(path, "pipeline-first-slot", VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[i], slots[0], 100 + 10 * i);
        check(path, "pipeline-second-slot", VK_OBJECT_TYPE_PIPELINE, (uint64_t)pipelines[i], slots[1], 101 + 10 * i);
    }
    check(path, "cache-still", VK_OBJECT_TYPE_PIPELINE_CACHE, (uint64_t)cache, slots[0], 7);
    destroy_pipelines(path, PIPELINES, pipelines);
    vkDestroyPipelineCache(device, cache, NULL);
    for (uint32_t i = 0; i < SLOTS; i++)
        vkDestroyPrivateDataSlot(device, slots[i], NULL);
}
