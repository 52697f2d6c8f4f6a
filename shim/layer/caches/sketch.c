/*
 * sketch.c - summarizes a program's cache data. The sketch is kept with the data's digest, and a damaged copy can be
 * recognised by it (pylayer/store/sketch.py). A digest alone tells only that two blobs differ. That is no proof of
 * damage: the program may have run without the layer, or the store may not have been writable. No record shows either.
 *
 * Layout, in the machine's byte order: four sums of 64-bit words, which find a single changed word; the offset of the
 * equal bytes at the end; then 32 bits of XXH3-64 for each whole piece. A changed word leaves the sum of the even or
 * that of the odd words as it was, so the original is looked up by it. Piece boundaries do not depend on the blob's
 * size, so a cut blob's pieces are a prefix of the original's. See docs/internals/format.md, 'Sketches'. sketch.py uses
 * the same boundaries.
 */
#include <string.h>

#include "caches/caches.h"

#define FIRST_PIECE_BYTES 256u
#define PIECES_PER_DOUBLING 64u

/* Returns the size of the piece that begins at this offset. */
static uint64_t piece_bytes(uint64_t offset)
{
    if (offset < FIRST_PIECE_BYTES * PIECES_PER_DOUBLING)
        return FIRST_PIECE_BYTES;
    return (1ull << (63 - __builtin_clzll(offset))) / PIECES_PER_DOUBLING;
}

/* Makes four sums modulo 2^64: of the even words, of the odd words, of each word times its index, and of each word
 * times its index squared. */
static void sum_words(const uint8_t *data, uint64_t size, uint64_t sums[4])
{
    memset(sums, 0, 4 * sizeof *sums);
    for (uint64_t i = 0; i < (size + 7) / 8; i++) {
        uint64_t word = 0, left = size - i * 8;
        memcpy(&word, data + i * 8, left < 8 ? left : 8);
        sums[i % 2] += word;
        sums[2] += word * i;
        sums[3] += word * i * i;
    }
}

size_t sketch_write(uint8_t sketch[PYLAYER_SKETCH_BYTES], const void *all, uint64_t size)
{
    const uint8_t *data = all;
    uint64_t head[5], offset = 0, used = sizeof head;
    sum_words(data, size, head);
    head[4] = size;
    while (head[4] > 0 && data[head[4] - 1] == data[size - 1])
        head[4]--;
    memcpy(sketch, head, sizeof head);
    while (used < PYLAYER_SKETCH_BYTES && size - offset >= piece_bytes(offset)) {
        uint32_t digest = (uint32_t)digest64(data + offset, piece_bytes(offset), 0);
        memcpy(sketch + used, &digest, sizeof digest);
        used += sizeof digest;
        offset += piece_bytes(offset);
    }
    return used;
}
