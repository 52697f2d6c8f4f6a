/* live_file.h - files of crash sentinels (crash/sentinel.h): where they are, and what those of other processes say */
#ifndef PYLAYER_LIVE_FILE_H
#define PYLAYER_LIVE_FILE_H

#include "base.h"
#include "process/trusted.h"
#include "store/store_format.h"

#define LIVE_SUFFIX ".live"
#define LIVE_OUTSIDE_BYTES 18 /* a hash of the folder, a hyphen */

/* Writes how the names of this folder's sentinels in the runtime directory begin. An empty string: there can be none. */
void live_outside_name(const char *folder, char beginning[LIVE_OUTSIDE_BYTES]);
/* Writes the runtime directory, whose files are in memory. Returns false if its path is too long. */
bool live_outside_directory(char directory[PATH_BYTES]);
/* Returns zeros with room for a sentinel; NULL if memory is short. */
uint8_t *live_bytes(void);
/* Returns the part of a sentinel's name that is the run's. */
const char *live_run_name(char run_name[PYLAYER_RUN_NAME_BYTES], const char *name);
/* What sentinels say of runs whose process ended without a mark. */
typedef struct LiveEnded {
    bool written;                          /* the file of such a run was written */
    bool unknown;                          /* of this program; what it compiled is not counted in its sentinel */
    char compiled[PYLAYER_RUN_NAME_BYTES]; /* the newest of this program that compiled; empty: none */
} LiveEnded;

/* Returns true if the process that made this sentinel may have died over what the driver was working on. own: it is the
 * same program. Another's death matters only in a call that the layer adds. */
bool live_may_be_dead(int directory, const char *name, bool own, LiveEnded *ended);
/* The same for all of a folder's sentinels in the runtime directory. */
bool live_outside_may_be_dead(const char *beginning, uint64_t program, LiveEnded *ended);

#endif
