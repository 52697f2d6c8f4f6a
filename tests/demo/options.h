// The command line of the demo program.
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

typedef enum { KIND_MIXED, KIND_COMPUTE, KIND_GRAPHICS, KIND_RAY_TRACING, KIND_LIBRARIES } Kind;
typedef enum { CACHE_NONE, CACHE_OBJECT, CACHE_FILE } CacheMode;
typedef enum { EXIT_DESTROY, EXIT_RETURN, EXIT_EXIT, EXIT_UNDERSCORE, EXIT_ABORT } ExitMode;
// Where the program's pipeline binaries come from.
typedef enum {
    SOURCE_NONE, // not asked for
    SOURCE_PLAIN,
    SOURCE_CAPTURE,
    SOURCE_INTERNAL,
    SOURCE_CREATE,
    SOURCE_UNUSED,
} Source;

typedef struct {
    Kind kind;
    uint32_t count;
    uint32_t batch;
    uint32_t threads;
    uint32_t deferred; // threads that join a deferred operation; 0: none is used
    uint32_t seed;
    CacheMode cache;
    const char *cache_file; // with CACHE_FILE
    const char *cache_save;
    Source source;
    const char *archive;
    bool any_global_key, no_modules, disable_internal_cache;
    bool feedback;
    bool fail_on_compile_required;
    bool early_return;
    bool derivatives;
    uint32_t api; // VK_API_VERSION_1_0 to _1_3
    bool features13;
    bool cache_control; // also set when a flag above needs the feature
    const char *device; // NULL: choose
    ExitMode exit_mode;
    uint32_t repeat_instances;
    bool json, memory;
} Options;

// Exits with status 0 for --help and 2 for a wrong command line.
Options options_parse(int argc, char **argv);

// Whether the device has VK_KHR_pipeline_binary.
bool uses_binaries(const Options *options);

#endif
