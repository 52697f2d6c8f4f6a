/* binary_record.h - the binaries of one pipeline as bytes */
#ifndef PYLAYER_BINARY_RECORD_H
#define PYLAYER_BINARY_RECORD_H

#include "driver/driver.h"

/* All VkPipelineBinaryKHR of one pipeline as bytes (docs/internals/format.md, 'Binaries'): this head, an entry for each
 * binary, and each binary's data at a multiple of 16. Little-endian, like every machine that the layer runs on. */
typedef struct BinaryRecord {
    uint32_t count, key_size;
    uint64_t global_key;                   /* under which the driver gave them (binaries_global_key) */
    uint8_t key[PYLAYER_BINARY_KEY_BYTES]; /* of the pipeline */
    struct {
        uint64_t size;
        uint32_t key_size, zero;
        uint8_t key[PYLAYER_BINARY_KEY_BYTES];
    } entries[];
} BinaryRecord;

/* Returns data as a record, or NULL if the counts and sizes in it do not match its size. */
const BinaryRecord *binary_record_check(const void *data, uint64_t size);
/* Returns a malloc'ed record with the data of the handles, or NULL if the driver fails or there is no memory. Its
 * global_key is 0. */
BinaryRecord *binary_record_read(const Driver *driver, const VkPipelineBinaryKeyKHR *key, uint32_t handle_count,
                                 const VkPipelineBinaryKHR *handles, uint64_t *size);
/* Calls vkCreatePipelineBinariesKHR of the next layer with the record's keys and data, for as many handles. Returns false,
 * and there is none, if not all could be created. */
bool binary_record_create(const Driver *driver, const BinaryRecord *record, VkPipelineBinaryKHR *handles);

#endif
