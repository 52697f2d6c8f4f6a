/* cache_history.c - see caches.h */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "caches/caches.h"
#include "crash/sentinel.h"
#include "mailbox/mailbox.h"
#include "process/process.h"
#include "process/trusted.h"
#include "store/store_format.h"
#include "store/run_file.h"

/* Journals end a record later. Policy reads a larger file. */
#define MOST_FILE_BYTES (STORE_MAX_JOURNAL_BYTES + (1u << 20))
#define MOST_KNOWN (1u << 16)
/* Each run that saves a cache leaves a file. Policy combines so many, at the end of the process. */
#define MANY_FILES 32

/* A record of a `.attest` file: format.ATTESTATION. A sketch may follow. */
typedef struct Attestation {
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    uint64_t size, time;
    uint32_t slot, flags;
} Attestation;
_Static_assert(sizeof(Attestation) == 40, "format.ATTESTATION");

/* CacheHistory::known has the size above these bits. */
#define KNOWN_READ 1u /* the program read it; otherwise it only passed it */
#define KNOWN_BITS 1u

void cache_history_init(CacheHistory *history)
{
    pthread_mutex_init(&history->mutex, NULL);
}

void cache_history_free(CacheHistory *history)
{
    number_map_free(&history->known);
    pthread_mutex_destroy(&history->mutex);
}

/* Returns false if policy must see all data: a policy class, which plans in each run, judges it, or the store is not open. */
static bool is_usable(const Caches *caches)
{
    return caches->run->plan.may_be_kept && atomic_load_explicit(&caches->store->stored.open, memory_order_acquire);
}

static void add(CacheHistory *history, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size, unsigned bits)
{
    uint64_t *known = history->known.used < MOST_KNOWN ? number_map_at(&history->known, digest_id(digest)) : NULL;
    if (!known)
        return;
    if (*known >> KNOWN_BITS == size)
        bits |= *known & KNOWN_READ;
    *known = size << KNOWN_BITS | bits;
}

