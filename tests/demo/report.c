#include "report.h"

#include "binaries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    double median, mean, p99;
} Times;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Times times_of(Tally *tally)
{
    uint64_t n = tally->pipelines;
    if (n == 0)
        return (Times){0, 0, 0};
    qsort(tally->samples, n, sizeof *tally->samples, by_value);
    double middle = (tally->samples[(n - 1) / 2] + tally->samples[n / 2]) / 2;
    return (Times){middle, (double)tally->create_ns_total / (double)n, tally->samples[(n * 99 + 99) / 100 - 1]};
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; ++text) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= 0x20)
            putchar(*text);
    }
    putchar('"');
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

static void print_json(const Report *r, Times times)
{
    const Tally *t = r->tally;
    printf("{\"driver\": ");
    print_text(r->device->driver);
    printf(", \"device\": ");
    print_text(r->device->properties.deviceName);
    printf(", \"api\": \"%u.%u\"", VK_API_VERSION_MAJOR(r->device->api), VK_API_VERSION_MINOR(r->device->api));
#define PRINT(name) printf(", \"" #name "\": %" PRIu64, t->name);
    TALLY_NUMBERS(PRINT)
    printf(", \"feedback\": {\"valid\": %" PRIu64 ", \"application_cache_hit\": %" PRIu64 ", \"untouched\": %" PRIu64
           "}",
           t->feedback_valid, t->feedback_cache_hit, t->feedback_untouched);
    printf(", \"create_instance_ns\": %" PRIu64 ", \"create_device_ns\": %" PRIu64 ", \"read_cache_ns\": %" PRIu64
           ", \"create_cache_ns\": %" PRIu64,
           r->device->instance_ns, r->device->device_ns, r->objects->read_cache_ns, r->objects->create_cache_ns);
    printf(", \"cache_loaded_bytes\": %zu, \"cache_bytes\": %zu", r->objects->cache_loaded_bytes, r->cache_bytes);
    printf(", \"per_pipeline_ns\": {\"median\": %.0f, \"mean\": %.0f, \"p99\": %.0f}", times.median, times.mean,
           times.p99);
    printf(", \"results\": [");
    for (uint32_t i = 0; i < t->result_count; ++i)
        printf("%s%d", i ? ", " : "", t->results[i]);
    printf("]");
    if (r->options->memory)
        print_memory();
    if (r->binaries)
        binaries_print(r->binaries);
    printf("}\n");
}

static void print_line(const Report *r, Times times)
{
    const Tally *t = r->tally;
    printf("%s: %" PRIu64 " of %" PRIu64 " pipelines in %.1f ms; median %.1f us, mean %.1f us, p99 %.1f us",
           r->device->properties.deviceName, t->created, t->pipelines, (double)t->create_ns_total / 1e6,
           times.median / 1e3, times.mean / 1e3, times.p99 / 1e3);
    if (t->compile_required)
        printf("; %" PRIu64 " need a compile", t->compile_required);
    if (r->options->feedback)
        printf("; %" PRIu64 " cache hits of %" PRIu64 " with feedback", t->feedback_cache_hit, t->feedback_valid);
    if (r->options->cache != CACHE_NONE)
        printf("; cache %zu bytes, %zu loaded", r->cache_bytes, r->objects->cache_loaded_bytes);
    printf("\n");
}

void report_print(const Report *report)
{
    Times times = times_of(report->tally);
    if (report->options->json)
        print_json(report, times);
    else
        print_line(report, times);
    fflush(stdout);
}
