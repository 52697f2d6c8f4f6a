/* digest.h - XXH3 */
#ifndef PYLAYER_DIGEST_H
#define PYLAYER_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "../../boundary.h"

/* XXH3-64. A seed gives equal bytes of different meaning different digests. It also chains pieces. */
uint64_t digest64(const void *data, size_t size, uint64_t seed);
/* XXH3-128 in canonical bytes, as Python's xxhash.xxh3_128_digest returns it. */
void digest128(const void *data, size_t size, uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* Writes the digest as xxhash.xxh3_128_hexdigest does, with a zero at the end. */
#define DIGEST_HEX_BYTES (2 * PYLAYER_DIGEST_BYTES + 1)
void digest_hex(char out[DIGEST_HEX_BYTES], const uint8_t digest[PYLAYER_DIGEST_BYTES]);

#endif
