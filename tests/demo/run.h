// Creates the pipelines and counts what came of it.
#ifndef DEMO_RUN_H
#define DEMO_RUN_H

#include "objects.h"
#include "options.h"
#include "recipes.h"

typedef enum { CALL_COMPUTE, CALL_GRAPHICS, CALL_RAYS, CALL_KINDS } Call;
typedef struct Binaries Binaries;

enum { MAX_RESULTS = 8 };

// pipelines: asked for; failed: no handle, for no reason that the program's flags allow; compile_required: no handle from
// a call that returned VK_PIPELINE_COMPILE_REQUIRED; feedback_untouched: the driver wrote nothing at all; create_ns_total:
// in the create calls, of all threads together.
#define TALLY_NUMBERS(NUMBER)                                                                                          \
    NUMBER(pipelines)                                                                                                  \
    NUMBER(created) NUMBER(failed) NUMBER(null_handles) NUMBER(compile_required) NUMBER(calls) NUMBER(create_ns_total)
#define FEEDBACK_NUMBERS(NUMBER) NUMBER(feedback_valid) NUMBER(feedback_cache_hit) NUMBER(feedback_untouched)
#define TALLY_MEMBER(name) uint64_t name;

typedef struct {
    TALLY_NUMBERS(TALLY_MEMBER)
    FEEDBACK_NUMBERS(TALLY_MEMBER)
    uint64_t elapsed_ns; // from the start of all threads to the end of the last one
    VkResult results[MAX_RESULTS];
    uint32_t result_count;
    // As many as there are to be pipelines; a pipeline whose libraries failed leaves some empty.
    uint64_t slots;
    double *samples;     // nanoseconds of each pipeline: its call's time, divided by the call's pipelines
    VkPipeline *handles; // VK_NULL_HANDLE where there is none
} Tally;

// The create info of a recipe.
void *info_of(Recipe *recipe, Call kind);
VkResult create(const Device *device, VkPipelineCache cache, Call kind, VkDeferredOperationKHR operation,
                uint32_t count, const void *infos, VkPipeline *handles);

Tally run(const Device *device, const Objects *objects, const Options *options, Binaries *binaries);

void tally_destroy(Tally *tally, VkDevice device);

#endif
