/*
 * run_file.h - the statistics of a run in which policy has nothing to do.
 *
 * The device counts in the mapped file of its crash sentinel, so that others can read it meanwhile (pylayer stats), and
 * after a kill. At the device's end the layer writes the run's file. A run has the name of its sentinel: whoever finds a
 * run's file of that name does not count the sentinel.
 */
#ifndef PYLAYER_RUN_FILE_H
#define PYLAYER_RUN_FILE_H

#include "store/store.h"

/* Writes the run's file, for a device with a kept plan (docs/internals/format.md, 'Runs'). */
void run_file_write(Store *store);

/* Fills in a new sentinel's bytes in which the run will be counted. */
void run_begin(const Store *store, uint8_t live[PYLAYER_LIVE_BYTES]);
/* The device counts in this mapped sentinel from now on. */
void run_count_in(Run *run, uint8_t *live);
/* Writes the file of a run whose process died: `live` is its sentinel, aligned as Counters is. Returns false if only
 * the commands can do that, because another build of the layer counted there. */
bool run_file_of_dead(const uint8_t live[PYLAYER_LIVE_BYTES], const char *run_name);
/* Returns true if such a run has compiled what can be stored. */
bool run_has_compiled(const uint8_t live[PYLAYER_LIVE_BYTES]);
/* Returns true if there are more files of runs than there should be, so that policy should delete the oldest. */
bool run_files_are_many(void);

#endif
