/*
 * drawn [--cache] [--variants N] [--only TEXT]: creates pipelines of every sort that drivers are known to treat apart, draws with each
 * into an image without a window, and prints what came of it:
 *
 *     NAME result=<VkResult> feedback=<flags> drawn=<pixels> image=<digest> values=<digest>
 *
 * A sort is: in a render pass or without one; with one view, two, or VIEW_INDEX_FROM_DEVICE_INDEX; whole, or linked from
 * libraries; with tessellation, geometry, or stages that write to a storage buffer. "absent" stands for what the device
 * lacks. With --cache the program has an empty VkPipelineCache, otherwise it passes none. --only leaves out names
 * without this text.
 */
#include <stdlib.h>

#include "drawn.h"

static Gpu gpu;
static const char *only = "";

/* ---- pipelines ----------------------------------------------------------------------------------------------- */

#define INPUT VK_GRAPHICS_PIPELINE_LIBRARY_VERTEX_INPUT_INTERFACE_BIT_EXT
#define PRE_RASTERIZATION VK_GRAPHICS_PIPELINE_LIBRARY_PRE_RASTERIZATION_SHADERS_BIT_EXT
#define FRAGMENT VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_SHADER_BIT_EXT
#define OUTPUT VK_GRAPHICS_PIPELINE_LIBRARY_FRAGMENT_OUTPUT_INTERFACE_BIT_EXT
#define MOST_PARTS 4

static const struct {
    const char *name;
    bool optimized;
    uint32_t part_count; /* 0: no libraries */
    VkGraphicsPipelineLibraryFlagsEXT parts[MOST_PARTS];
} makes[] = {
    {"whole", false, 0, {0}},
    {"fast", false, 4, {INPUT, PRE_RASTERIZATION, FRAGMENT, OUTPUT}},
    {"optimized", true, 4, {INPUT, PRE_RASTERIZATION, FRAGMENT, OUTPUT}},
    {"fast-two-stages", false, 3, {INPUT, PRE_RASTERIZATION | FRAGMENT, OUTPUT}},
    {"optimized-two-stages", true, 3, {INPUT, PRE_RASTERIZATION | FRAGMENT, OUTPUT}},
};

static const struct {
    const char *name;
    unsigned stages;
} shapes[] = {
    {"plain", 0},
    {"tessellation", TESSELLATION},
    {"geometry", GEOMETRY},
    {"tessellation-geometry", TESSELLATION | GEOMETRY},
    {"vertex-writes", VERTEX_WRITES},
    {"fragment-writes", FRAGMENT_WRITES},
    {"all", TESSELLATION | GEOMETRY | VERTEX_WRITES | FRAGMENT_WRITES},
};

typedef struct Sort {
    bool pass;
    enum Views views;
    uint32_t make, shape, variant;
} Sort;

typedef struct Stages {
    VkSpecializationMapEntry entry;
    VkSpecializationInfo special;
    uint32_t count;
    VkPipelineShaderStageCreateInfo all[5];
} Stages;

static void add_stage(Stages *stages, VkShaderStageFlagBits stage, enum Shader shader)
{
    stages->all[stages->count++] =
        (VkPipelineShaderStageCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                          .stage = stage,
                                          .module = gpu.modules[shader],
                                          .pName = "main",
                                          .pSpecializationInfo = &stages->special};
}

