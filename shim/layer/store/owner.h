/* owner.h - which process wrote a file of the store, and whether it lives: pylayer/common/owner.py in C */
#ifndef PYLAYER_OWNER_H
#define PYLAYER_OWNER_H

#include "store/store_format.h"

/* Fills in machine, pid and start time of this process. Returns false if /proc does not tell them. */
bool owner_write(FileHeader *header);
/* Returns true if the process that wrote the file runs on this machine now. */
bool owner_is_alive(const FileHeader *header);
/* Returns true if it ran on this machine since its last boot. */
bool owner_was_here(const FileHeader *header);

#endif
