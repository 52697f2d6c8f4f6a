/* sentinel_file.h - the crash sentinel's file, where the layer makes it and not policy: pylayer/store/sentinel.py */
#ifndef PYLAYER_SENTINEL_FILE_H
#define PYLAYER_SENTINEL_FILE_H

#include "crash/crash.h"
#include "store/store.h"

/* Makes and maps the file in the device's folder, or in the runtime directory (Stored::outside): if `outside` is set, or if
 * a write to a mapped page may fail in the folder. Returns false if neither can be done. */
bool sentinel_create(Crash *crash, Store *store, const char *folder, FileHeader header, bool outside);
/* Deletes the file if the layer made it. */
void sentinel_remove(Crash *crash);

#endif
