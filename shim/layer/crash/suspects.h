/* suspects.h - pipelines during whose creation an earlier process died */
#ifndef PYLAYER_SUSPECTS_H
#define PYLAYER_SUSPECTS_H

#include "device/device.h"

/* Copies the list. Returns false if memory is short or a list was set before. */
bool suspects_set(Device *device, const uint64_t *fingerprints, uint64_t count, uint32_t kinds);
bool suspects_find(const Device *device, uint64_t fingerprint, enum PylayerPipelineKind kind);
void suspects_free(Device *device);

#endif
