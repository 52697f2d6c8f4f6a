/*
 * suspects.c - pipelines at whose creation a process died before. They are created with nothing that is stored: their
 * records are not loaded, and no cache is asked that may hold what the driver died of under another name.
 */
#include <stdlib.h>
#include <string.h>

#include "crash/suspects.h"

typedef struct Suspects {
    uint32_t kinds; /* of those with an unknown fingerprint */
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
    free(suspects); /* a thread may be looking into the first ones */
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
