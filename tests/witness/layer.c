/* Which commands the witness has, and the driver's commands behind them. */
#include "witness.h"

#include "../test_layer.h"

#include <stdlib.h>
#include <string.h>

Watched *watched_of(VkDevice device)
{
    return find_known(device)->own;
}

void device_was_created(const VkDeviceCreateInfo *info, VkResult result, Known *created)
{
    count_call(DO_CREATE_DEVICE);
    note_device(info, result);
    if (!created)
        return;
    Watched *made = calloc(1, sizeof *made);
    if (!made)
        abort();
#define NEXT(member, name) made->member = (PFN_##name)created->get_of_device(created->device, #name)
    NEXT(create_cache, vkCreatePipelineCache);
    NEXT(get_cache_data, vkGetPipelineCacheData);
    NEXT(merge_caches, vkMergePipelineCaches);
    NEXT(create_graphics, vkCreateGraphicsPipelines);
    NEXT(create_compute, vkCreateComputePipelines);
    NEXT(create_rays, vkCreateRayTracingPipelinesKHR);
    NEXT(get_key, vkGetPipelineKeyKHR);
    NEXT(create_binaries, vkCreatePipelineBinariesKHR);
    NEXT(get_binary_data, vkGetPipelineBinaryDataKHR);
    NEXT(release_captured, vkReleaseCapturedPipelineDataKHR);
#undef NEXT
    created->own = made;
}

void device_is_destroyed(void)
{
    count(COUNT_DEVICES_DESTROYED, 1);
}

PFN_vkVoidFunction own_command(const char *name)
{
    const EntryPoint *command = watched_commands;
    while (command->name && strcmp(command->name, name) != 0)
        command++;
    return command->function;
}
