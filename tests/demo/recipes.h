// What pipeline number N is: its create info with everything that this points to.
#ifndef DEMO_RECIPES_H
#define DEMO_RECIPES_H

#include "objects.h"
#include "options.h"

enum { MAX_STAGES = 9, MAX_HIT_GROUPS = 6, RAY_GROUPS_BEFORE_HITS = 3, LIBRARY_PARTS = 4 };

// Feedback that a driver did not touch still holds this.
enum { FEEDBACK_UNTOUCHED = 0x2bababab };

// One pipeline. Everything points into the recipe itself, so it must not be moved once filled.
typedef struct {
    VkSpecializationInfo specializations[MAX_STAGES];
    int32_t constants[MAX_STAGES][MAX_CONSTANTS];
    VkPipelineShaderStageCreateInfo stages[MAX_STAGES];
    uint32_t stage_count;

    VkPipelineCreationFeedbackCreateInfo feedback_info;
    VkPipelineCreationFeedback feedback;
    VkPipelineCreationFeedback stage_feedback[MAX_STAGES];

    VkVertexInputBindingDescription bindings[2];
    VkVertexInputAttributeDescription attributes[8];
    VkPipelineVertexInputStateCreateInfo vertex_input;
    VkPipelineInputAssemblyStateCreateInfo assembly;
    VkPipelineViewportStateCreateInfo viewport;
    VkPipelineRasterizationStateCreateInfo rasterization;
    VkPipelineMultisampleStateCreateInfo multisample;
    VkPipelineDepthStencilStateCreateInfo depth;
    VkPipelineColorBlendAttachmentState blend_attachments[3];
    VkPipelineColorBlendStateCreateInfo blend;
    VkPipelineDynamicStateCreateInfo dynamic;
    VkRayTracingShaderGroupCreateInfoKHR groups[RAY_GROUPS_BEFORE_HITS + MAX_HIT_GROUPS];
    VkGraphicsPipelineLibraryCreateInfoEXT library;
    VkPipelineLibraryCreateInfoKHR linked;
    VkPipeline linked_parts[LIBRARY_PARTS];

    // One of these is filled.
    VkComputePipelineCreateInfo compute;
    VkGraphicsPipelineCreateInfo graphics;
    VkRayTracingPipelineCreateInfoKHR rays;
} Recipe;

// What is common to all recipes of a run.
typedef struct {
    const Objects *objects;
    const Options *options;
    uint32_t ray_recursion;
    VkPipelineCreateFlags flags;
} Kitchen;

void compute_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number);
void graphics_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number);
void ray_tracing_recipe(Recipe *recipe, const Kitchen *kitchen, uint64_t number);

// Part 0 to 3 of a filled graphics recipe as a library.
void library_recipe(Recipe *recipe, const Recipe *whole, const Kitchen *kitchen, uint32_t part);

// A pipeline linked from four libraries.
void linked_recipe(Recipe *recipe, const Kitchen *kitchen, const VkPipeline parts[LIBRARY_PARTS], bool optimized);

#endif
