/*
 * libraries.c - VK_EXT_graphics_pipeline_library: four libraries, two, a library of libraries, a link that has a part
 * of its own, linked fast and with optimization.
 */
#include "modes.h"

#define INPUT VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT
#define PRE_RASTERIZATION VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT
#define FRAGMENT VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT
#define OUTPUT VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT

#define LIBRARY VK_PIPELINE_CREATE_LIBRARY_BIT_KHR
#define RETAIN VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT
#define OPTIMIZE VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT

#define MOST_PARTS 4
enum { FIRST = 700 };

/* A create info with these parts itself and the others from libraries. */
static VkResult create(Path *path, const char *name, uint32_t variant, VkGraphicsPipelineLibraryFlagsEXT own,
                       VkPipelineCreateFlags flags, uint32_t library_count, const VkPipeline *libraries,
                       VkPipeline *pipeline)
{
    static const enum Shader vertex[] = {SCENE_VERTEX}, fragment[] = {SCENE_FRAGMENT};
    Scene scene;
    scene_init(&scene, path->context, variant);
    VkPipelineLibraryCreateInfoKHR linked = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                             .libraryCount = library_count,
                                             .pLibraries = libraries};
    VkGraphicsPipelineLibraryCreateInfoEXT parts = {.sType =
                                                        VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
                                                    .pNext = library_count ? &linked : NULL,
                                                    .flags = own};
    scene.info.pNext = own ? (const void *)&parts : &linked;
    scene.info.flags = flags;
    if ((own & PRE_RASTERIZATION) && !(own & FRAGMENT))
        scene_set_stages(&scene, path->context, 1, vertex);
    else if (!(own & PRE_RASTERIZATION) && (own & FRAGMENT))
        scene_set_stages(&scene, path->context, 1, fragment);
    else if (!(own & (PRE_RASTERIZATION | FRAGMENT)))
        scene.info.stageCount = 0;
    return create_scenes(path, name, 1, &scene.info, pipeline);
}

static void four(Path *path, VkPipelineCreateFlags retain, const char *const *names)
{
    VkPipeline parts[MOST_PARTS];
    create(path, names[0], FIRST, INPUT, LIBRARY | retain, 0, NULL, &parts[0]);
    create(path, names[1], FIRST, PRE_RASTERIZATION, LIBRARY | retain, 0, NULL, &parts[1]);
    create(path, names[2], FIRST + (retain != 0), FRAGMENT, LIBRARY | retain, 0, NULL, &parts[2]);
    create(path, names[3], FIRST, OUTPUT, LIBRARY | retain, 0, NULL, &parts[3]);
    create(path, names[4], FIRST, 0, 0, MOST_PARTS, parts, NULL);
    if (retain)
        create(path, names[5], FIRST, 0, OPTIMIZE, MOST_PARTS, parts, NULL);
    destroy_pipelines(path, MOST_PARTS, parts);
}

/* Of two libraries one is made, to be linked with the last part in the create info of the pipeline itself. */
static void nested(Path *path)
{
    VkPipeline parts[3], whole;
    create(path, "input-and-pre-rasterization", FIRST + 10, INPUT | PRE_RASTERIZATION, LIBRARY | RETAIN, 0, NULL,
           &parts[0]);
    create(path, "fragment-alone", FIRST + 10, FRAGMENT, LIBRARY | RETAIN, 0, NULL, &parts[1]);
    create(path, "library-of-libraries", FIRST + 10, 0, LIBRARY | RETAIN, 2, parts, &parts[2]);
    create(path, "own-part-fast", FIRST + 10, OUTPUT, 0, 1, &parts[2], &whole);
    destroy_pipelines(path, 1, &whole);
    create(path, "own-part-optimized", FIRST + 10, OUTPUT, OPTIMIZE, 1, &parts[2], &whole);
    destroy_pipelines(path, 1, &whole);
    destroy_pipelines(path, 3, parts);
}

void mode_libraries(Path *path)
{
    static const char *const plain[] = {"input", "pre-rasterization", "fragment", "output", "fast-link"};
    static const char *const retained[] = {"retained-input",  "retained-pre-rasterization", "retained-fragment",
                                           "retained-output", "retained-fast-link",         "optimized-link"};
    if (lacks(path, path->context->has[HAS_LIBRARIES], "graphics-pipeline-library"))
        return;
    four(path, 0, plain);
    four(path, RETAIN, retained);
    nested(path);
}
