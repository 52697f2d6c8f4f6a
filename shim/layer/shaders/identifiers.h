/* identifiers.h - shaders by their VK_EXT_shader_module_identifier */
#ifndef PYLAYER_IDENTIFIERS_H
#define PYLAYER_IDENTIFIERS_H

#include "shaders/shaders.h"

/* For a device whose application enabled the feature: finds its commands, unless PYLAYER_SHADER_IDENTIFIERS is
 * "ignore". Then shaders that have code are known by that, as in a program that does not enable the feature. */
void identifiers_open(Driver *driver);
/* Each returns a digest of an identifier, the same in every process; 0 if there is none. */
uint64_t identifier_of_stage(const VkPipelineShaderStageCreateInfo *stage);
/* module: what was created from the info, if anything was. */
uint64_t identifier_of(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info);

#endif
