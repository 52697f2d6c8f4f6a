/* sentinel_file.h - the crash sentinel's file, where the layer makes it and not policy: pylayer/store/sentinel.py */
#ifndef PYLAYER_SENTINEL_FILE_H
#define PYLAYER_SENTINEL_FILE_H

#include "base.h"
#include "store/store_format.h"

#define SENTINEL_OUTSIDE_BYTES 18 /* a hash of the folder, a hyphen */

/* Writes how the names of this folder's sentinels in the runtime directory begin. An empty string: there can be none. */
void sentinel_outside_name(const char *folder, char beginning[SENTINEL_OUTSIDE_BYTES]);
/* Makes and maps the file in the device's folder, or in the runtime directory (Stored::outside): if `outside` is set, or if
 * a write to a mapped page may fail in the folder. Returns false if neither can be done. */
bool sentinel_create(Device *device, const char *folder, FileHeader header, bool outside);
/* Deletes the file if the layer made it. */
void sentinel_remove(Device *device);
/* Returns true if the process that made this sentinel may have died over what the driver was working on. own: it is the
 * same program. Another's death matters only in a call that the layer adds. Sets *ended if the file of a killed run was
 * written. */
bool sentinel_may_be_dead(int directory, const char *name, bool own, bool *ended);
/* The same for all of a folder's sentinels in the runtime directory. */
bool sentinels_outside_may_be_dead(const char *beginning, uint64_t program);

#endif
