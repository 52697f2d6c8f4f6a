/* Hashes of bytes, for contents and for what was given out. */
#include "driver.h"

#include <string.h>

Hash hash_start(uint32_t of)
{
    return (Hash){0xcbf29ce484222325ull + of, 0x9e3779b97f4a7c15ull ^ of};
}

void hash_bytes(Hash *to, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        to->a = (to->a ^ bytes[i]) * 0x100000001b3ull;
        to->b = (to->b + bytes[i] + 1) * 0xff51afd7ed558ccdull;
        to->b ^= to->b >> 33;
    }
}

void hash_number(Hash *to, uint64_t number)
{
    hash_bytes(to, &number, sizeof number);
}

void hash_text(Hash *to, const char *text)
{
    hash_bytes(to, text, strlen(text) + 1);
}

uint64_t hash_compacted(const Hash *of)
{
    return of->a ^ (of->b << 17 | of->b >> 47);
}
