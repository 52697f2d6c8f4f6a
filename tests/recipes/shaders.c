/* shaders.c - shader code, modules, module identifiers and VK_EXT_shader_object. */
#include "recipes.h"

#include <stdlib.h>
#include <string.h>

#include "shaders/all.h"

#define SHADER(number, name, bit, needs)                                                                               \
    [number] = {#name, VK_SHADER_STAGE_##bit, name##_code, sizeof name##_code, needs},
const Shader shaders[SHADER_COUNT] = {SHADERS(SHADER)};

/*
 * Makes every recipe's shaders other ones than those of all recipes before, for drivers and layers alike, so that many
 * recipes can share a process and a store and each still finds no pipeline of another. The generator's version in the
 * header, of which SPIR-V says that it means nothing, is part of what they hash.
 */
void shaders_salt(State *state, uint32_t salt)
{
    static uint32_t *copies[SHADER_COUNT];
    for (int i = 0; i < SHADER_COUNT; i++) {
        if (!copies[i])
            copies[i] = memcpy(allocate(1, shaders[i].size), shaders[i].code, shaders[i].size);
        copies[i][2] = (copies[i][2] & 0xffff0000u) | (salt & 0xffffu);
        state->code[i] = copies[i];
    }
}

bool shader_is_there(const Device *device, ShaderName name)
{
    for (int i = 0; i < FEATURE_COUNT; i++)
        if ((shaders[name].needs & NEEDS(i)) && !device->has[i])
            return false;
    return true;
}

int shader_named(const char *name)
{
    for (int i = 0; name && i < SHADER_COUNT; i++)
        if (strcmp(shaders[i].name, name) == 0)
            return i;
    return -1;
}

VkShaderModuleCreateInfo shader_info(const State *state, ShaderName name)
{
    return (VkShaderModuleCreateInfo){.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = shaders[name].size,
                                      .pCode = state->code[name] ? state->code[name] : shaders[name].code};
}

/* module NAME */
const char *run_module(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || !shader_is_there(state->device, (ShaderName)name))
        return "feature";
    vkDestroyShaderModule(state->device->handle, state->modules[name], state->device->allocator);
    state->modules[name] = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo info = shader_info(state, (ShaderName)name);
    VkResult result =
        vkCreateShaderModule(state->device->handle, &info, state->device->allocator, &state->modules[name]);
    fprintf(state->out, "result=%d module=%s\n", result, state->modules[name] ? "set" : "null");
    return NULL;
}

/* unmodule NAME */
const char *run_unmodule(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || !state->modules[name])
        return "module";
    vkDestroyShaderModule(state->device->handle, state->modules[name], state->device->allocator);
    state->modules[name] = VK_NULL_HANDLE;
    return done;
}

/* identify NAME: of the code, and of the module where there is one. */
const char *run_identify(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || !state->device->has[IDENTIFIERS])
        return "feature";
    VkShaderModuleCreateInfo info = shader_info(state, (ShaderName)name);
    VkShaderModuleIdentifierEXT code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT}, module = code;
    state->device->commands.get_code_identifier(state->device->handle, &info, &code);
    bool equal = true;
    VkShaderModule there = state->modules[name] ? state->modules[name] : objects.modules[name];
    if (there) {
        state->device->commands.get_identifier(state->device->handle, there, &module);
        equal = module.identifierSize == code.identifierSize &&
                memcmp(module.identifier, code.identifier, code.identifierSize) == 0;
    }
    Identifier *out = &state->identifiers[name];
    out->size = code.identifierSize;
    memcpy(out->bytes, code.identifier, sizeof out->bytes);
    fprintf(state->out, "size=%u equal=%d bytes=", code.identifierSize, equal);
    for (uint32_t i = 0; i < code.identifierSize; i++)
        fprintf(state->out, "%02x", code.identifier[i]);
    fputc('\n', state->out);
    return NULL;
}

/* identifiers save|load FILE: of all shaders. Saving asks for them as a program does that keeps no SPIR-V. */
const char *run_identifiers(State *state, const Words *words)
{
    bool saves = strcmp(words->word[1], "save") == 0;
    FILE *file = fopen(words->word[2], saves ? "wb" : "rb");
    size_t size = sizeof state->identifiers;
    if (!file || (saves ? fwrite(state->identifiers, size, 1, file) : fread(state->identifiers, size, 1, file)) != 1 ||
        fclose(file) != 0)
        die("%s cannot be read or written", words->word[2]);
    return done;
}

/* ---- shader objects -------------------------------------------------------------------------------------------- */

static VkResult create_from_binary(const State *state, ShaderCreateInfo info, ShaderHandle shader, ShaderHandle *again)
{
    const Device *device = state->device;
    size_t size = 0;
    VkResult result = device->commands.get_shader_binary(device->handle, shader, &size, NULL);
    void *data = allocate(1, size);
    if (result == VK_SUCCESS)
        result = device->commands.get_shader_binary(device->handle, shader, &size, data);
    info.codeType = 0;
    info.codeSize = size;
    info.pCode = data;
    if (result == VK_SUCCESS)
        result = device->commands.create_shaders(device->handle, 1, &info, device->allocator, again);
    free(data);
    return result;
}

/* shader-object NAME: from the code of a compute shader, and from the binary of the first. */
const char *run_shader_object(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    const Device *device = state->device;
    if (name < 0 || !device->has[SHADER_OBJECTS] || shaders[name].stage != VK_SHADER_STAGE_COMPUTE_BIT)
        return "feature";
    VkShaderModuleCreateInfo code = shader_info(state, (ShaderName)name);
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_ALL, .size = 16};
    ShaderCreateInfo info = {.sType = TYPE_SHADER_CREATE_INFO,
                             .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                             .codeType = 1,
                             .codeSize = code.codeSize,
                             .pCode = code.pCode,
                             .pName = "main",
                             .setLayoutCount = 1,
                             .pSetLayouts = &objects.set_layout,
                             .pushConstantRangeCount = 1,
                             .pPushConstantRanges = &range};
    ShaderHandle first = 0, second = 0;
    VkResult result = device->commands.create_shaders(device->handle, 1, &info, device->allocator, &first), then = -1;
    if (result == VK_SUCCESS)
        then = create_from_binary(state, info, first, &second);
    fprintf(state->out, "result=%d made=%d binary=%d made=%d\n", result, first != 0, then, second != 0);
    device->commands.destroy_shader(device->handle, first, device->allocator);
    device->commands.destroy_shader(device->handle, second, device->allocator);
    return NULL;
}
