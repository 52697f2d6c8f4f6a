/* suspects.h - stored records, and pipelines, over which an earlier process died */
#ifndef PYLAYER_SUSPECTS_H
#define PYLAYER_SUSPECTS_H

#include "crash/crash.h"
#include "store/verdicts.h"

/* Copies the list. Returns false if memory is short or a list was set before. */
bool suspects_set(Crash *crash, const uint64_t *fingerprints, uint64_t count, uint32_t kinds);
/* The same for what settled verdicts name, records included. Call it before any pipeline is created. */
bool suspects_take(Crash *crash, const Verdicts *verdicts);
bool suspects_find(const Crash *crash, uint64_t fingerprint, enum PylayerPipelineKind kind);
/* Returns true if the driver must not get this record. */
bool suspects_find_record(const Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES]);
void suspects_free(Crash *crash);

#endif
