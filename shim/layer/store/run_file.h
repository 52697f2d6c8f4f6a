/* run_file.h - the statistics of a run in which policy had nothing to do */
#ifndef PYLAYER_RUN_FILE_H
#define PYLAYER_RUN_FILE_H

#include "base.h"

/* Writes the run's file, for a device with a kept plan (docs/internals/format.md, 'Runs'). */
void run_file_write(Device *device);

#endif
