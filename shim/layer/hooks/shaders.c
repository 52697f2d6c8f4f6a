/* shaders.c - the hooks of vkCreateShaderModule, vkDestroyShaderModule and vkSetDebugUtilsObjectNameEXT */
#include "device/device.h"
#include "driver/dispatch.h"
#include "process/process.h"

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateShaderModule(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    VkResult result = device->driver.create_shader_module(handle, info, allocator, module);
    bool wanted = device->run.plan.tell_creations ||
                  atomic_load_explicit(&device->run.mode, memory_order_relaxed) != PYLAYER_MODE_OFF;
    if (result == VK_SUCCESS && wanted && !process_is_forked_child())
        shader_module_note(&device->shaders, *module, info);
    if (result == VK_SUCCESS && device->state.on && !process_is_forked_child())
        state_note(&device->state, STATE_SHADER_MODULE, info, (uint64_t)*module);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyShaderModule(VkDevice handle, VkShaderModule module,
                                                     const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    /* Forget it before the driver can give the same handle to another thread. If the driver returned the handle
     * several times, for the same code (Vulkan, 'Object Model'), its code is unknown from here on. */
    if (module != VK_NULL_HANDLE && !process_is_forked_child())
        shader_module_forget(&device->shaders, module);
    device->driver.destroy_shader_module(handle, module, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL layer_SetDebugUtilsObjectNameEXT(VkDevice handle,
                                                                const VkDebugUtilsObjectNameInfoEXT *info)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    object_names_set(&device->shaders, info);
    return device->driver.set_object_name ? device->driver.set_object_name(handle, info) : VK_SUCCESS;
}
