/*
 * blocks.c - what earlier processes died over. The driver does not get blocked records. Blocked pipelines are created
 * without stored data: their records are not loaded, and no cache is probed that may hold, under another name, what the
 * driver crashed on.
 */
#include <stdlib.h>

#include "crash/crash.h"

void blocks_obey(Crash *crash, const PylayerDecision *decision)
{
    for (unsigned i = 0; i < PYLAYER_ADDED_CALLS; i++)
        atomic_fetch_or(&crash->added_calls.off[i], decision->calls_off[i]);
    if (decision->blocked_count > 0)
        atomic_store(&crash->blocking, decision);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static bool is_blocked(const Crash *crash, uint64_t number)
{
    const PylayerDecision *decision = atomic_load_explicit(&crash->blocking, memory_order_acquire);
    return decision && bsearch(&number, decision->blocked, decision->blocked_count, sizeof number, compare);
}

bool blocks_pipeline(const Crash *crash, uint64_t fingerprint, enum PylayerPipelineKind kind)
{
    return is_blocked(crash, fingerprint ? fingerprint : 1 + (uint64_t)kind); /* block_list.pipeline_number */
}

bool blocks_data(const Crash *crash, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    return is_blocked(crash, digest_id(digest));
}

bool blocks_record(const Crash *crash, const RecordHeader *record, const ChunkCell *cells, size_t cell_count)
{
    bool blocked =
        blocks_data(crash, record->digest) || (record->fingerprint && is_blocked(crash, record->fingerprint));
    for (size_t i = 0; i < cell_count && !blocked; i++)
        blocked = cells[i].fingerprint && is_blocked(crash, cells[i].fingerprint);
    return blocked;
}

void call_switch_off(AddedCalls *calls, enum PylayerMarkedCall call, unsigned kind)
{
    atomic_fetch_or(&calls->off[call - PYLAYER_MARK_ADDED], 1u << kind);
}
