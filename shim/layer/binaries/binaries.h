/* binaries.h - the pipeline binaries of a device, and what is known of the driver's */
#ifndef PYLAYER_BINARIES_H
#define PYLAYER_BINARIES_H

#include "binaries/binary_history.h"
#include "binaries/binary_index.h"
#include "crash/crash.h"
#include "driver/driver.h"
#include "run/run.h"

struct Binaries {
    const Driver *driver;
    Run *run;
    Crash *crash;

    /* enabled: pipelineBinaries is enabled. app_enabled: the application enabled it. */
    bool enabled, app_enabled;
    /* The application asked for a pipeline's key or, by its create info, for its binaries: it keeps binaries itself. It
     * may get them from the driver's internal cache, which lacks what went through a VkPipelineCache. So from then on the
     * layer adds no cache, and stores no binaries. */
    atomic_bool app_keeps;
    bool app_extension, app_maintenance5; /* the application enabled these, so it may use their commands */
    bool internal_cache;      /* VkPipelineBinaryCreateInfoKHR::pPipelineCreateInfo may be used with this driver */
    bool driver_cache_off;    /* disableInternalCache */
    atomic_ullong global_key; /* what binaries_global_key returned last */
    BinaryIndex index;
    BinaryHistory history;
    atomic_uint failures[PYLAYER_KIND_COUNT]; /* in a row */
};

void binaries_open(Binaries *binaries, const Driver *driver, Run *run, Crash *crash);
/* Returns the XXH3-64 of the driver's global key, and 0 if the driver does not give it. Binaries are of use only under an
 * equal one: it changes with anything that makes them useless (Vulkan, vkGetPipelineKeyKHR). The driver is asked by the
 * first call, so that a program which only enables the extension needs no key. */
uint64_t binaries_global_key(Binaries *binaries);
/* Frees memory. binary_index_close has destroyed the driver's objects before. */
void binaries_close(Binaries *binaries);

#endif
