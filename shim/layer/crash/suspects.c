/*
 * suspects.c - pipelines during whose creation an earlier process died. They are created without stored data: their
 * records are not loaded, and no cache is probed that may hold, under another name, what the driver crashed on.
 */
#include <stdlib.h>
#include <string.h>

#include "crash/suspects.h"

typedef struct Suspects {
    uint32_t kinds; /* bit mask of the kinds of suspects whose fingerprint is unknown */
    uint64_t count;
    uint64_t fingerprints[]; /* ascending */
} Suspects;

bool suspects_set(Device *device, const uint64_t *fingerprints, uint64_t count, uint32_t kinds)
{
    if (count > SIZE_MAX / sizeof *fingerprints - sizeof(Suspects))
        return false;
    Suspects *suspects = malloc(sizeof *suspects + count * sizeof *fingerprints);
    if (!suspects)
        return false;
    suspects->kinds = kinds;
    suspects->count = count;
    if (count > 0)
        memcpy(suspects->fingerprints, fingerprints, count * sizeof *fingerprints);
    struct Suspects *none = NULL;
    if (atomic_compare_exchange_strong(&device->suspects, &none, suspects))
        return true;
    free(suspects); /* threads may be reading the first list */
    return false;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

bool suspects_find(const Device *device, uint64_t fingerprint, enum PylayerPipelineKind kind)
{
    const Suspects *suspects = atomic_load_explicit(&device->suspects, memory_order_acquire);
    if (!suspects)
        return false;
    if (fingerprint == 0)
        return suspects->kinds >> kind & 1;
    return bsearch(&fingerprint, suspects->fingerprints, suspects->count, sizeof fingerprint, compare) != NULL;
}

void suspects_free(Device *device)
{
    free(atomic_load(&device->suspects));
}
