/* binary_record.h - the binaries of one pipeline as bytes */
#ifndef PYLAYER_BINARY_RECORD_H
#define PYLAYER_BINARY_RECORD_H

#include "base.h"

/* The bytes of all VkPipelineBinaryKHR of one pipeline (docs/format.md, 'Binaries'): this, an entry for each, and each
 * one's data at a multiple of 16. Little-endian, as every machine that this runs on. */
typedef struct BinaryRecord {
    uint32_t count, key_size;
    uint64_t zero;
    uint8_t key[PYLAYER_BINARY_KEY_BYTES]; /* of the pipeline */
    struct {
        uint64_t size;
        uint32_t key_size, zero;
        uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    } entries[];
} BinaryRecord;

/* A record that says only what its size has room for. NULL: none. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Reads the data of the handles, malloc'ed; NULL where the driver or memory fails. */
BinaryRecord *binary_record_read(Device *device, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size);
/* vkCreatePipelineBinariesKHR of the next layer with the record's keys and data. */
VkResult binary_record_create(Device *device, const BinaryRecord *record, const VkAllocationCallbacks *allocator,
                              uint32_t handle_count, VkPipelineBinaryKHR *handles);

#endif
