/*
 * identifiers [--cache] [--feedback] [--without-extension] MODE FILE: a program that keeps shaders' identifiers in FILE
 * and not their SPIR-V (VK_EXT_shader_module_identifier). One line about each call (report.c).
 *
 * record    creates everything from modules, and writes FILE
 * inline    creates everything from SPIR-V in the stages' chains
 * replay    creates everything from FILE, without a module
 * translate the same, and in full what has to be compiled: what translators of other APIs do
 * mixed     batches with modules and identifiers, known and not
 * garbage   identifiers that are none, of every size
 */
#include <stdlib.h>

#include "paths.h"

#define MAY_NOT_COMPILE VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT
#define LIBRARY_PARTS 4
#define MOST_BYTES VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT

typedef struct Identifier {
    uint32_t size;
    uint8_t bytes[MOST_BYTES];
} Identifier;

/* Where the stages' code is to come from. */
enum Source { MODULES, INLINE_CODE, IDENTIFIERS, IDENTIFIERS_THEN_MODULES };

typedef struct Program {
    Path path;
    enum Source source;
    Identifier identifiers[SHADER_COUNT];
} Program;

/* ---- the file ------------------------------------------------------------------------------------------------- */

static VkShaderModuleIdentifierEXT of_module(const Context *context, enum Shader shader)
{
    PFN_vkGetShaderModuleIdentifierEXT get =
        (PFN_vkGetShaderModuleIdentifierEXT)vkGetDeviceProcAddr(context->device, "vkGetShaderModuleIdentifierEXT");
    VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
    get(context->device, context->modules[shader], &found);
    return found;
}

static VkShaderModuleIdentifierEXT of_code(const Context *context, enum Shader shader)
{
    PFN_vkGetShaderModuleCreateInfoIdentifierEXT get =
        (PFN_vkGetShaderModuleCreateInfoIdentifierEXT)vkGetDeviceProcAddr(context->device,
                                                                          "vkGetShaderModuleCreateInfoIdentifierEXT");
    VkShaderModuleCreateInfo info = shader_code(shader);
    VkShaderModuleIdentifierEXT found = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
    get(context->device, &info, &found);
    return found;
}

static void read_identifiers(Program *program)
{
    const Context *context = program->path.context;
    for (enum Shader shader = 0; shader < SHADER_COUNT; shader++) {
        if (!shader_is_there(context, shader))
            continue;
        VkShaderModuleIdentifierEXT one = of_module(context, shader), other = of_code(context, shader);
        bool agree =
            one.identifierSize == other.identifierSize && !memcmp(one.identifier, other.identifier, one.identifierSize);
        say(&program->path, "identifier", "shader=%d there=%d agree=%d", shader, one.identifierSize > 0, agree);
        program->identifiers[shader].size = one.identifierSize;
        memcpy(program->identifiers[shader].bytes, one.identifier, one.identifierSize);
    }
}

static void write_file(const Program *program, const char *name)
{
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(program->identifiers, sizeof program->identifiers, 1, file) != 1 || fclose(file) != 0)
        die("%s cannot be written", name);
}

static void read_file(Program *program, const char *name)
{
    FILE *file = fopen(name, "rb");
    if (!file || fread(program->identifiers, sizeof program->identifiers, 1, file) != 1)
        die("%s cannot be read", name);
    fclose(file);
}

/* ---- stages without modules ------------------------------------------------------------------------------------- */

typedef struct Code {
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT identifiers[MAX_STAGES];
    VkShaderModuleCreateInfo infos[MAX_STAGES];
} Code;

static enum Shader shader_of(const Context *context, VkShaderModule module)
{
    enum Shader shader = 0;
    while (shader < SHADER_COUNT && context->modules[shader] != module)
        shader++;
    return shader;
}

static VkPipelineShaderStageModuleIdentifierCreateInfoEXT identified(const Identifier *identifier, const void *next)
{
    return (VkPipelineShaderStageModuleIdentifierCreateInfoEXT){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT,
        .pNext = next,
        .identifierSize = identifier->size,
        .pIdentifier = identifier->bytes};
}

