/* shader_modules.c - see shader_modules.h. The code of a stage comes as a module, inline or as an identifier. */
#include "shaders/shader_modules.h"

#include "shaders/identifiers.h"
#include "vulkan/pnext.h"

static uint64_t code_of_info(const VkShaderModuleCreateInfo *info)
{
    uint64_t code = digest64(info->pCode, info->codeSize, 0);
    return code ? code : 1; /* 0 means unknown */
}

/* Shaders kept that came inline and not as a module. For further ones the driver is asked each time. */
#define MAX_IDENTIFIED_CODE 16384

/* Code chained to a stage comes again with each pipeline. The driver computes an identifier by a cryptographic
 * hash, so ask once for each code. */
static uint64_t code_of_inline_info(Shaders *shaders, const VkShaderModuleCreateInfo *info)
{
    uint64_t code = code_of_info(info);
    if (!shaders->driver->get_code_identifier)
        return code;
    uint64_t identifier = shared_map_find(&shaders->identified_code, code);
    if (identifier)
        return identifier;
    identifier = identifier_of(shaders, VK_NULL_HANDLE, info);
    if (!identifier)
        return code;
    shared_map_put(&shaders->identified_code, code, identifier, MAX_IDENTIFIED_CODE);
    return identifier;
}

uint64_t shader_code_of_stage(Shaders *shaders, const VkPipelineShaderStageCreateInfo *stage)
{
    /* VUID-VkPipelineShaderStageCreateInfo-stage-06844, -06845, -06848: exactly one of the three. */
    if (stage->module != VK_NULL_HANDLE)
        return shared_map_find(&shaders->modules, (uint64_t)stage->module);
    const VkShaderModuleCreateInfo *code =
        (const void *)pnext_find(stage->pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    if (code)
        return code_of_inline_info(shaders, code);
    const uint64_t identifier = identifier_of_stage(stage); /* one of no bytes counts as absent */
    count(&counters_of(shaders->run)->totals.identified_shaders, identifier ? 1 : 0);
    return identifier;
}

void shader_module_note(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info)
{
    uint64_t identifier = identifier_of(shaders, module, info);
    shared_map_put(&shaders->modules, (uint64_t)module, identifier ? identifier : code_of_info(info), SIZE_MAX);
}

void shader_module_forget(Shaders *shaders, VkShaderModule module)
{
    shared_map_remove(&shaders->modules, (uint64_t)module);
    object_names_forget_module(shaders, module);
}