/* The stages that belong to these parts. */
static void choose_stages(Stages *stages, const Sort *sort, VkGraphicsPipelineLibraryFlagsEXT parts)
{
    unsigned wanted = shapes[sort->shape].stages;
    bool views = sort->views != ONE_VIEW;
    stages->entry = (VkSpecializationMapEntry){0, 0, sizeof sort->variant};
    stages->special = (VkSpecializationInfo){1, &stages->entry, sizeof sort->variant, &sort->variant};
    stages->count = 0;
    if (parts & PRE_RASTERIZATION) {
        add_stage(stages, VK_SHADER_STAGE_VERTEX_BIT,
                  wanted & VERTEX_WRITES ? (views ? VERTEX_VIEWS_WRITES : VERTEX_WRITING)
                                         : (views ? VERTEX_VIEWS : VERTEX));
        if (wanted & TESSELLATION) {
            add_stage(stages, VK_SHADER_STAGE_TESSELLATION_CONTROL_BIT, CONTROL);
            add_stage(stages, VK_SHADER_STAGE_TESSELLATION_EVALUATION_BIT, views ? EVALUATION_VIEWS : EVALUATION);
        }
        if (wanted & GEOMETRY)
            add_stage(stages, VK_SHADER_STAGE_GEOMETRY_BIT, views ? GEOMETRIES_VIEWS : GEOMETRIES);
    }
    if (parts & FRAGMENT)
        add_stage(stages, VK_SHADER_STAGE_FRAGMENT_BIT, wanted & FRAGMENT_WRITES ? COLORS_WRITING : COLORS);
}

/* Everything that a create info points to. */
typedef struct Recipe {
    Stages stages;
    VkPipelineVertexInputStateCreateInfo input;
    VkPipelineInputAssemblyStateCreateInfo assembly;
    VkPipelineTessellationStateCreateInfo patches;
    VkViewport area;
    VkRect2D scissor;
    VkPipelineViewportStateCreateInfo viewport;
    VkPipelineRasterizationStateCreateInfo raster;
    VkPipelineMultisampleStateCreateInfo samples;
    VkPipelineColorBlendAttachmentState attachment;
    VkPipelineColorBlendStateCreateInfo blend;
    VkFormat format;
    VkPipelineRenderingCreateInfo rendering;
    VkGraphicsPipelineLibraryCreateInfoEXT library;
    VkGraphicsPipelineCreateInfo info;
} Recipe;