static void take_modules_away(const Program *program, Code *code, uint32_t count,
                              VkPipelineShaderStageCreateInfo *stages)
{
    for (uint32_t i = 0; i < count && program->source != MODULES; i++) {
        enum Shader shader = shader_of(program->path.context, stages[i].module);
        code->infos[i] = shader_code(shader);
        code->identifiers[i] = identified(&program->identifiers[shader], stages[i].pNext);
        stages[i].module = VK_NULL_HANDLE;
        stages[i].pNext = program->source == INLINE_CODE ? (const void *)&code->infos[i] : &code->identifiers[i];
    }
}

/* VUID-VkPipelineShaderStageModuleIdentifierCreateInfoEXT-pNext-06851 */
static VkPipelineCreateFlags flags_of(const Program *program)
{
    return program->source >= IDENTIFIERS ? MAY_NOT_COMPILE : 0;
}

static VkResult create_kernel(Program *program, const char *name, const Kernel *kernel)
{
    Code code;
    VkComputePipelineCreateInfo info = kernel->info;
    info.flags |= flags_of(program);
    take_modules_away(program, &code, 1, &info.stage);
    VkResult result = create_kernels(&program->path, name, 1, &info, NULL);
    if (result == VK_PIPELINE_COMPILE_REQUIRED && program->source == IDENTIFIERS_THEN_MODULES)
        result = create_kernels(&program->path, name, 1, &kernel->info, NULL);
    return result;
}

static VkResult create_scene(Program *program, const char *name, const Scene *scene, VkPipeline *pipeline)
{
    Code code;
    VkGraphicsPipelineCreateInfo info = scene->info;
    VkPipelineShaderStageCreateInfo stages[MAX_STAGES];
    memcpy(stages, scene->stages, sizeof stages);
    info.pStages = stages;
    info.flags |= info.stageCount ? flags_of(program) : 0;
    take_modules_away(program, &code, info.stageCount, stages);
    VkResult result = create_scenes(&program->path, name, 1, &info, pipeline);
    if (result == VK_PIPELINE_COMPILE_REQUIRED && program->source == IDENTIFIERS_THEN_MODULES)
        result = create_scenes(&program->path, name, 1, &scene->info, pipeline);
    return result;
}

/* ---- everything ------------------------------------------------------------------------------------------------- */

static void kernels(Program *program)
{
    for (uint32_t variant = 0; variant < 3; variant++) {
        Kernel kernel;
        kernel_init(&kernel, program->path.context, variant);
        create_kernel(program, "kernel", &kernel);
    }
}

static void scenes(Program *program)
{
    static const enum Shader patches[] = {SCENE_VERTEX, PATCH_CONTROL, PATCH_EVALUATION, SCENE_FRAGMENT},
                             tiles[] = {TILES_TASK, TILES_MESH, SCENE_FRAGMENT};
    const Context *context = program->path.context;
    Scene scene;
    scene_init(&scene, context, 0);
    create_scene(program, "scene", &scene, NULL);
    if (shader_is_there(context, PATCH_CONTROL)) {
        scene_set_stages(&scene, context, COUNT_OF(patches), patches);
        scene.assembly.topology = VK_PRIMITIVE_TOPOLOGY_PATCH_LIST;
        create_scene(program, "patches", &scene, NULL);
    }
    if (shader_is_there(context, TILES_MESH)) {
        scene_init(&scene, context, 0);
        scene.info.pVertexInputState = NULL;
        scene.info.pInputAssemblyState = NULL;
        scene_set_stages(&scene, context, COUNT_OF(tiles), tiles);
        create_scene(program, "tiles", &scene, NULL);
    }
}

/* VUID-VkPipelineLibraryCreateInfoKHR-pLibraries-06855: a library of identifiers hands its requirement on. What is
 * missing is linked without it where the libraries had to be made from modules, too. */