/* Returns the bits of known data, or -1. */
static int find(const CacheHistory *history, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size)
{
    uint64_t known = number_map_find(&history->known, digest_id(digest));
    return known >> KNOWN_BITS == size ? (int)(known & ((1u << KNOWN_BITS) - 1)) : -1;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static void take_record(void *to, const RecordHeader *record, const uint8_t *data)
{
    CacheHistory *history = to;
    Attestation attestation;
    if (!record_is(record, "ATST") || record->size < sizeof attestation)
        return;
    memcpy(&attestation, data, sizeof attestation);
    if (attestation.size > 0) /* an earlier pylayer noted loads without data */
        add(history, attestation.digest, attestation.size, attestation.flags & ATTESTATION_PASSED ? 0 : KNOWN_READ);
}

typedef struct Reading {
    Caches *caches;
    char prefix[PROGRAM_PREFIX_BYTES];
    unsigned files;
} Reading;

static void look_at(void *to, int fd, const char *name)
{
    (void)fd;
    Reading *reading = to;
    const Stored *stored = &reading->caches->store->stored;
    CacheHistory *history = &reading->caches->history;
    if (!name_begins(name, reading->prefix) || !name_ends(name, ".attest"))
        return;
    reading->files++;
    folder_records(stored->directory, name, stored->identity, "ATST", MOST_FILE_BYTES, take_record, history);
}

static void read_locked(Caches *caches)
{
    CacheHistory *history = &caches->history;
    if (history->read)
        return;
    history->read = true;
    Reading reading = {.caches = caches};
    program_prefix(reading.prefix, caches->store->stored.program);
    folder_names(caches->store->stored.directory, look_at, &reading);
    if (reading.files > MANY_FILES)
        atomic_store(&caches->store->wants_work, true);
    history->scattered = reading.files > 2 * MANY_FILES;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* Fills in the header and the name of this device's file. */
static bool begin_file_locked(Caches *caches, FileHeader *header)
{
    CacheHistory *history = &caches->history;
    memcpy(header, caches->store->kept.header, sizeof *header);
    memcpy(header->kind, "ATST", sizeof header->kind);
    header->program = caches->store->stored.program;
    if (!own_file_describe(caches->run, header, ".attest", history->name))
        return false;
    history->salt = header->salt;
    return true;
}

/* Without data there is no sketch. Returns false if the record cannot be written. */
static bool write_locked(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], Attestation attestation,
                         const void *data)
{
    CacheHistory *history = &caches->history;
    uint64_t sketch_size = 0;
    uint8_t *sketch = data ? sketch_of(data, attestation.size, &sketch_size) : NULL;
    uint8_t *body = malloc(sizeof attestation + PYLAYER_SKETCH_BYTES), *bytes = NULL;
    const char *directory = caches->store->stored.directory;
    memcpy(attestation.digest, digest, sizeof attestation.digest);
    attestation.time = (uint64_t)time(NULL);
    if (body)
        memcpy(body, &attestation, sizeof attestation);
    if (body && sketch)
        memcpy(body + sizeof attestation, sketch, sketch_size);
    free(sketch);
    RecordHeader record = {
        .magic = {'A', 'T', 'S', 'T'}, .size = sizeof attestation + sketch_size, .last_used = attestation.time};
    FileHeader header;
    bool written = false;
    size_t size;
    int fd = body && *history->name ? append_in_store(directory, history->name) : -1;
    if (fd >= 0) {
        bytes = own_file_record(NULL, history->salt, record, body, &size);
        written = bytes && write_quietly(fd, bytes, size) == (ssize_t)size;
        close(fd);
    } else if (body && begin_file_locked(caches, &header)) {
        bytes = own_file_record(&header, history->salt, record, body, &size);
        written = bytes && own_file_create(directory, history->name, bytes, size) == size;
    }
    if (!written)
        *history->name = '\0'; /* nothing is appended to what is torn */
    free(bytes);
    free(body);
    return written;
}

/* ---- data that the program brings back --------------------------------------------------------- */

/* Vulkan 1.4, 'Pipeline Cache Header'. As common/cache_header.py judges, but for headers of extensions. A driver whose
 * data has another header has none that policy lets pass. */
static bool header_fits(const PylayerDeviceInfo *info, const uint8_t *data, size_t size)
{
    struct {
        uint32_t length, version, vendor, device;
        uint8_t uuid[PYLAYER_UUID_BYTES];
    } header;
    if (size < sizeof header)
        return false;
    memcpy(&header, data, sizeof header);
    return header.version == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.length >= sizeof header &&
           header.length <= size && header.vendor == info->vendor_id && header.device == info->device_id &&
           memcmp(header.uuid, info->pipeline_cache_uuid, sizeof header.uuid) == 0;
}

bool cache_history_knows(Caches *caches, const VkPipelineCacheCreateInfo *info,
                         const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    CacheHistory *history = &caches->history;
    const PylayerPlan *plan = &caches->run->plan;
    if (!plan->attest_caches || !is_usable(caches) || blocks_data(caches->crash, digest) || !info->pInitialData ||
        !header_fits(&caches->run->info, info->pInitialData, info->initialDataSize))
        return false;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&history->mutex);
    read_locked(caches);
    int bits = find(history, digest, info->initialDataSize);
    /* strict believes only what the program read, and report tells it apart. */
    bool counts = bits >= 0 && (bits & KNOWN_READ || !(plan->strict_caches || plan->report_caches));
    bool known = !history->scattered && counts;
    pthread_mutex_unlock(&history->mutex);
    cancellation_restore(cancellation);
    return known;
}

/* ---- data that the program reads --------------------------------------------------------------- */

bool cache_history_note(Caches *caches, const PylayerCacheInfo *read, const void *data)
{
    CacheHistory *history = &caches->history;
    if (!is_usable(caches) || blocks_data(caches->crash, read->digest) || mailbox_has_policy())
        return false;
    if (!caches->run->plan.attest_caches || caches->store->kept.sentinel_outside)
        return true; /* policy has nothing to note either */
    int cancellation = cancellation_off();
    pthread_mutex_lock(&history->mutex);
    read_locked(caches);
    int bits = find(history, read->digest, read->data_size);
    bool known = bits >= 0 && bits & KNOWN_READ;
    Attestation new = {
        .size = read->data_size, .slot = read->slot, .flags = read->incomplete ? ATTESTATION_INCOMPLETE : 0};
    const void *sketched = caches->run->plan.strict_caches ? NULL : data;
    bool done = known || write_locked(caches, read->digest, new, sketched);
    if (done && !known)
        add(history, read->digest, read->data_size, KNOWN_READ);
    pthread_mutex_unlock(&history->mutex);
    cancellation_restore(cancellation);
    return done;
}
