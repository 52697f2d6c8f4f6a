/* modes.h - the paths, one function each; the file of the same name has it. */
#ifndef TEST_MODES_H
#define TEST_MODES_H

#include "paths.h"

void mode_caches(Path *path);
void mode_constants(Path *path);
void mode_derivatives(Path *path);
void mode_descriptor_heap(Path *path);
void mode_device_group(Path *path);
void mode_executables(Path *path);
void mode_feedback(Path *path);
void mode_flags(Path *path);
void mode_inline_modules(Path *path);
void mode_libraries(Path *path);
void mode_private_data(Path *path);
void mode_rendering(Path *path);
void mode_robustness(Path *path);
void mode_shader_objects(Path *path);
void mode_stages(Path *path);
void mode_subgroups(Path *path);

#endif