static void create_link(Program *program, const char *name, VkPipelineCreateFlags flags, const VkPipeline *libraries)
{
    VkPipelineLibraryCreateInfoKHR linked = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                             .libraryCount = LIBRARY_PARTS,
                                             .pLibraries = libraries};
    VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                         .pNext = &linked,
                                         .flags = flags | flags_of(program),
                                         .layout = program->path.context->layout};
    VkResult result = create_scenes(&program->path, name, 1, &info, NULL);
    if (result != VK_PIPELINE_COMPILE_REQUIRED || program->source != IDENTIFIERS_THEN_MODULES)
        return;
    info.flags = flags;
    create_scenes(&program->path, name, 1, &info, NULL);
}

static bool create_library(Program *program, uint32_t part, VkPipelineCreateFlags retain, VkPipeline *library)
{
    static const struct {
        const char *name, *retained_name;
        uint32_t stage_count;
        enum Shader stage;
    } parts[LIBRARY_PARTS] = {
        {"input", "retained-input", 0, 0},
        {"pre-rasterization", "retained-pre-rasterization", 1, SCENE_VERTEX},
        {"fragment", "retained-fragment", 1, SCENE_FRAGMENT},
        {"output", "retained-output", 0, 0},
    };
    Scene scene;
    VkGraphicsPipelineLibraryCreateInfoEXT info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
                                                   .flags = VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT
                                                            << part};
    scene_init(&scene, program->path.context, retain ? 5 : 6);
    scene.info.pNext = &info;
    scene.info.flags = VK_PIPELINE_CREATE_LIBRARY_BIT_KHR | retain;
    scene_set_stages(&scene, program->path.context, parts[part].stage_count, &parts[part].stage);
    const char *name = retain ? parts[part].retained_name : parts[part].name;
    return create_scene(program, name, &scene, library) == VK_SUCCESS;
}

static void libraries(Program *program, VkPipelineCreateFlags retain)
{
    VkPipeline made[LIBRARY_PARTS] = {VK_NULL_HANDLE};
    bool whole = program->path.context->has[HAS_LIBRARIES];
    for (uint32_t part = 0; part < LIBRARY_PARTS && whole; part++)
        whole = create_library(program, part, retain, &made[part]);
    if (whole && retain)
        create_link(program, "optimized-link", VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT, made);
    else if (whole)
        create_link(program, "fast-link", 0, made);
    destroy_pipelines(&program->path, LIBRARY_PARTS, made);
}

