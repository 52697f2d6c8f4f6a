/* binary_history.h - the data that the application read from its own binaries */
#ifndef PYLAYER_BINARY_HISTORY_H
#define PYLAYER_BINARY_HISTORY_H

#include "base.h"

typedef struct Binaries Binaries;

/* Digests, by key, of the data of binaries that the application read, in this run or in others. */
#define BINARY_HISTORY_BUCKETS 1024
typedef struct BinaryHistory {
    pthread_mutex_t mutex, asking;
    bool asked; /* policy has handed over what it knows, or was given the time; under `asking` */
    struct KnownBinary *buckets[BINARY_HISTORY_BUCKETS];
    uint64_t count;
} BinaryHistory;

enum BinaryOutcome { BINARY_UNKNOWN, BINARY_ATTESTED, BINARY_ALTERED, BINARY_STALE };

/* Copies `attested`. binaries_global_key was called before. Returns true if it was not known before. */
bool binary_history_add(Binaries *binaries, const PylayerAttested *attested);
/* Compares data that an application brings with what is known under its key. */
enum BinaryOutcome binary_history_judge(Binaries *binaries, const VkPipelineBinaryKeyKHR *key,
                                        const VkPipelineBinaryDataKHR *data);
void binary_history_free(Binaries *binaries);

#endif
