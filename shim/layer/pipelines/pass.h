/* pass.h - passes commands that create pipelines to the driver as the application made them */
#ifndef PYLAYER_PASS_H
#define PYLAYER_PASS_H

#include "crash/sentinel.h"

/* One command's use of the application's cache. */
typedef struct PassedUse {
    AppCache *app_cache;   /* NULL: the layer never merges into the cache that the driver gets */
    VkPipelineCache cache; /* the cache that the driver gets */
    Mark mark;
} PassedUse;

/* These enclose the call to the driver. deferred: the driver may use the cache until an end that the layer does not
 * see. suspected: a process died while it created one of these pipelines, so the driver gets no cache. */
PassedUse pass_begin(Device *device, VkPipelineCache cache, uint32_t pipeline_count, bool deferred, bool suspected);
void pass_end(Device *device, const PassedUse *use);

/* Calls vkCreate*Pipelines as the application did. For a probe, returns VK_PIPELINE_COMPILE_REQUIRED instead. */
VkResult pass_pipelines(const PipelineCall *call);
/* Returns true if a process died while it created one of the call's pipelines (Element::suspect). */
bool pass_has_suspects(const PipelineCall *call);

#endif
