/* What the environment asks for, and the file that tells what was seen. */
#include "faults.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fault_settings faults = {.internal_cache = -1,
                         .internal_cache_control = -1,
                         .prefers_internal_cache = -1,
                         .precompiled_internal_cache = -1,
                         .compressed_binaries = -1};
static int log_file = -1;

void die_at(long number, atomic_long *counter)
{
    if (!number || atomic_fetch_add(counter, 1) + 1 != number)
        return;
    if (faults.dies_by_kill)
        raise(SIGKILL);
    /* Not raise(): the policy thread blocks signals, and a real fault ends it all the same. */
    *(volatile int *)NULL = 0;
}

/* A setting with its own names for values is read here; the others are in the table below. */
static bool read_special(const char *name, const char *value)
{
    if (strcmp(name, "probe-misses") == 0) {
        static const char *const points[] = {"compute", "graphics", "ray-tracing"};
        for (unsigned i = 0; i < 3; i++)
            if (!value || strcmp(value, points[i]) == 0)
                faults.probe_misses |= 1u << i;
        return faults.probe_misses != 0;
    }
    if (strcmp(name, "stub-cache") == 0) {
        faults.stub_cache = true;
        faults.stub_is_empty_cache = value && strcmp(value, "empty") == 0;
        return true;
    }
    return false;
}

/* A setting that takes a result. */
static bool read_result(const char *name, const char *value)
{
    static const struct {
        const char *name;
        VkResult *result;
    } table[] = {
        {"key-fails", &faults.key_fails},
        {"global-key-fails", &faults.global_key_fails},
        {"probe-binaries-fails", &faults.probe_binaries_fails},
        {"read-binaries-fails", &faults.read_binaries_fails},
        {"import-fails", &faults.import_fails},
        {"binary-data-fails", &faults.binary_data_fails},
        {"from-binaries-fails", &faults.from_binaries_fails},
        {"capture-fails", &faults.capture_fails},
    };
    static const struct {
        const char *name;
        VkResult result;
    } results[] = {
        {"out-of-host-memory", VK_ERROR_OUT_OF_HOST_MEMORY},
        {"out-of-device-memory", VK_ERROR_OUT_OF_DEVICE_MEMORY},
        {"initialization-failed", VK_ERROR_INITIALIZATION_FAILED},
        {"invalid-shader", VK_ERROR_INVALID_SHADER_NV},
        {"unknown", VK_ERROR_UNKNOWN},
        {"compile-required", VK_PIPELINE_COMPILE_REQUIRED_EXT},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t j = 0; value && j < sizeof results / sizeof *results; j++)
            if (strcmp(name, table[i].name) == 0 && strcmp(value, results[j].name) == 0) {
                *table[i].result = results[j].result;
                return true;
            }
    return false;
}

static bool read_setting(const char *name, const char *value)
{
    const struct {
        const char *name;
        bool *flag;
        long *number;
    } table[] = {
        {"no-cache-control", &faults.no_cache_control, NULL},
        {"device-refuses-cache-control", &faults.device_refuses_cache_control, NULL},
        {"device-refused", &faults.device_refused, NULL},
        {"cache-data-refused", &faults.cache_data_refused, NULL},
        {"cache-refused", &faults.cache_refused, &faults.cache_refused_after},
        {"data-grows", &faults.data_grows, NULL},
        {"data-incomplete", &faults.data_incomplete, NULL},
        {"data-fails", &faults.data_fails, &faults.data_fails_at},
        {"merge-fails", &faults.merge_fails, &faults.merge_fails_at},
        {"pipeline-fails", NULL, &faults.pipeline_fails_at},
        {"pipelines-refused", NULL, &faults.pipelines_refused},
        {"no-feedback", &faults.no_feedback, NULL},
        {"feedback-without-hit-bit", &faults.feedback_without_hit_bit, NULL},
        {"compile-waits-for-hit", &faults.compile_waits_for_hit, NULL},
        {"compile-waits-for-merge", &faults.compile_waits_for_merge, NULL},
        {"merges-alone", &faults.merges_alone, NULL},
        {"note-merges", &faults.note_merges, NULL},
        {"witness-caches", &faults.witness_caches, NULL},
        {"slow-cache", NULL, &faults.slow_cache_ms},
        {"dies-loading", NULL, &faults.dies_loading},
        {"dies-merging", NULL, &faults.dies_merging},
        {"dies-probing", NULL, &faults.dies_probing},
        {"dies-compiling", NULL, &faults.dies_compiling},
        {"dies-by-kill", &faults.dies_by_kill, NULL},
        {"defers", &faults.defers, NULL},
        {"join-ends-late", &faults.join_ends_late, NULL},
        {"never-defers", &faults.never_defers, NULL},
        {"no-binaries", &faults.no_binaries, NULL},
        {"no-pipeline-binaries-feature", &faults.no_pipeline_binaries_feature, NULL},
        {"no-maintenance5", &faults.no_maintenance5, NULL},
        {"device-refuses-binaries", &faults.device_refuses_binaries, NULL},
        {"internal-cache", NULL, &faults.internal_cache},
        {"internal-cache-control", NULL, &faults.internal_cache_control},
        {"prefers-internal-cache", NULL, &faults.prefers_internal_cache},
        {"precompiled-internal-cache", NULL, &faults.precompiled_internal_cache},
        {"compressed-binaries", NULL, &faults.compressed_binaries},
        {"binary-missing", &faults.binary_missing, NULL},
        {"binary-missing-at-fetch", &faults.binary_missing_at_fetch, NULL},
        {"binary-fails", NULL, &faults.binary_fails_at},
        {"binaries-incomplete", &faults.binaries_incomplete, NULL},
        {"binary-data-grows", &faults.binary_data_grows, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) != 0)
            continue;
        if (table[i].flag)
            *table[i].flag = true;
        if (value && table[i].number)
            *table[i].number = strtol(value, NULL, 10);
        /* A number where there is none to give, or none where one is needed. */
        return value ? table[i].number != NULL : table[i].flag != NULL;
    }
    return read_special(name, value) || read_result(name, value);
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *path = getenv("PYLAYER_TEST_FAULTS_LOG");
    if (path && *path)
        log_file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    const char *wanted = getenv("PYLAYER_TEST_FAULTS");
    if (!wanted || !*wanted)
        return;
    char *copy = strdup(wanted), *rest = copy;
    for (char *name; copy && (name = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        if (*name && !read_setting(name, value)) {
            /* A test that injects nothing would pass. */
            fprintf(stderr, "faults: no such fault: %s\n", name);
            abort();
        }
    }
    free(copy);
}

static void write_line(const char *kind, const char *format, va_list arguments)
{
    char line[2048];
    if (log_file < 0)
        return;
    int used = snprintf(line, sizeof line, "faults: %s", kind);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    /* One write a line, so that the lines of threads and processes do not mix. */
    ssize_t written = write(log_file, line, length);
    (void)written;
}

void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line("", format, arguments);
    va_end(arguments);
}

void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line("VIOLATION ", format, arguments);
    va_end(arguments);
}
