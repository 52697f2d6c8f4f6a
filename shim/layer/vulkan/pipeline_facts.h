/* pipeline_facts.h - what a walk has to know of a pipeline: which members count, and which pointers are valid */
#ifndef PYLAYER_PIPELINE_FACTS_H
#define PYLAYER_PIPELINE_FACTS_H

#include "vulkan/create_info.h"
#include "vulkan/walk.h"

/* Adds to walk->facts and walk->dynamic. FACT_LINKED must be in walk->facts before, if it is to count, and so must what
 * else is known of the pipeline's libraries. */
void pipeline_learn(Walk *walk, const VkGraphicsPipelineCreateInfo *info, uint32_t subsets, uint32_t stage_count);
/* Returns whether the pipeline is linked from libraries. */
bool pipeline_is_linked(const PipelineCall *call, const AnyCreateInfo *info);

#endif
