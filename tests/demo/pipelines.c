// An ordinary Vulkan program that creates pipelines and does nothing with them. It needs neither memory nor a queue
// that works, and it knows of no layer: what happens to its pipelines is between the loader, the layers and the driver.

#include "binaries.h"
#include "objects.h"
#include "options.h"
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- What it prints --------------------------------------------------------------------------------------------

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

static void print_json(const Device *device, const Objects *objects, const Tally *t)
{
    printf("{\"driver\": \"%s\", \"device\": \"%s\", \"gpu\": %d", device->driver, device->properties.deviceName,
           is_gpu(&device->properties));
#define PRINT(name) printf(", \"" #name "\": %" PRIu64, t->name);
    TALLY_NUMBERS(PRINT)
    printf(", \"feedback\": {\"valid\": %" PRIu64 ", \"application_cache_hit\": %" PRIu64 ", \"untouched\": %" PRIu64
           "}",
           t->feedback_valid, t->feedback_cache_hit, t->feedback_untouched);
    printf(", \"create_instance_ns\": %" PRIu64 ", \"create_device_ns\": %" PRIu64 ", \"read_cache_ns\": %" PRIu64
           ", \"create_cache_ns\": %" PRIu64,
           device->instance_ns, device->device_ns, objects->read_cache_ns, objects->create_cache_ns);
    printf(", \"elapsed_ns\": %" PRIu64 ", \"cache_loaded_bytes\": %zu, \"results\": [", t->elapsed_ns,
           objects->cache_loaded_bytes);
    for (uint32_t i = 0; i < t->result_count; ++i)
        printf("%s%d", i ? ", " : "", t->results[i]);
    printf("]");
}

static void print_line(const Device *device, Tally *t)
{
    const uint64_t n = t->pipelines;
    qsort(t->samples, t->slots, sizeof *t->samples, by_value);
    const double *samples = t->samples + t->slots - n; // behind those that are empty
    printf("%s: %" PRIu64 " of %" PRIu64 " pipelines in %.1f ms; median %.1f us, mean %.1f us, p99 %.1f us",
           device->properties.deviceName, t->created, n, (double)t->create_ns_total / 1e6,
           (samples[(n - 1) / 2] + samples[n / 2]) / 2e3, (double)t->create_ns_total / (double)n / 1e3,
           samples[(n * 99 + 99) / 100 - 1] / 1e3);
}

static void report(const Device *device, const Objects *objects, const Options *options, Tally *tally,
                   const Binaries *binaries)
{
    const size_t cache_bytes = cache_size(objects, device->handle); // as programs ask, whatever they do with it
    if (options->json)
        print_json(device, objects, tally);
    else
        print_line(device, tally);
    if (options->json && options->memory)
        print_memory();
    if (options->json && binaries)
        binaries_print(binaries);
    if (!options->json && options->cache != CACHE_NONE)
        printf("; cache %zu bytes, %zu loaded", cache_bytes, objects->cache_loaded_bytes);
    puts(options->json ? "}" : "");
    fflush(stdout);
}

// ---- The process -----------------------------------------------------------------------------------------------

int main(int argc, char **argv)
{
    Options options = options_parse(argc, argv);
    Device device = {.instance = VK_NULL_HANDLE};
    for (uint32_t i = 0; i < options.repeat_instances; ++i) {
        device_open(&device, &options);
        device_close(&device);
        device = (Device){.instance = VK_NULL_HANDLE};
    }
    device_open(&device, &options);

    Objects objects;
    objects_create(&objects, &device, &options);
    Binaries *binaries = uses_binaries(&options) ? binaries_open(&device, &options) : NULL;
    Tally tally = run(&device, &objects, &options, binaries);
    if (binaries)
        binaries_save(binaries);
    report(&device, &objects, &options, &tally, binaries);
    if (options.cache_save)
        cache_save(&objects, device.handle, options.cache_save);
    if (tally.failed > 0)
        fprintf(stderr, "pipelines: %" PRIu64 " pipelines failed\n", tally.failed);

    int status = tally.failed > 0;
    if (options.exit_mode == EXIT_EXIT)
        exit(status);
    if (options.exit_mode == EXIT_UNDERSCORE)
        _exit(status);
    if (options.exit_mode == EXIT_ABORT)
        abort();
    if (options.exit_mode == EXIT_RETURN)
        return status;
    tally_destroy(&tally, device.handle);
    if (binaries)
        binaries_close(binaries);
    objects_destroy(&objects, device.handle);
    device_close(&device);
    return status;
}
