/* shader_modules.h - a digest of each shader's code */
#ifndef PYLAYER_SHADER_MODULES_H
#define PYLAYER_SHADER_MODULES_H

#include "base.h"

void shader_modules_open(Device *device);
void shader_modules_close(Device *device);
/* Returns a digest of the stage's code, the same in every process; 0 if it is unknown. */
uint64_t shader_code_of_stage(Device *device, const VkPipelineShaderStageCreateInfo *stage);

#endif
