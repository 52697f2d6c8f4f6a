/* binary_history.h - what the application read of its own binaries */
#ifndef PYLAYER_BINARY_HISTORY_H
#define PYLAYER_BINARY_HISTORY_H

#include "base.h"

/* Digests, by key, of the data of binaries that the application read, in this run or in others. */
#define BINARY_HISTORY_BUCKETS 1024
typedef struct BinaryHistory {
    pthread_mutex_t mutex;
    struct KnownBinary *buckets[BINARY_HISTORY_BUCKETS];
    uint64_t bytes, count;
} BinaryHistory;

enum BinaryOutcome { BINARY_UNKNOWN, BINARY_ATTESTED, BINARY_ALTERED, BINARY_STALE };

/* Copies it; true when it was not known before. data, where there is room for it, is what restoring needs. */
bool binary_history_add(Device *device, const PylayerAttested *attested);
/* What is known of data that an application brings. restored: of altered data, the one content known under that key,
 * valid until the device goes; else NULL. */
enum BinaryOutcome binary_history_judge(Device *device, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data, VkPipelineBinaryDataKHR *restored);
void binary_history_free(Device *device);

#endif
