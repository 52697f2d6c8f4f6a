/*
 * digest.c - XXH3, compiled in from its header, because the program may have another version of the library.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "process/digest.h"

#include <stdio.h>
#include <string.h>

/* Earlier versions give other digests (xxHash 0.8.0, 'XXH3 and XXH128 are now stable'). */
_Static_assert(XXH_VERSION_NUMBER >= 800, "xxHash 0.8.0 or newer is needed");

uint64_t digest64(const void *data, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, size, seed);
}

void digest128(const void *data, size_t size, uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    XXH128_canonical_t canonical;
    _Static_assert(sizeof canonical == PYLAYER_DIGEST_BYTES, "XXH3-128 has 16 bytes");
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
    memcpy(digest, &canonical, sizeof canonical);
}

bool digest_leads(const void *data, size_t size)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (size < sizeof digest)
        return false;
    digest128((const uint8_t *)data + sizeof digest, size - sizeof digest, digest);
    return memcmp(digest, data, sizeof digest) == 0;
}

void digest_name(char out[DIGEST_NAME_BYTES], const uint8_t digest[PYLAYER_DIGEST_BYTES], const char *suffix)
{
    for (size_t i = 0; i < PYLAYER_DIGEST_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    snprintf(out + 2 * PYLAYER_DIGEST_BYTES, DIGEST_NAME_BYTES - 2 * PYLAYER_DIGEST_BYTES, "%s", suffix);
}
