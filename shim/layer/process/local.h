/*
 * local.h - whether another machine or process has to answer before a file can be read.
 *
 * On NFS, FUSE and the like each call on a file, statfs among them, may wait for ever. So the file system is looked up in
 * the table of mounts, by the path, and nothing on it is touched.
 */
#ifndef PYLAYER_LOCAL_H
#define PYLAYER_LOCAL_H

#include <stdbool.h>

/* These look once in a process, after environment_remember. True also if the table of mounts cannot be read. */
bool store_is_local(void);
bool system_store_is_local(void);
bool config_is_local(void);

#endif
