/* shader_objects.c - VK_EXT_shader_object beside pipelines of the same code: the layer has no part in it. */
#include <stdlib.h>

#include "modes.h"

static PFN_vkVoidFunction command(const Path *path, const char *name)
{
    PFN_vkVoidFunction found = vkGetDeviceProcAddr(path->context->device, name);
    if (!found)
        die("no %s", name);
    return found;
}

static void from_binary(Path *path, const ShaderCreateInfo *wanted, ShaderHandle shader)
{
    CreateShaders create = (CreateShaders)command(path, "vkCreateShadersEXT");
    DestroyShader destroy = (DestroyShader)command(path, "vkDestroyShaderEXT");
    GetShaderBinaryData get = (GetShaderBinaryData)command(path, "vkGetShaderBinaryDataEXT");
    size_t size = 0;
    VkResult sized = get(path->context->device, shader, &size, NULL);
    void *data = malloc(size ? size : 1);
    if (!data)
        die("no memory");
    VkResult read = get(path->context->device, shader, &size, data);
    ShaderCreateInfo info = *wanted;
    info.codeType = 0;
    info.codeSize = size;
    info.pCode = data;
    ShaderHandle again = 0;
    VkResult created = create(path->context->device, 1, &info, NULL, &again);
    say(path, "binary", "results=%d,%d,%d size>0=%d created=%d", sized, read, created, size > 0, again != 0);
    destroy(path->context->device, again, NULL);
    free(data);
}

void mode_shader_objects(Path *path)
{
    if (lacks(path, path->context->has[HAS_SHADER_OBJECTS], "shader-object"))
        return;
    CreateShaders create = (CreateShaders)command(path, "vkCreateShadersEXT");
    DestroyShader destroy = (DestroyShader)command(path, "vkDestroyShaderEXT");
    Kernel kernel;
    kernel_init(&kernel, path->context, 1100);
    VkShaderModuleCreateInfo code = shader_code(KERNEL);
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 4};
    ShaderCreateInfo info = {.sType = TYPE_SHADER_CREATE_INFO,
                             .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                             .codeType = 1,
                             .codeSize = code.codeSize,
                             .pCode = code.pCode,
                             .pName = "main",
                             .setLayoutCount = 1,
                             .pSetLayouts = &path->context->set,
                             .pushConstantRangeCount = 1,
                             .pPushConstantRanges = &range,
                             .pSpecializationInfo = &kernel.variant.info};
    ShaderHandle before = 0, after = 0;
    VkResult result = create(path->context->device, 1, &info, NULL, &before);
    say(path, "before", "result=%d created=%d", result, before != 0);
    create_kernels(path, "pipeline", 1, &kernel.info, NULL);
    result = create(path->context->device, 1, &info, NULL, &after);
    say(path, "after", "result=%d created=%d", result, after != 0);
    from_binary(path, &info, before);
    destroy(path->context->device, before, NULL);
    destroy(path->context->device, after, NULL);
}