static void everything(Program *program)
{
    kernels(program);
    scenes(program);
    libraries(program, 0);
    libraries(program, VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

static const Identifier nobody = {MOST_BYTES, {0xde, 0xad, 0xbe, 0xef}};

/* Known, new from its module, of nobody, and new once more. The first may be found, the third never. */
static void mixed(Program *program, const char *name, VkPipelineCreateFlags more_flags, uint32_t first)
{
    Kernel made[4];
    VkComputePipelineCreateInfo infos[4];
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT known = identified(&program->identifiers[KERNEL], NULL),
                                                       unknown = identified(&nobody, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        kernel_init(&made[i], program->path.context, i ? first + i : 0);
        infos[i] = made[i].info;
        infos[i].flags = i % 2 ? 0 : MAY_NOT_COMPILE | more_flags;
        if (i % 2 == 0) {
            infos[i].stage.module = VK_NULL_HANDLE;
            infos[i].stage.pNext = i ? &unknown : &known;
        }
    }
    create_kernels(&program->path, name, 4, infos, NULL);
}

/* ---- garbage ---------------------------------------------------------------------------------------------------- */

static void garbage_kernel(Program *program, const char *name, const Identifier *identifier, const void *next)
{
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT chained = identified(identifier, next);
    Kernel kernel;
    kernel_init(&kernel, program->path.context, 20);
    kernel.info.flags = MAY_NOT_COMPILE;
    kernel.info.stage.module = VK_NULL_HANDLE;
    kernel.info.stage.pNext = &chained;
    create_kernels(&program->path, name, 1, &kernel.info, NULL);
}

static void garbage_scene(Program *program, const char *name, const Identifier *identifier)
{
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT chained = identified(identifier, NULL);
    Scene scene;
    scene_init(&scene, program->path.context, 20);
    scene.info.flags = MAY_NOT_COMPILE;
    for (uint32_t i = 0; i < scene.info.stageCount; i++) {
        scene.stages[i].module = VK_NULL_HANDLE;
        scene.stages[i].pNext = &chained;
    }
    create_scenes(&program->path, name, 1, &scene.info, NULL);
}

static void garbage(Program *program)
{
    static const uint8_t patterns[] = {0x00, 0xff, 0xa5};
    for (uint32_t i = 0; i < COUNT_OF(patterns); i++)
        for (uint32_t size = 1; size <= MOST_BYTES; size++) {
            Identifier identifier = {.size = size};
            memset(identifier.bytes, patterns[i], size);
            garbage_kernel(program, "kernel", &identifier, NULL);
            garbage_scene(program, "scene", &identifier);
        }
    /* Nearly the right one. */
    Identifier damaged = program->identifiers[KERNEL];
    damaged.bytes[damaged.size - 1] ^= 1;
    garbage_kernel(program, "one-bit", &damaged, NULL);
    for (damaged = program->identifiers[KERNEL]; --damaged.size > 0;)
        garbage_kernel(program, "cut", &damaged, NULL);
}

/* Of no bytes it is as if the struct were not there: the code is what stands behind it, or the module. */
static void of_no_bytes(Program *program)
{
    Identifier nothing = {.size = 0};
    VkPipelineShaderStageModuleIdentifierCreateInfoEXT chained = identified(&nothing, NULL);
    Kernel kernel;
    kernel_init(&kernel, program->path.context, 1);
    kernel.info.stage.pNext = &chained;
    create_kernels(&program->path, "no-bytes-beside-a-module", 1, &kernel.info, NULL);
    VkShaderModuleCreateInfo code = shader_code(KERNEL);
    chained.pNext = &code;
    kernel.variant.value = 2;
    kernel.info.stage.module = VK_NULL_HANDLE;
    create_kernels(&program->path, "no-bytes-before-the-code", 1, &kernel.info, NULL);
}

/* ---- */

static void run(Program *program, const char *mode, const char *file)
{
    program->path.name = mode;
    if (strcmp(mode, "record") == 0) {
        read_identifiers(program);
        write_file(program, file);
        everything(program);
        return;
    }
    read_file(program, file);
    if (strcmp(mode, "mixed") == 0) {
        mixed(program, "batch", 0, 30);
        /* Those behind the one that ends the call are there by now, and are given up all the same. */
        mixed(program, "batch-early-return", VK_PIPELINE_CREATE_EARLY_RETURN_ON_FAILURE_BIT, 30);
    } else if (strcmp(mode, "garbage") == 0) {
        garbage(program);
        of_no_bytes(program);
    } else {
        program->source = strcmp(mode, "inline") == 0      ? INLINE_CODE
                          : strcmp(mode, "translate") == 0 ? IDENTIFIERS_THEN_MODULES
                                                           : IDENTIFIERS;
        everything(program);
    }
}

int main(int count, char **arguments)
{
    Options options = {.times = 0};
    DeviceOptions device = {.without_identifiers = false};
    int at = 1;
    for (; at < count && strncmp(arguments[at], "--", 2) == 0; at++) {
        options.cache |= strcmp(arguments[at], "--cache") == 0;
        options.feedback |= strcmp(arguments[at], "--feedback") == 0;
        device.without_identifiers |= strcmp(arguments[at], "--without-extension") == 0;
    }
    if (at + 2 != count)
        die("usage: identifiers [--cache] [--feedback] [--without-extension] MODE FILE");
    Context context;
    context_create(&context, &device);
    if (!context.has[HAS_IDENTIFIERS] && !device.without_identifiers)
        die("no VK_EXT_shader_module_identifier");
    Program program = {.path = {.context = &context, .options = &options, .out = stdout}};
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (options.cache && vkCreatePipelineCache(context.device, &info, NULL, &program.path.cache) != VK_SUCCESS)
        die("vkCreatePipelineCache failed");
    run(&program, arguments[at], arguments[at + 1]);
    vkDestroyPipelineCache(context.device, program.path.cache, NULL);
    context_destroy(&context);
    return 0;
}
