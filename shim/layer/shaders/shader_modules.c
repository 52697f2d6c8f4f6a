/*
 * shader_modules.c - vkCreateShaderModule, vkDestroyShaderModule, and a digest of the code of each stage, which comes
 * as a module, inline or as an identifier.
 */
#include "shaders/shader_modules.h"

#include "shaders/identifiers.h"
#include "device/counters.h"
#include "device/device.h"
#include "loader/dispatch.h"
#include "process/process.h"

void shader_modules_open(Device *device)
{
    shared_map_open(&device->modules);
    shared_map_open(&device->identified_code);
    shared_map_open(&device->libraries);
}

void shader_modules_close(Device *device)
{
    shared_map_close(&device->modules);
    shared_map_close(&device->identified_code);
    shared_map_close(&device->libraries);
}

static uint64_t code_of_info(const VkShaderModuleCreateInfo *info)
{
    uint64_t code = digest64(info->pCode, info->codeSize, 0);
    return code ? code : 1; /* 0 means unknown */
}

/* Uses the module's identifier if it has one (identifiers.c). */
static uint64_t code_of_new_module(Device *device, VkShaderModule module, const VkShaderModuleCreateInfo *info)
{
    uint64_t identifier = identifier_of_module(device, module);
    return identifier ? identifier : code_of_info(info);
}

/* Shaders kept that came inline and not as a module. For further ones the driver is asked each time. */
#define MAX_IDENTIFIED_CODE 16384

/* Code chained to a stage comes again with each pipeline. The driver computes an identifier by a cryptographic
 * hash, so ask once for each code. */
static uint64_t code_of_inline_info(Device *device, const VkShaderModuleCreateInfo *info)
{
    uint64_t code = code_of_info(info);
    if (!device->get_code_identifier)
        return code;
    uint64_t identifier = shared_map_find(&device->identified_code, code);
    if (identifier)
        return identifier;
    identifier = identifier_of_code(device, info);
    if (!identifier)
        return code;
    shared_map_put(&device->identified_code, code, identifier, MAX_IDENTIFIED_CODE);
    return identifier;
}

uint64_t shader_code_of_stage(Device *device, const VkPipelineShaderStageCreateInfo *stage)
{
    /* VUID-VkPipelineShaderStageCreateInfo-stage-06844, -06845, -06848: exactly one of the three. */
    if (stage->module != VK_NULL_HANDLE)
        return shared_map_find(&device->modules, (uint64_t)stage->module);
    for (const VkBaseInStructure *node = stage->pNext; node; node = node->pNext) {
        if (node->sType == VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO)
            return code_of_inline_info(device, (const VkShaderModuleCreateInfo *)(const void *)node);
        if (node->sType == VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT) {
            const VkPipelineShaderStageModuleIdentifierCreateInfoEXT *chained = (const void *)node;
            /* An identifier of no bytes counts as absent. */
            if (chained->identifierSize) {
                count(&counters_of(device)->totals.identified_shaders, 1);
                return identifier_digest(chained->pIdentifier, chained->identifierSize);
            }
        }
    }
    return 0;
}

VKAPI_ATTR VkResult VKAPI_CALL layer_CreateShaderModule(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                        const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    VkResult result = device->create_shader_module(handle, info, allocator, module);
    bool wanted = device->plan.tell_creations ||
                  atomic_load_explicit(&device->carrier, memory_order_relaxed) != PYLAYER_CARRIER_OFF;
    if (result == VK_SUCCESS && wanted && !process_is_forked_child())
        shared_map_put(&device->modules, (uint64_t)*module, code_of_new_module(device, *module, info), SIZE_MAX);
    return result;
}

VKAPI_ATTR void VKAPI_CALL layer_DestroyShaderModule(VkDevice handle, VkShaderModule module,
                                                     const VkAllocationCallbacks *allocator)
{
    Device *device = dispatch_find(&device_table, dispatch_key(handle));
    /* Forget it before the driver can give the same handle to another thread. If the driver returned the handle
     * several times, for the same code (Vulkan, 'Object Model'), its code is unknown from here on. */
    if (module != VK_NULL_HANDLE && !process_is_forked_child()) {
        shared_map_remove(&device->modules, (uint64_t)module);
        object_names_forget_module(device, module);
    }
    device->destroy_shader_module(handle, module, allocator);
}
