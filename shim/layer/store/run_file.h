/*
 * run_file.h - the statistics of a run in which policy has nothing to do.
 *
 * The device counts in the mapped file of its crash marker, so that others can read it meanwhile (pylayer stats), and
 * after a kill. At the device's end the layer writes the run's file. A run has the name of its crash marker: whoever
 * finds a run's file of that name does not count the crash marker.
 */
#ifndef PYLAYER_RUN_FILE_H
#define PYLAYER_RUN_FILE_H

#include "store/store.h"

/* Writes the run's file, for a device with a decision (docs/internals/format.md, 'Runs'). */
void run_file_write(Store *store);

/* For a device with a decision: writes which stored pipelines the run used into the store, if no run did within a day.
 * Without it, the store would evict first what is used most (pylayer/store/contents.py). */
void uses_write(Store *store);

/* Fills in a new crash marker's bytes in which the run will be counted. */
void run_begin(const Store *store, uint8_t live[PYLAYER_LIVE_BYTES]);
/* The device counts in this mapped crash marker from now on. */
void run_count_in(Run *run, uint8_t *live);
/* Writes the file of a run whose process died: `live` is its crash marker, aligned as Counters is. Returns false if
 * only the commands can do that, because another build of the layer counted there. */
bool run_file_of_dead(const uint8_t live[PYLAYER_LIVE_BYTES], const char *run_name);
/* Returns how many pipelines such a run has compiled that can be stored; UINT64_MAX if its crash marker does not count
 * them. */
uint64_t run_compiled(const uint8_t live[PYLAYER_LIVE_BYTES]);

/* Returns true if there are more files of runs than policy keeps. */
bool run_files_are_many(void);

/* ---- own_file.c: files that the layer itself makes in a folder of the store ------------------------------ */

#define UNIQUE_NAME_BYTES 34
/* Fills in a name that no other process makes: files.unique_name of Python. Returns false if there are no random
 * numbers. */
bool unique_name(char name[UNIQUE_NAME_BYTES], uint64_t now_ns);

/* Nanoseconds since 1970. */
uint64_t wall_clock_ns(void);
/* Fills in what of a new file's header is this process's, and the file's name. The header's kind and identity are set
 * already, and created_ns may be. Returns false if there are no random numbers. */
bool own_file_describe(const Run *run, FileHeader *header, const char *suffix, char name[PYLAYER_STORE_NAME_BYTES]);
/* Returns true if there is such a file, and its salt. */
bool own_file_is_there(const char *directory, const char *name, uint64_t *salt);
/* Adds a record, of which magic, size and times are set, to a file with this salt. new_file: the header of a file that
 * is not there yet. Makes its folder if that is missing. Returns false if not all of it could be written. The record
 * may then be torn, so readers must accept one whose end is missing. */
bool own_file_add(const char *directory, const char *name, const FileHeader *new_file, uint64_t salt,
                  RecordHeader record, const void *data);

#endif
