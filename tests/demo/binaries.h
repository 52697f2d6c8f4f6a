// What the program does with VK_KHR_pipeline_binary, as it is meant to be used: it asks for a pipeline's key, looks into
// its own archive, creates from binaries, and otherwise gets them from the driver for the next time.
#ifndef DEMO_BINARIES_H
#define DEMO_BINARIES_H

#include "run.h"

Binaries *binaries_open(const Device *device, const Options *options);
// Creates the pipeline of a recipe.
VkResult binaries_create(Binaries *binaries, Recipe *recipe, Call kind, VkPipeline *pipeline);
// Writes the archive, if there is to be one.
void binaries_save(const Binaries *binaries);
// Members of a JSON object.
void binaries_print(const Binaries *binaries);
// Destroys the binaries that pipelines were made from: nothing in the specification lets them go before these.
void binaries_close(Binaries *binaries);

#endif
