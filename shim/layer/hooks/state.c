/* state.c - the hooks of what pipelines are made of, shader modules apart (shaders.c) */
#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

/* A program that asks vkGetInstanceProcAddr gets the hook, even if its device records nothing. */
/* NOLINTBEGIN(bugprone-macro-parentheses): of types */
#define NOTE_CREATED(name, member, kind, Info, Made)                                                                   \
    VKAPI_ATTR VkResult VKAPI_CALL layer_##name(VkDevice handle, const Info *info,                                     \
                                                const VkAllocationCallbacks *allocator, Made *made)                    \
    {                                                                                                                  \
        Device *device = dispatch_find(&device_table, dispatch_key(handle));                                           \
        VkResult result = device->driver.member(handle, info, allocator, made);                                        \
        if (result == VK_SUCCESS && device->state.on && !process_is_forked_child())                                    \
            state_note(&device->state, kind, info, (uint64_t)*made);                                                   \
        return result;                                                                                                 \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

NOTE_CREATED(CreateSampler, create_sampler, STATE_SAMPLER, VkSamplerCreateInfo, VkSampler)
NOTE_CREATED(CreateSamplerYcbcrConversion, create_ycbcr_conversion, STATE_YCBCR_CONVERSION,
             VkSamplerYcbcrConversionCreateInfo, VkSamplerYcbcrConversion)
NOTE_CREATED(CreateSamplerYcbcrConversionKHR, create_ycbcr_conversion_khr, STATE_YCBCR_CONVERSION,
             VkSamplerYcbcrConversionCreateInfo, VkSamplerYcbcrConversion)
NOTE_CREATED(CreateDescriptorSetLayout, create_set_layout, STATE_SET_LAYOUT, VkDescriptorSetLayoutCreateInfo,
             VkDescriptorSetLayout)
NOTE_CREATED(CreatePipelineLayout, create_pipeline_layout, STATE_PIPELINE_LAYOUT, VkPipelineLayoutCreateInfo,
             VkPipelineLayout)
NOTE_CREATED(CreateRenderPass, create_render_pass, STATE_RENDER_PASS, VkRenderPassCreateInfo, VkRenderPass)
NOTE_CREATED(CreateRenderPass2, create_render_pass_2, STATE_RENDER_PASS_2, VkRenderPassCreateInfo2, VkRenderPass)
NOTE_CREATED(CreateRenderPass2KHR, create_render_pass_2_khr, STATE_RENDER_PASS_2, VkRenderPassCreateInfo2, VkRenderPass)
