/* made.c - see replay.h */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

static Made *all;
static uint32_t *slots; /* index into all plus 1; 0: free */
static uint32_t count, capacity;

static uint32_t *slot_of(const uint8_t digest[16])
{
    uint64_t at;
    memcpy(&at, digest, sizeof at); /* a digest is its own hash */
    for (;; at++) {
        uint32_t *slot = &slots[at & (2 * capacity - 1)];
        if (!*slot || memcmp(all[*slot - 1].digest, digest, 16) == 0)
            return slot;
    }
}

const Made *made_find(const uint8_t digest[16])
{
    uint32_t found = capacity ? *slot_of(digest) : 0;
    return found ? &all[found - 1] : NULL;
}

static void grow(void)
{
    capacity = capacity ? 2 * capacity : 256;
    free(slots);
    Made *larger = realloc(all, capacity * sizeof *all);
    slots = calloc(2 * (size_t)capacity, sizeof *slots);
    if (!larger || !slots)
        abort();
    all = larger;
    for (uint32_t i = 0; i < count; i++)
        *slot_of(all[i].digest) = i + 1;
}

void made_add(const Made *made)
{
    if (count == capacity)
        grow();
    uint32_t *slot = slot_of(made->digest);
    if (*slot)
        return;
    all[count++] = *made;
    *slot = count;
}

void made_each(void (*each)(const Made *made))
{
    for (uint32_t i = count; i > 0; i--)
        each(&all[i - 1]);
}
