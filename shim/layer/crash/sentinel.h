/*
 * sentinel.h - the crash sentinel: what stored or application data is in the driver's hands just now.
 *
 * Drivers crash on damaged data, and mostly not where they are given it: of 942 damaged binaries one driver crashed on
 * 301, all in vkCreate*Pipelines (measured, RADV 25.0.7). A signal handler is the program's to have. So the layer says in
 * a mapped file what it is about to give, and takes it back afterwards: stores into memory, no system call. The file
 * outlives the process; the next start of the same device sets aside what is still marked (pylayer/store/sentinel.py).
 *
 * A mark that costs nothing must say little: records and data by the beginning of their digests, pipelines by their
 * fingerprints. Nothing is marked where no stored or application data is in the cache that the driver looks into, nor
 * while it compiles into a cell.
 */
#ifndef PYLAYER_SENTINEL_H
#define PYLAYER_SENTINEL_H

#include "pipelines/batch.h"

/* As many marks as one call takes; all NULL: not watched. */
#define MARKS_PER_CALL 8
typedef struct Mark {
    PylayerMark *taken[MARKS_PER_CALL];
} Mark;

/* 0, -1, or -2 where writing to a mapped page may raise SIGBUS when the disk is full. */
int sentinel_open(Device *device, int fd);
/* When no thread of the device can be in the driver any more. */
void sentinel_close(Device *device);

Mark mark_records(Device *device, const uint8_t *digests, uint32_t record_count);
Mark mark_application_data(Device *device, uint64_t data_id);
/* data_ids: AppCache::data_id of the merged caches, at most PYLAYER_MARK_IDS. */
Mark mark_merge(Device *device, const uint64_t *data_ids, unsigned id_count);
/* Elements of one call, NULL where what is created is not known. foreign: stored data is in what the driver looks into, beside the application's cache. */
Mark mark_pipelines(Device *device, const Element *elements, uint32_t count, const AppCache *app_cache, bool foreign,
                    bool may_compile);
void mark_end(Mark mark);

/* The beginning of a digest, as marks name it. */
uint64_t digest_id(const uint8_t digest[PYLAYER_DIGEST_BYTES]);

#endif
