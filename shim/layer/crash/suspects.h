/* suspects.h - stored records, and pipelines, over which an earlier process died */
#ifndef PYLAYER_SUSPECTS_H
#define PYLAYER_SUSPECTS_H

#include "device/device.h"
#include "store/verdicts.h"

/* Copies the list. Returns false if memory is short or a list was set before. */
bool suspects_set(Device *device, const uint64_t *fingerprints, uint64_t count, uint32_t kinds);
/* The same for what settled verdicts name, records included. Call it before any pipeline is created. */
bool suspects_take(Device *device, const Verdicts *verdicts);
bool suspects_find(const Device *device, uint64_t fingerprint, enum PylayerPipelineKind kind);
/* Returns true if the driver must not get this record. */
bool suspects_find_record(const Device *device, const uint8_t digest[PYLAYER_DIGEST_BYTES]);
void suspects_free(Device *device);

#endif