static void fill_states(Recipe *recipe, const Sort *sort)
{
    bool patches = shapes[sort->shape].stages & TESSELLATION;
    recipe->input.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO;
    recipe->assembly = (VkPipelineInputAssemblyStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
        .topology = patches ? VK_PRIMITIVE_TOPOLOGY_PATCH_LIST : VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
    recipe->patches = (VkPipelineTessellationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_TESSELLATION_STATE_CREATE_INFO, .patchControlPoints = 3};
    recipe->area = (VkViewport){0, 0, SIDE, SIDE, 0, 1};
    recipe->scissor = (VkRect2D){{0, 0}, {SIDE, SIDE}};
    recipe->viewport =
        (VkPipelineViewportStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
                                            .viewportCount = 1,
                                            .pViewports = &recipe->area,
                                            .scissorCount = 1,
                                            .pScissors = &recipe->scissor};
    recipe->raster = (VkPipelineRasterizationStateCreateInfo){
        .sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO, .lineWidth = 1};
    recipe->samples =
        (VkPipelineMultisampleStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                                               .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
    recipe->attachment = (VkPipelineColorBlendAttachmentState){.colorWriteMask = 0xf};
    recipe->blend =
        (VkPipelineColorBlendStateCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO,
                                              .attachmentCount = 1,
                                              .pAttachments = &recipe->attachment};
    recipe->format = FORMAT;
    recipe->rendering = (VkPipelineRenderingCreateInfo){.sType = VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO,
                                                        .viewMask = sort->views == TWO_VIEWS ? 3 : 0,
                                                        .colorAttachmentCount = 1,
                                                        .pColorAttachmentFormats = &recipe->format};
}

/* parts: those that the create info has itself; 0: none. */
static void fill_recipe(Recipe *recipe, const Sort *sort, VkGraphicsPipelineLibraryFlagsEXT parts, const void *chain)
{
    memset(recipe, 0, sizeof *recipe);
    fill_states(recipe, sort);
    choose_stages(&recipe->stages, sort, parts);
    recipe->rendering.pNext = chain;
    recipe->library =
        (VkGraphicsPipelineLibraryCreateInfoEXT){.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_LIBRARY_CREATE_INFO_EXT,
                                                 .pNext = sort->pass ? (void *)(uintptr_t)chain : &recipe->rendering,
                                                 .flags = parts};
    bool device_index = sort->views == DEVICE_INDEX && (parts & PRE_RASTERIZATION);
    recipe->info = (VkGraphicsPipelineCreateInfo){
        .sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
        .pNext = makes[sort->make].part_count && parts ? (const void *)&recipe->library : recipe->library.pNext,
        .flags = device_index ? VK_PIPELINE_CREATE_VIEW_INDEX_FROM_DEVICE_INDEX_BIT : 0,
        .stageCount = recipe->stages.count,
        .pStages = recipe->stages.all,
        .pVertexInputState = &recipe->input,
        .pInputAssemblyState = &recipe->assembly,
        .pTessellationState = shapes[sort->shape].stages & TESSELLATION ? &recipe->patches : NULL,
        .pViewportState = &recipe->viewport,
        .pRasterizationState = &recipe->raster,
        .pMultisampleState = &recipe->samples,
        .pColorBlendState = &recipe->blend,
        .layout = gpu.layout,
        .renderPass = sort->pass ? gpu.passes[sort->views == TWO_VIEWS] : VK_NULL_HANDLE,
        .basePipelineIndex = -1};
}

static VkResult create(const VkGraphicsPipelineCreateInfo *info, VkPipeline *pipeline)
{
    *pipeline = VK_NULL_HANDLE;
    return vkCreateGraphicsPipelines(gpu.device, gpu.cache, 1, info, NULL, pipeline);
}

static VkResult create_linked(const Sort *sort, const void *chain, VkPipeline *parts, VkPipeline *pipeline)
{
    bool optimized = makes[sort->make].optimized;
    uint32_t part_count = makes[sort->make].part_count;
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < part_count && result == VK_SUCCESS; i++) {
        Recipe recipe;
        fill_recipe(&recipe, sort, makes[sort->make].parts[i], NULL);
        recipe.info.flags |= VK_PIPELINE_CREATE_LIBRARY_BIT_KHR;
        if (optimized)
            recipe.info.flags |= VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT;
        result = create(&recipe.info, &parts[i]);
    }
    VkPipelineLibraryCreateInfoKHR linked = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR,
                                             .pNext = chain,
                                             .libraryCount = part_count,
                                             .pLibraries = parts};
    VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                         .pNext = &linked,
                                         .flags = optimized ? VK_PIPELINE_CREATE_LINK_TIME_OPTIMIZATION_BIT_EXT : 0,
                                         .layout = gpu.layout,
                                         .basePipelineIndex = -1};
    return result == VK_SUCCESS ? create(&info, pipeline) : result;
}

/* parts: the libraries. Lavapipe 25.0.7 reads them when it draws with what is linked from them. */
static VkResult create_pipeline(const Sort *sort, VkPipelineCreationFeedback *feedback, VkPipeline *parts,
                                VkPipeline *pipeline)
{
    VkPipelineCreationFeedbackCreateInfo ask = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
                                                .pPipelineCreationFeedback = feedback};
    if (makes[sort->make].part_count)
        return create_linked(sort, &ask, parts, pipeline);
    Recipe recipe;
    fill_recipe(&recipe, sort, INPUT | PRE_RASTERIZATION | FRAGMENT | OUTPUT, &ask);
    return create(&recipe.info, pipeline);
}

/* ---- what came of it ----------------------------------------------------------------------------------------- */

static bool is_there(const Sort *sort)
{
    unsigned wanted = shapes[sort->shape].stages;
    if ((makes[sort->make].part_count && !gpu.libraries) || (!sort->pass && !gpu.dynamic_rendering))
        return false;
    if (sort->views != ONE_VIEW && (!gpu.multiview || ((wanted & TESSELLATION) && !gpu.view_tessellation) ||
                                    ((wanted & GEOMETRY) && !gpu.view_geometry)))
        return false;
    return (wanted & gpu.stages) == wanted;
}

