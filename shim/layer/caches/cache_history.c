/* cache_history.c - see caches.h */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "crash/crash.h"
#include "process/process.h"
#include "store/run_file.h"

/* Beyond either, policy is started at exit and combines the files. Beyond the bytes, none is added. */
#define MANY_FILES 32
#define MANY_BYTES (32u << 20)

/* A record of a `.attest` file: format.KNOWN. A sketch may follow. */
typedef struct KnownRecord {
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    uint64_t size, time;
    uint32_t unused, flags;
} KnownRecord;
_Static_assert(sizeof(KnownRecord) == 40, "format.KNOWN");

/* A program's known data in one folder, for all devices of the process. It is never freed: a program may read its
 * caches until the very end. */
typedef struct History {
    struct History *next;
    uint8_t identity[PYLAYER_DIGEST_BYTES];
    uint64_t program;
    NumberMap known; /* KNOWN_... by digest_id */
    unsigned files;  /* that were there */
    uint64_t bytes;  /* of all records that were read or were to be written */
    OwnFile file;    /* this process's; without a name: none yet */
} History;

#define KNOWN_PASSED 1u
#define KNOWN_READ 2u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* held while files are read and written */
static History *histories;

static void add(History *history, const uint8_t digest[PYLAYER_DIGEST_BYTES], bool passed)
{
    uint64_t id = digest_id(digest), *known = id ? number_map_at(&history->known, id) : NULL;
    if (known)
        *known |= passed ? KNOWN_PASSED : KNOWN_READ;
}

/* Returns true if the program read this data, or, with passed_counts, passed it. */
static bool has(const History *history, const uint8_t digest[PYLAYER_DIGEST_BYTES], bool passed_counts)
{
    return number_map_find(&history->known, digest_id(digest)) >= (passed_counts ? KNOWN_PASSED : KNOWN_READ);
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void take_record(void *to, const RecordHeader *record, const uint8_t *data)
{
    History *history = to;
    KnownRecord known;
    if (!record_is(record, "ATST") || record->size < sizeof known)
        return;
    memcpy(&known, data, sizeof known);
    history->bytes += record_space(record->size);
    add(history, known.digest, known.flags & HISTORY_PASSED);
}

/* Reads a file, if its name fits, into the newest history, the head of `histories`. */
static void look_at(void *to, int fd, const char *name)
{
    (void)fd;
    const Store *store = to;
    char prefix[PROGRAM_PREFIX_BYTES];
    program_prefix(prefix, store->run->info.instance.program_id);
    if (!name_begins(name, prefix) || !name_ends(name, ".attest"))
        return;
    histories->files++;
    if (histories->bytes <= MANY_BYTES)
        folder_records(store->stored.directory, name, store->stored.identity, "ATST", 2 * MANY_BYTES, take_record,
                       histories);
}

/* Finds the history, or reads it. Returns NULL if none is wanted, the store cannot be used, or memory is short. */
static History *history_locked(Caches *caches)
{
    const Stored *stored = &caches->store->stored;
    const uint64_t program = caches->run->info.instance.program_id;
    if (!caches->run->plan.remember_caches || !atomic_load_explicit(&stored->open, memory_order_acquire))
        return NULL;
    History *history = histories;
    while (history &&
           (history->program != program || memcmp(history->identity, stored->identity, sizeof history->identity) != 0))
        history = history->next;
    if (history || !(history = calloc(1, sizeof *history)))
        return history;
    history->program = program;
    memcpy(history->identity, stored->identity, sizeof history->identity);
    history->next = histories;
    histories = history;
    folder_names(stored->directory, look_at, caches->store);
    if (history->files > MANY_FILES || history->bytes > MANY_BYTES)
        atomic_store(&caches->store->wants_work, true);
    return history;
}

bool cache_history_has(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], bool policy_judges)
{
    const PylayerPlan *plan = &caches->run->plan;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    History *history = history_locked(caches);
    /* With strict_caches only data that the program read is known. With report_caches policy tells it from passed
     * data. */
    bool known = history && has(history, digest, !(plan->strict_caches || plan->report_caches));
    /* Only policy combines the files. In a program that is always killed it may never start, so if there are too many
     * files, have policy judge this data, once. */
    if (policy_judges && history && history->files > 2 * MANY_FILES) {
        history->files = 0;
        known = false;
    }
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    return known;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Returns false if the record cannot be written. The next one then begins a file, because this one's end is torn. */
static bool append(const Caches *caches, History *history, RecordHeader record, const void *body)
{
    history->bytes += record_space(record.size);
    bool written = (*history->file.name || own_file_describe(caches->store, "ATST", ".attest", 0, &history->file)) &&
                   own_file_add(caches->store->stored.directory, &history->file, record, body);
    if (!written)
        *history->file.name = '\0';
    return written;
}

void cache_history_note(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size, bool passed,
                        const void *data)
{
    static struct {
        KnownRecord known;
        uint8_t sketch[PYLAYER_SKETCH_BYTES];
    } body;
    RecordHeader record = {
        .magic = {'A', 'T', 'S', 'T'}, .size = sizeof body.known, .last_used = wall_clock_ns() / 1000000000};
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    History *history = history_locked(caches);
    bool writes = history && !caches->store->kept.marker_outside && history->bytes <= MANY_BYTES;
    if (writes && !has(history, digest, passed)) {
        body.known = (KnownRecord){.size = size, .time = record.last_used, .flags = passed ? HISTORY_PASSED : 0};
        memcpy(body.known.digest, digest, sizeof body.known.digest);
        record.size += data ? sketch_write(body.sketch, data, size) : 0;
        if (append(caches, history, record, &body))
            add(history, digest, passed);
    }
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
}
