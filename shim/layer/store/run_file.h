/*
 * run_file.h - the files that the layer writes itself: the statistics of a run in which policy has nothing to do, which
 * stored pipelines it used, and what is known of the program's caches.
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

/* Writes what a crash marker and a run's file say of a run. */
void run_describe(const Store *store, char text[LIVE_TEXT_BYTES]);
/* The device counts in this mapped crash marker from now on. */
void run_count_in(Run *run, LiveFile *live);
/* Writes the file of a run whose process died. Returns false if only the commands can do that, because another build of
 * the layer counted in the crash marker. */
bool run_file_of_dead(const LiveFile *live, const char *run_name);
/* Returns how many pipelines such a run has compiled that can be stored; UINT64_MAX if its crash marker does not count
 * them. */
uint64_t run_compiled(const LiveFile *live);
/* Returns true if there are more files of runs than policy keeps. */
bool run_files_are_many(void);

/* ---- own_file.c: files that the layer itself makes in a folder of the store ------------------------------ */

/* A file that no other process makes. */
typedef struct OwnFile {
    FileHeader header;
    char name[PYLAYER_STORE_NAME_BYTES];
} OwnFile;

/* Describes a file of this process, program and device. created_ns: 0 is now. Returns false if there are no random
 * numbers. */
bool own_file_describe(const Store *store, const char kind[4], const char *suffix, uint64_t created_ns, OwnFile *out);
/* Adds a record, of which magic, size and times are set, to the file. Makes it, and its folder, if it is not there:
 * policy may have begun a run's file. Returns false if not all of it could be written. The record may then be torn, so
 * readers must accept one whose end is missing. */
bool own_file_add(const char *directory, const OwnFile *file, RecordHeader record, const void *data);

#endif
