/* shader_modules.h - a digest of each shader's code */
#ifndef PYLAYER_SHADER_MODULES_H
#define PYLAYER_SHADER_MODULES_H

#include "shaders/shaders.h"

/* Notes the code of a new module. */
void shader_module_note(Shaders *shaders, VkShaderModule module, const VkShaderModuleCreateInfo *info);
/* Forgets a module's code and name. */
void shader_module_forget(Shaders *shaders, VkShaderModule module);
/* Returns a digest of the stage's code, the same in every process; 0 if it is unknown. */
uint64_t shader_code_of_stage(Shaders *shaders, const VkPipelineShaderStageCreateInfo *stage);

#endif
