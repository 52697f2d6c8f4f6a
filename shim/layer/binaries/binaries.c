/* binaries.c - see binaries.h */
#include "binaries/binaries.h"

#include "crash/crash.h"

void binaries_open(Binaries *binaries, const Driver *driver, Run *run, Crash *crash)
{
    binaries->driver = driver;
    binaries->run = run;
    binaries->crash = crash;
    pthread_mutex_init(&binaries->index_mutex, NULL);
}

uint64_t binaries_global_key(Binaries *binaries)
{
    uint64_t known = atomic_load(&binaries->global_key);
    if (known || !binaries->enabled || call_is_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, 0))
        return known;
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    Mark mark = mark_added(binaries->crash, PYLAYER_MARK_KEY, 0, 0);
    VkResult result = binaries->driver->get_pipeline_key(binaries->driver->handle, NULL, &key);
    mark_end(mark);
    if (result == VK_SUCCESS && key.keySize > 0 && key.keySize <= sizeof key.key)
        known = digest64(key.key, key.keySize, 0);
    atomic_store(&binaries->global_key, known);
    return known;
}

void binaries_close(Binaries *binaries)
{
    binary_index_close(binaries);
    pthread_mutex_destroy(&binaries->index_mutex);
}
