/* binaries.c - see binaries.h */
#include "binaries/binaries.h"

void binaries_open(Binaries *binaries, const Driver *driver, Run *run, Crash *crash)
{
    binaries->driver = driver;
    binaries->run = run;
    binaries->crash = crash;
    binary_index_open(binaries);
    pthread_mutex_init(&binaries->history.mutex, NULL);
}

void binaries_close(Binaries *binaries)
{
    binary_index_free(binaries);
    binary_history_free(binaries);
}