static void report(const char *name, VkResult result, const VkPipelineCreationFeedback *feedback)
{
    printf("%s result=%d feedback=%u drawn=%u image=%016llx values=%016llx\n", name, result, feedback->flags,
           gpu_pixels(&gpu), (unsigned long long)gpu_image_digest(&gpu), (unsigned long long)gpu_values_digest(&gpu));
    fflush(stdout); /* a driver may crash in the next */
}

static void try_sort(const Sort *sort)
{
    static const char *const views[] = {"one-view", "two-views", "device-index"};
    char name[128];
    snprintf(name, sizeof name, "%s.%s.%s.%s.%u", sort->pass ? "pass" : "dynamic", views[sort->views],
             makes[sort->make].name, shapes[sort->shape].name, sort->variant);
    if (!strstr(name, only))
        return;
    if (!is_there(sort)) {
        printf("%s absent\n", name);
        return;
    }
    VkPipelineCreationFeedback feedback = {.flags = 0};
    VkPipeline pipeline = VK_NULL_HANDLE, parts[MOST_PARTS] = {VK_NULL_HANDLE};
    VkResult result = create_pipeline(sort, &feedback, parts, &pipeline);
    gpu_clear(&gpu);
    if (result == VK_SUCCESS)
        gpu_draw(&gpu, pipeline, sort->pass, sort->views == TWO_VIEWS);
    report(name, result, &feedback);
    vkDestroyPipeline(gpu.device, pipeline, NULL);
    for (uint32_t i = 0; i < MOST_PARTS; i++)
        vkDestroyPipeline(gpu.device, parts[i], NULL);
}

static void try_compute(uint32_t variant)
{
    Stages stages = {.count = 0};
    Sort sort = {.variant = variant};
    char name[32];
    choose_stages(&stages, &sort, 0);
    add_stage(&stages, VK_SHADER_STAGE_COMPUTE_BIT, NUMBERS);
    VkPipelineCreationFeedback feedback = {.flags = 0};
    VkPipelineCreationFeedbackCreateInfo ask = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO,
                                                .pPipelineCreationFeedback = &feedback};
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .pNext = &ask,
                                        .stage = stages.all[0],
                                        .layout = gpu.layout,
                                        .basePipelineIndex = -1};
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkResult result = vkCreateComputePipelines(gpu.device, gpu.cache, 1, &info, NULL, &pipeline);
    gpu_clear(&gpu);
    if (result == VK_SUCCESS)
        gpu_dispatch(&gpu, pipeline);
    snprintf(name, sizeof name, "compute.%u", variant);
    report(name, result, &feedback);
    vkDestroyPipeline(gpu.device, pipeline, NULL);
}

static void try_all(uint32_t variant)
{
    try_compute(variant);
    for (unsigned pass = 0; pass < 2; pass++)
        for (enum Views views = ONE_VIEW; views <= DEVICE_INDEX; views++)
            for (uint32_t make = 0; make < COUNT_OF(makes); make++)
                for (uint32_t shape = 0; shape < COUNT_OF(shapes); shape++)
                    try_sort(&(Sort){!pass, views, make, shape, variant});
}

int main(int count, char **arguments)
{
    bool with_cache = false;
    uint32_t variants = 2;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--cache") == 0)
            with_cache = true;
        else if (strcmp(arguments[i], "--variants") == 0 && i + 1 < count)
            variants = (uint32_t)strtoul(arguments[++i], NULL, 10);
        else if (strcmp(arguments[i], "--only") == 0 && i + 1 < count)
            only = arguments[++i];
        else
            die("drawn [--cache] [--variants N] [--only TEXT]");
    }
    gpu_open(&gpu, with_cache);
    for (uint32_t variant = 0; variant < variants; variant++)
        try_all(variant);
    gpu_close(&gpu);
    return 0;
}
