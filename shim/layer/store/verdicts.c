/* verdicts.c - see verdicts.h */
#include <stdlib.h>
#include <string.h>

#include "store/store_format.h"
#include "store/verdicts.h"

/* Files beyond this many bytes in all are not read: only policy makes them, and it combines them. */
#define MOST_ENTRIES (1u << 16)

void verdicts_add(Verdicts *verdicts, const uint8_t *data, uint64_t size)
{
    size_t more = size / sizeof(VerdictEntry), needed = verdicts->count + more;
    if (size % sizeof(VerdictEntry) != 0 || needed > MOST_ENTRIES)
        return;
    VerdictEntry *entries = more > 0 ? realloc(verdicts->entries, needed * sizeof *entries) : NULL;
    if (!entries)
        return;
    verdicts->entries = entries;
    memcpy(verdicts->entries + verdicts->count, data, more * sizeof(VerdictEntry));
    verdicts->count = needed;
}

static void take_record(void *to, const RecordHeader *record, const uint8_t *data)
{
    if (record_is(record, "VRDT"))
        verdicts_add(to, data, record->size);
}

bool verdicts_read(Verdicts *verdicts, const char *directory, const char *name,
                   const uint8_t identity[PYLAYER_DIGEST_BYTES])
{
    return folder_records(directory, name, identity, "VRDT", VERDICT_FILE_MAX_BYTES, take_record, verdicts);
}

/* By type, kind and subject, the newest decision first. */
static int compare(const void *left, const void *right)
{
    const VerdictEntry *a = left, *b = right;
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->subject != b->subject)
        return a->subject < b->subject ? -1 : 1;
    return (a->decided_ns < b->decided_ns) - (a->decided_ns > b->decided_ns);
}

/* Returns false if the clock that decided was wrong: it was ahead. */
static bool is_believable(const VerdictEntry *entry, uint64_t now_s)
{
    uint64_t decided_s = entry->decided_ns / 1000000000u;
    return decided_s <= now_s + VERDICT_CLOCK_SECONDS &&
           entry->until_s <= decided_s + VERDICT_LONGEST_SECONDS + VERDICT_CLOCK_SECONDS;
}

/* Returns true if only policy can find out what becomes of it, and nothing wakes policy in a run that only hits. */
static bool is_undecided(const VerdictEntry *entry, uint64_t now_s)
{
    bool driver = entry->type == VERDICT_STUB || entry->type == VERDICT_LAYER_OFF;
    return driver && entry->until_s != 0 && (entry->flags & VERDICT_DECIDED) == (entry->until_s <= now_s);
}

void verdicts_settle(Verdicts *verdicts, uint64_t now_s)
{
    size_t kept = 0;
    const VerdictEntry *last = NULL;
    VerdictEntry newest;
    if (verdicts->count > 1)
        qsort(verdicts->entries, verdicts->count, sizeof *verdicts->entries, compare);
    for (size_t i = 0; i < verdicts->count; i++) {
        VerdictEntry entry = verdicts->entries[i];
        if (!is_believable(&entry, now_s) ||
            (last && last->type == entry.type && last->kind == entry.kind && last->subject == entry.subject))
            continue;
        newest = entry;
        last = &newest;
        verdicts->undecided |= is_undecided(&entry, now_s);
        if (entry.flags & VERDICT_DECIDED && entry.until_s > now_s)
            verdicts->entries[kept++] = entry;
    }
    verdicts->count = kept;
}

const VerdictEntry *verdicts_of(const Verdicts *verdicts, uint8_t type, size_t *count)
{
    size_t first = 0;
    while (first < verdicts->count && verdicts->entries[first].type != type)
        first++;
    for (*count = 0; first + *count < verdicts->count && verdicts->entries[first + *count].type == type; ++*count)
        ;
    return verdicts->entries + first;
}

const VerdictEntry *verdicts_off(const Verdicts *verdicts, bool with_caches)
{
    size_t stubs, offs;
    const VerdictEntry *stub = verdicts_of(verdicts, VERDICT_STUB, &stubs);
    const VerdictEntry *off = verdicts_of(verdicts, VERDICT_LAYER_OFF, &offs);
    return stubs > 0 && with_caches ? stub : offs > 0 ? off : NULL;
}

const char *verdict_reason(unsigned type)
{
    return type == VERDICT_STUB ? "the layer is off, because the driver's VkPipelineCache keeps nothing"
                                : "the layer is off, because the program died repeatedly while the driver handled "
                                  "stored data";
}

void verdicts_free(Verdicts *verdicts)
{
    free(verdicts->entries);
    *verdicts = (Verdicts){0};
}
