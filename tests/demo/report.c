#include "report.h"

#include "binaries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Bytes that a file of /proc gives for a key in KiB.
static unsigned long long bytes_of(const char *path, const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            kib = strtoull(line + strlen(key), NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

// Whatever works beside the program ends within the second.
static void print_memory(void)
{
    static const char status[] = "/proc/self/status";
    printf(", \"peak\": %llu", bytes_of(status, "VmHWM:"));
    sleep(1);
    printf(", \"resident\": %llu, \"anonymous\": %llu", bytes_of(status, "VmRSS:"),
           bytes_of("/proc/self/smaps_rollup", "Anonymous:"));
}

static void print_json(const Report *r)
{
    const Tally *t = r->tally;
    printf("{\"driver\": \"%s\", \"device\": \"%s\"", r->device->driver, r->device->properties.deviceName);
#define PRINT(name) printf(", \"" #name "\": %" PRIu64, t->name);
    TALLY_NUMBERS(PRINT)
    printf(", \"feedback\": {\"valid\": %" PRIu64 ", \"application_cache_hit\": %" PRIu64 ", \"untouched\": %" PRIu64
           "}",
           t->feedback_valid, t->feedback_cache_hit, t->feedback_untouched);
    printf(", \"create_instance_ns\": %" PRIu64 ", \"create_device_ns\": %" PRIu64 ", \"read_cache_ns\": %" PRIu64
           ", \"create_cache_ns\": %" PRIu64,
           r->device->instance_ns, r->device->device_ns, r->objects->read_cache_ns, r->objects->create_cache_ns);
    printf(", \"elapsed_ns\": %" PRIu64 ", \"cache_loaded_bytes\": %zu, \"results\": [", t->elapsed_ns,
           r->objects->cache_loaded_bytes);
    for (uint32_t i = 0; i < t->result_count; ++i)
        printf("%s%d", i ? ", " : "", t->results[i]);
    printf("]");
    if (r->options->memory)
        print_memory();
    if (r->binaries)
        binaries_print(r->binaries);
    printf("}\n");
}

static void print_line(const Report *r)
{
    const Tally *t = r->tally;
    const uint64_t n = t->pipelines;
    qsort(t->samples, t->slots, sizeof *t->samples, by_value);
    const double *samples = t->samples + t->slots - n; // behind those that are empty
    printf("%s: %" PRIu64 " of %" PRIu64 " pipelines in %.1f ms; median %.1f us, mean %.1f us, p99 %.1f us",
           r->device->properties.deviceName, t->created, n, (double)t->create_ns_total / 1e6,
           (samples[(n - 1) / 2] + samples[n / 2]) / 2e3, (double)t->create_ns_total / (double)n / 1e3,
           samples[(n * 99 + 99) / 100 - 1] / 1e3);
    if (r->options->cache != CACHE_NONE)
        printf("; cache %zu bytes, %zu loaded", r->cache_bytes, r->objects->cache_loaded_bytes);
    printf("\n");
}

void report_print(const Report *report)
{
    (report->options->json ? print_json : print_line)(report);
    fflush(stdout);
}
