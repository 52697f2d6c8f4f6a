/*
 * suspects.c - what earlier processes died over. Suspected records are not given to the driver. Suspected pipelines are
 * created without stored data: their records are not loaded, and no cache is probed that may hold, under another name,
 * what the driver crashed on.
 */
#include <stdlib.h>
#include <string.h>

#include "crash/sentinel.h"

typedef struct Suspects {
    uint32_t kinds; /* bit mask of the kinds of suspects whose fingerprint is unknown */
    uint64_t count, record_count;
    uint64_t numbers[]; /* fingerprints, then records by the beginning of their digests; both ascending */
} Suspects;

bool suspects_take(Crash *crash, const Verdicts *verdicts)
{
    size_t count, record_count, kind_count;
    const VerdictEntry *pipelines = verdicts_of(verdicts, VERDICT_PIPELINE, &count);
    const VerdictEntry *records = verdicts_of(verdicts, VERDICT_RECORD, &record_count);
    const VerdictEntry *kinds = verdicts_of(verdicts, VERDICT_KIND, &kind_count);
    if (count + record_count + kind_count == 0)
        return true;
    Suspects *suspects = malloc(sizeof *suspects + (count + record_count) * sizeof(uint64_t));
    if (!suspects)
        return false;
    *suspects = (Suspects){.count = count, .record_count = record_count};
    for (size_t i = 0; i < count; i++)
        suspects->numbers[i] = pipelines[i].subject;
    for (size_t i = 0; i < record_count; i++)
        suspects->numbers[count + i] = records[i].subject;
    for (size_t i = 0; i < kind_count; i++)
        suspects->kinds |= kinds[i].kind < PYLAYER_KIND_COUNT ? 1u << kinds[i].kind : 0;
    free(atomic_exchange(&crash->suspects, suspects)); /* of an attempt before any pipeline was created */
    return true;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

bool suspects_find(const Crash *crash, uint64_t fingerprint, enum PylayerPipelineKind kind)
{
    const Suspects *suspects = atomic_load_explicit(&crash->suspects, memory_order_acquire);
    if (!suspects)
        return false;
    if (fingerprint == 0)
        return suspects->kinds >> kind & 1;
    return bsearch(&fingerprint, suspects->numbers, suspects->count, sizeof fingerprint, compare) != NULL;
}

bool suspects_find_record(const Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    const Suspects *suspects = atomic_load_explicit(&crash->suspects, memory_order_acquire);
    if (!suspects || suspects->record_count == 0)
        return false;
    uint64_t id = digest_id(digest);
    return bsearch(&id, suspects->numbers + suspects->count, suspects->record_count, sizeof id, compare) != NULL;
}

void suspects_free(Crash *crash)
{
    free(atomic_load(&crash->suspects));
}

/* ---- added calls --------------------------------------------------------------------------------- */

/* One of them is useless without the others. */
static unsigned first_of_its_group(unsigned call)
{
    switch (call) {
    case PYLAYER_MARK_BINARIES:
    case PYLAYER_MARK_BINARY_DATA:
        return PYLAYER_MARK_KEY;
    case PYLAYER_MARK_CELL_MERGE:
        return PYLAYER_MARK_CELL;
    default:
        return call;
    }
}

void call_switch_off(AddedCalls *calls, unsigned call, unsigned kind)
{
    if (call >= PYLAYER_MARK_ADDED && call < PYLAYER_MARK_END && kind < PYLAYER_KIND_COUNT)
        atomic_fetch_or(&calls->off[first_of_its_group(call) - PYLAYER_MARK_ADDED], 1u << kind);
}
