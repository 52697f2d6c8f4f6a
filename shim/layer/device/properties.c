/*
 * properties.c - vkGetPhysicalDeviceProperties2: what the application is told about pipeline binaries.
 *
 * Where the layer itself answers VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo, it may report an internal cache.
 * If the user installed a filled store, it may also report that asking this cache is better than keeping files ('a
 * layer may decide to set this property', VkPhysicalDevicePipelineBinaryPropertiesKHR).
 */
#include "loader/dispatch.h"
#include "policy/mailbox.h"
#include "process/process.h"
#include "vulkan/pnext.h"
#include "device/properties.h"

/* Long enough for an interpreter that is still booting. Without an answer the driver's values stand, which are
 * correct too. */
#define PROPERTIES_WAIT_NS 1000000000ll

static void take_answer(VkPhysicalDevicePipelineBinaryPropertiesKHR *out, const PylayerProperties *answer)
{
    if (!answer->answered)
        return;
    out->pipelineBinaryInternalCache |= answer->internal_cache != 0;
    /* An application must be able to disable the internal cache that it is told of. */
    out->pipelineBinaryInternalCacheControl |= answer->internal_cache != 0 && answer->internal_cache_control != 0;
    out->pipelineBinaryPrefersInternalCache = answer->prefers_internal_cache != 0;
    out->pipelineBinaryPrecompiledInternalCache = answer->precompiled_internal_cache != 0;
}

VKAPI_ATTR void VKAPI_CALL layer_GetPhysicalDeviceProperties2(VkPhysicalDevice physical,
                                                              VkPhysicalDeviceProperties2 *properties)
{
    Instance *instance = dispatch_find(&instance_table, dispatch_key(physical));
    instance->get_properties2(physical, properties);
    VkPhysicalDevicePipelineBinaryPropertiesKHR *binary = (void *)(uintptr_t)pnext_find(
        properties->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_BINARY_PROPERTIES_KHR);
    if (!binary || process_is_forked_child() || !mailbox_is_open())
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_PROPERTIES, 0);
    if (!message)
        return;
    FeatureSupport support;
    describe_device(&message->info, instance, physical, NULL, &support);
    describe_instance(message, instance);
    /* A driver without the extension leaves the struct unchanged, and so does the layer. */
    if (support.pipeline_binary && mailbox_request(message, PROPERTIES_WAIT_NS))
        take_answer(binary, &message->properties);
    message_done(message);
}
