// An ordinary Vulkan program that creates pipelines and does nothing with them. It needs neither memory nor a queue
// that works, and it knows of no layer: what happens to its pipelines is between the loader, the layers and the driver.

#include "binaries.h"
#include "objects.h"
#include "options.h"
#include "report.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void repeat_instances(const Options *options)
{
    for (uint32_t i = 0; i < options->repeat_instances; ++i) {
        Device device = {.instance = VK_NULL_HANDLE};
        device_open(&device, options);
        device_close(&device);
    }
}

// Ends the process with every Vulkan object still alive. Returns only when main is to return.
static void leave(ExitMode mode, int status)
{
    switch (mode) {
    case EXIT_EXIT:
        exit(status);
    case EXIT_UNDERSCORE:
        _exit(status);
    case EXIT_ABORT:
        abort();
    default:
        return;
    }
}

int main(int argc, char **argv)
{
    Options options = options_parse(argc, argv);
    repeat_instances(&options);

    Device device = {.instance = VK_NULL_HANDLE};
    device_open(&device, &options);

    Objects objects;
    objects_create(&objects, &device, &options);
    Report report = {.device = &device, .objects = &objects, .options = &options};
    Binaries *binaries = uses_binaries(&options) ? binaries_open(&device, &options) : NULL;
    Tally tally = run(&device, &objects, &options, binaries);
    report.tally = &tally;
    report.binaries = binaries;
    report.cache_bytes = cache_size(&objects, device.handle);
    if (binaries)
        binaries_save(binaries);
    report_print(&report);
    if (options.cache_save)
        cache_save(&objects, device.handle, options.cache_save);

    int status = tally.failed > 0;
    if (tally.failed > 0)
        fprintf(stderr, "pipelines: %llu pipelines failed\n", (unsigned long long)tally.failed);
    if (options.exit_mode != EXIT_DESTROY) {
        leave(options.exit_mode, status);
        return status;
    }
    tally_destroy(&tally, device.handle);
    if (binaries)
        binaries_close(binaries);
    objects_destroy(&objects, device.handle);
    device_close(&device);
    return status;
}
