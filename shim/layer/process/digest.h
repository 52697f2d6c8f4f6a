/* digest.h - XXH3 */
#ifndef PYLAYER_DIGEST_H
#define PYLAYER_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../boundary.h"

/* XXH3-64. A seed gives equal bytes of different meaning different digests. It also chains pieces. */
uint64_t digest64(const void *data, size_t size, uint64_t seed);
/* XXH3-128 in canonical bytes, as Python's xxhash.xxh3_128_digest returns it. */
void digest128(const void *data, size_t size, uint8_t digest[PYLAYER_DIGEST_BYTES]);
/* Returns true if the data begins with the digest of the rest. */
bool digest_leads(const void *data, size_t size);
/* Writes a file's name: the digest as xxhash.xxh3_128_hexdigest writes it, and a suffix of at most five letters. */
#define DIGEST_NAME_BYTES (2 * PYLAYER_DIGEST_BYTES + 6)
void digest_name(char out[DIGEST_NAME_BYTES], const uint8_t digest[PYLAYER_DIGEST_BYTES], const char *suffix);

#endif
