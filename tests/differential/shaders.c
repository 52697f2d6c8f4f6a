/* shaders.c - shader code, modules and module identifiers. */
#include "differential.h"

#include <stdlib.h>
#include <string.h>

#include "shaders/comp0.h"
#include "shaders/comp1.h"
#include "shaders/frag0.h"
#include "shaders/frag1.h"
#include "shaders/hit0.h"
#include "shaders/miss0.h"
#include "shaders/rgen0.h"
#include "shaders/vert0.h"
#include "shaders/vert1.h"

#define SHADER(name, bit) {#name, bit, (uint32_t *)(uintptr_t)name##_code, sizeof name##_code}

Shader shaders[SHADER_COUNT] = {
    [SHADER_COMP0] = SHADER(comp0, VK_SHADER_STAGE_COMPUTE_BIT),
    [SHADER_COMP1] = SHADER(comp1, VK_SHADER_STAGE_COMPUTE_BIT),
    [SHADER_VERT0] = SHADER(vert0, VK_SHADER_STAGE_VERTEX_BIT),
    [SHADER_VERT1] = SHADER(vert1, VK_SHADER_STAGE_VERTEX_BIT),
    [SHADER_FRAG0] = SHADER(frag0, VK_SHADER_STAGE_FRAGMENT_BIT),
    [SHADER_FRAG1] = SHADER(frag1, VK_SHADER_STAGE_FRAGMENT_BIT),
    [SHADER_RGEN0] = SHADER(rgen0, VK_SHADER_STAGE_RAYGEN_BIT_KHR),
    [SHADER_MISS0] = SHADER(miss0, VK_SHADER_STAGE_MISS_BIT_KHR),
    [SHADER_HIT0] = SHADER(hit0, VK_SHADER_STAGE_CLOSEST_HIT_BIT_KHR),
};

/*
 * Makes every script's shaders other ones than those of all scripts before, for drivers and layers alike, so that many
 * scripts can share a process and a store and each still finds no pipeline of another. The generator's version in the
 * header, of which SPIR-V says that it means nothing, is part of what they hash.
 */
void shaders_salt(uint32_t salt)
{
    static bool copied;
    for (int i = 0; i < SHADER_COUNT; i++) {
        if (!copied) {
            uint32_t *copy = malloc(shaders[i].size);
            if (!copy)
                abort();
            shaders[i].code = memcpy(copy, shaders[i].code, shaders[i].size);
        }
        shaders[i].code[2] = (shaders[i].code[2] & 0xffff0000u) | (salt & 0xffffu);
    }
    copied = true;
}

int shader_named(const char *name)
{
    for (int i = 0; name && i < SHADER_COUNT; i++)
        if (strcmp(shaders[i].name, name) == 0)
            return i;
    return -1;
}

VkShaderModuleCreateInfo shader_info(ShaderName name)
{
    return (VkShaderModuleCreateInfo){.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                      .codeSize = shaders[name].size,
                                      .pCode = shaders[name].code};
}

/* module NAME */
void run_module(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || (name >= SHADER_RGEN0 && !state->enabled.rays)) {
        skip("feature");
        return;
    }
    vkDestroyShaderModule(state->device, state->modules[name], state->allocator);
    state->modules[name] = VK_NULL_HANDLE;
    VkShaderModuleCreateInfo info = shader_info((ShaderName)name);
    VkResult result = vkCreateShaderModule(state->device, &info, state->allocator, &state->modules[name]);
    printf("result=%d module=%s\n", result, state->modules[name] ? "set" : "null");
}

/* unmodule NAME */
void run_unmodule(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || !state->modules[name]) {
        skip("module");
        return;
    }
    vkDestroyShaderModule(state->device, state->modules[name], state->allocator);
    state->modules[name] = VK_NULL_HANDLE;
    puts("done");
}

/* identify NAME: of the code, and of the module where there is one. */
void run_identify(State *state, const Words *words)
{
    int name = shader_named(words->word[1]);
    if (name < 0 || !state->enabled.identifiers) {
        skip("feature");
        return;
    }
    VkShaderModuleCreateInfo info = shader_info((ShaderName)name);
    VkShaderModuleIdentifierEXT code = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT}, module = code;
    state->commands.get_code_identifier(state->device, &info, &code);
    bool equal = true;
    if (state->modules[name]) {
        state->commands.get_identifier(state->device, state->modules[name], &module);
        equal = module.identifierSize == code.identifierSize &&
                memcmp(module.identifier, code.identifier, code.identifierSize) == 0;
    }
    Identifier *out = &state->identifiers[name];
    out->size = code.identifierSize;
    memcpy(out->bytes, code.identifier, sizeof out->bytes);
    printf("size=%u equal=%d bytes=", code.identifierSize, equal);
    for (uint32_t i = 0; i < code.identifierSize; i++)
        printf("%02x", code.identifier[i]);
    putchar('\n');
}
