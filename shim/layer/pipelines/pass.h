/* pass.h - commands that create pipelines, given to the driver as the application made them */
#ifndef PYLAYER_PASS_H
#define PYLAYER_PASS_H

#include "crash/sentinel.h"

/* A use of the application's cache by such a command. */
typedef struct PassedUse {
    AppCache *app_cache;   /* NULL: the layer never merges into what the driver gets */
    VkPipelineCache cache; /* what the driver gets */
    Mark mark;
} PassedUse;

/* Around the call to the driver. deferred: the driver may use the cache until an end that the layer does not see.
 * suspected: a process died at the creation of one of these pipelines, so the driver gets no cache. */
PassedUse pass_begin(Device *device, VkPipelineCache cache, uint32_t pipeline_count, bool deferred, bool suspected);
void pass_end(Device *device, const PassedUse *use);

/* vkCreate*Pipelines as the application called it. A probe returns VK_PIPELINE_COMPILE_REQUIRED instead. */
VkResult pass_pipelines(const PipelineCall *call);
/* A process died at the creation of one of the call's pipelines (Element::suspect). */
bool pass_has_suspects(const PipelineCall *call);

#endif
