// The command line of the demo program, which creates many distinct pipelines as a game or a compute program does.
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

// A pipeline of KIND_LIBRARIES is four libraries, a fast link and one with LINK_TIME_OPTIMIZATION.
typedef enum { KIND_MIXED, KIND_COMPUTE, KIND_GRAPHICS, KIND_RAY_TRACING, KIND_LIBRARIES } Kind;
typedef enum { CACHE_NONE, CACHE_OBJECT, CACHE_FILE } CacheMode;
// How the process ends; by all but the first with every Vulkan object alive.
typedef enum { EXIT_DESTROY, EXIT_RETURN, EXIT_EXIT, EXIT_UNDERSCORE, EXIT_ABORT } ExitMode;
// Where the program's pipeline binaries come from.
typedef enum {
    SOURCE_NONE,     // nowhere: the extension is not asked for
    SOURCE_PLAIN,    // the same, with the limits of the others
    SOURCE_CAPTURE,  // CAPTURE_DATA
    SOURCE_INTERNAL, // the internal cache, or else CAPTURE_DATA
    SOURCE_CREATE,   // the internal cache after a plain creation
    SOURCE_UNUSED,   // nowhere: the extension is enabled
} Source;

enum { MAX_BATCH = 64 };

typedef struct {
    Kind kind; // --compute, --graphics, --ray-tracing, --gpl; without one compute and graphics in turn
    // --count N: pipelines to create, all of them distinct up to 7168 of compute, 8000 of graphics, twice as many as of
    // compute in turn, and 512 of ray tracing
    uint32_t count;
    uint32_t distinct;      // --distinct N: so many, again and again
    uint32_t batch;         // --batch N: create infos in one call
    uint32_t threads;       // --threads N: each with a part of the pipelines
    uint32_t deferred;      // --deferred N: threads that join a deferred operation; 0: none is used
    uint32_t seed;          // --seed N: other pipelines; the same number gives the same ones
    CacheMode cache;        // --cache none|object|FILE: the program's own; empty when there is no FILE
    const char *cache_file; // with CACHE_FILE
    const char *cache_save; // --cache-save FILE: that cache's data, in the end
    Source source;       // --source plain|capture|internal|create|unused: without batches and threads, with --api 1.3
    const char *archive; // --archive FILE: the program's own file of binaries
    bool any_global_key; // --any-global-key: binaries of another one, too, which no driver has to bear
    bool no_modules;     // --no-modules: creates from binaries without shader modules
    bool disable_internal_cache;   // --disable-internal-cache
    bool feedback;                 // --feedback
    bool fail_on_compile_required; // --fail-on-compile-required
    bool early_return;             // --early-return
    bool derivatives;              // --derivatives: of earlier pipelines
    uint32_t api;                  // --api 1.0|1.1|1.2|1.3
    bool features13;               // --features13: chains VkPhysicalDeviceVulkan13Features
    bool cache_control;            // --cache-control; also set when a flag above needs the feature
    const char *device;            // --device INDEX|NAME; NULL: choose
    ExitMode exit_mode;            // --exit return|exit|_exit|abort; --no-destroy is return
    uint32_t repeat_instances;     // --repeat-instances N: creates and destroys instance and device so often before
    bool json;                     // --json: prints one JSON object
    bool memory;                   // --memory: with what the process needs of it
} Options;

// Ends the process for a wrong command line.
Options options_parse(int argc, char **argv);

// Whether the device has VK_KHR_pipeline_binary.
bool uses_binaries(const Options *options);

#endif
