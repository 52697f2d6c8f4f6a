/*
 * identifiers.c - VK_EXT_shader_module_identifier: what a shader is, where a program may leave its code out.
 *
 * A program that keeps identifiers has modules in the run that compiles and only identifiers in the next one. Both are to
 * have one fingerprint, or the store would take its records for unused. An identifier tells nothing of the code behind
 * it, so where the program enables the feature, the code's identifier stands for the code.
 */
#include "shaders/identifiers.h"

#include "device/device.h"

/* Equal bytes as an identifier are something else than as code. */
#define IDENTIFIER_SEED 0x6964656e74696679ull

/* VUID-vkGetShaderModuleIdentifierEXT-shaderModuleIdentifier-06884 and -vkGetShaderModuleCreateInfoIdentifierEXT-
 * shaderModuleIdentifier-06885 ask for the feature. */
void identifiers_open(Device *device)
{
    device->get_module_identifier = (PFN_vkGetShaderModuleIdentifierEXT)device->get_device_proc_addr(
        device->handle, "vkGetShaderModuleIdentifierEXT");
    device->get_code_identifier = (PFN_vkGetShaderModuleCreateInfoIdentifierEXT)device->get_device_proc_addr(
        device->handle, "vkGetShaderModuleCreateInfoIdentifierEXT");
}

uint64_t identifier_digest(const uint8_t *identifier, uint32_t size)
{
    return size && size <= VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT ? digest64(identifier, size, IDENTIFIER_SEED) : 0;
}

uint64_t identifier_of_module(const Device *device, VkShaderModule module)
{
    if (!device->get_module_identifier)
        return 0;
    VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
    device->get_module_identifier(device->handle, module, &found);
    return identifier_digest(found.identifier, found.identifierSize);
}

uint64_t identifier_of_code(const Device *device, const VkShaderModuleCreateInfo *info)
{
    if (!device->get_code_identifier)
        return 0;
    /* Chained to a stage, it has the rest of the stage's chain behind it. */
    VkShaderModuleCreateInfo alone = *info;
    alone.pNext = NULL;
    VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
    device->get_code_identifier(device->handle, &alone, &found);
    return identifier_digest(found.identifier, found.identifierSize);
}
