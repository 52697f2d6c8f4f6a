/*
 * identifiers.c - VK_EXT_shader_module_identifier, with which a program may omit a shader's code.
 *
 * A program that stores identifiers has modules in the run that compiles, and only identifiers in the next run. Both
 * runs must get the same fingerprint, or the store would treat its records as unused. An identifier does not reveal
 * its code, so if the program enables the feature, fingerprints use the code's identifier instead of the code.
 */
#include "shaders/identifiers.h"

#include <string.h>

#include "crash/sentinel.h"
#include "process/process.h"
#include "vulkan/pnext.h"

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

uint64_t identifier_of(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info)
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
