/*
 * shaders.c - a digest of each shader's code. The code of a stage comes as a module, inline or as an identifier.
 *
 * With VK_EXT_shader_module_identifier a program may omit a shader's code. A program that stores identifiers has
 * modules in the run that compiles, and only identifiers in the next run. Both runs must get the same fingerprint, or
 * the store would treat its records as unused. An identifier does not reveal its code, so if the program enables the
 * feature, fingerprints use the code's identifier instead of the code.
 */
#include "shaders/shaders.h"

#include <string.h>

#include "crash/crash.h"
#include "process/process.h"

void shaders_close(Shaders *shaders)
{
    number_map_free(&shaders->modules.numbers);
    number_map_free(&shaders->identified_code.numbers);
    number_map_free(&shaders->libraries.numbers);
    object_names_free(&shaders->names);
}

/* ---- identifiers ------------------------------------------------------------------------------- */

/* Gives an identifier another digest than code of the same bytes. */
#define IDENTIFIER_SEED 0x6964656e74696679ull

/* VUID-vkGetShaderModuleIdentifierEXT-shaderModuleIdentifier-06884 and -vkGetShaderModuleCreateInfoIdentifierEXT-
 * shaderModuleIdentifier-06885 require the feature. */
void identifiers_open(Driver *driver)
{
    const char *wish = environment_get("PYLAYER_SHADER_IDENTIFIERS");
    if (wish && strcmp(wish, "ignore") == 0)
        return;
    driver->get_module_identifier = (PFN_vkGetShaderModuleIdentifierEXT)driver->get_device_proc_addr(
        driver->handle, "vkGetShaderModuleIdentifierEXT");
    driver->get_code_identifier = (PFN_vkGetShaderModuleCreateInfoIdentifierEXT)driver->get_device_proc_addr(
        driver->handle, "vkGetShaderModuleCreateInfoIdentifierEXT");
}

static uint64_t identifier_digest(const uint8_t *identifier, uint32_t size)
{
    return size && size <= VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT ? digest64(identifier, size, IDENTIFIER_SEED) : 0;
}

uint64_t identifier_of_stage(const VkPipelineShaderStageCreateInfo *stage)
{
    const VkPipelineShaderStageModuleIdentifierCreateInfoEXT *identifier = (const void *)pnext_find(
        stage->pNext, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT);
    return identifier ? identifier_digest(identifier->pIdentifier, identifier->identifierSize) : 0;
}

/* Returns a digest of the identifier; 0 if there is none. module: what was created from the info, if anything was. */
static uint64_t identifier_of(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info)
{
    const Driver *driver = shaders->driver;
    bool known = module != VK_NULL_HANDLE ? driver->get_module_identifier != NULL : driver->get_code_identifier != NULL;
    if (!known || call_is_off(&shaders->crash->added_calls, PYLAYER_MARK_IDENTIFIER, 0))
        return 0;
    VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
    Mark mark = mark_added(shaders->crash, PYLAYER_MARK_IDENTIFIER, 0, 0);
    if (module != VK_NULL_HANDLE) {
        driver->get_module_identifier(driver->handle, module, &found);
    } else { /* it is chained to a stage, so its pNext is the rest of the stage's chain */
        VkShaderModuleCreateInfo alone = *info;
        alone.pNext = NULL;
        driver->get_code_identifier(driver->handle, &alone, &found);
    }
    mark_end(mark);
    count(&counters_of(shaders->run)->totals.identified_shaders, 1);
    return identifier_digest(found.identifier, found.identifierSize);
}

/* ---- code -------------------------------------------------------------------------------------- */

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
