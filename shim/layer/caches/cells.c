/*
 * cells.c - the layer's own VkPipelineCache ("merged") and the cells that go into it.
 *
 * A cell is a VkPipelineCache into which exactly one pipeline was compiled. The store has the data of each cell
 * separately. The layer needs no keys: once a cell is merged into the device's cache, the driver finds it by its own.
 */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "caches/cells.h"
#include "mailbox/mailbox.h"
#include "caches/driver_cache.h"
#include "crash/sentinel.h"

bool cells_open(Caches *caches)
{
    if (!caches->driver->create_pipeline_cache || !caches->driver->get_pipeline_cache_data ||
        !caches->driver->merge_pipeline_caches)
        return false;
    caches->merged = driver_cache_create(caches->driver, false);
    if (caches->merged == VK_NULL_HANDLE)
        return false;
    caches->empty_data = driver_cache_read(caches->driver, caches->merged, &caches->empty_size);
    return true;
}

void cells_close(Caches *caches)
{
    cache_drop_annex(caches, &caches->merged_use);
    if (caches->merged != VK_NULL_HANDLE)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, caches->merged, NULL);
    caches->merged = VK_NULL_HANDLE;
    free(caches->empty_data);
    caches->empty_data = NULL;
}

/* The caller holds merge_mutex. */
static bool merge_into_layer_locked(Caches *caches, uint32_t source_count, const VkPipelineCache *sources)
{
    VkResult result = cache_merge_locked(caches, &caches->merged_use, caches->merged, source_count, sources);
    atomic_fetch_add(&caches->generation, 1);
    return result == VK_SUCCESS;
}

static void merge_cell(Caches *caches, VkPipelineCache cell, AppCache *app_cache)
{
    if (!patient_lock(&caches->merge_mutex))
        return;
    bool up_to_date = app_cache && atomic_load(&app_cache->seeded) == atomic_load(&caches->generation);
    const VkPipelineCache source = app_cache ? cache_source(caches, cell) : cell;
    merge_into_layer_locked(caches, 1, &source);
    cache_source_end(caches, cell, source);
    if (app_cache) {
        cache_merge_locked(caches, &app_cache->use, atomic_load(&app_cache->handle), 1, &cell);
        if (up_to_date)
            atomic_store(&app_cache->seeded, atomic_load(&caches->generation));
    }
    patient_unlock(&caches->merge_mutex);
}

/* The driver has these records from now on, by whatever fingerprints the store has them. */
static void note_given(Caches *caches, const uint8_t *digests, uint32_t record_count)
{
    pthread_mutex_lock(&caches->given_mutex);
    for (uint32_t i = 0; i < record_count; i++)
        number_map_put(&caches->given, digest_id(digests + (size_t)i * PYLAYER_DIGEST_BYTES) | 1, 1);
    pthread_mutex_unlock(&caches->given_mutex);
}

bool cells_given(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    pthread_mutex_lock(&caches->given_mutex);
    bool given = number_map_find(&caches->given, digest_id(digest) | 1) != 0;
    pthread_mutex_unlock(&caches->given_mutex);
    return given;
}

/* Returns true if the store has these bytes. The driver was given them and did not find the pipeline in them. If it has them
 * for another fingerprint only, they are stored for this one, too. */
static bool is_stored(Caches *caches, const uint8_t *data, size_t size, bool known)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (!known || !atomic_load_explicit(&caches->store->stored.open, memory_order_relaxed))
        return false;
    digest128(data, size, digest);
    return cells_given(caches, digest);
}

static bool is_empty(const Caches *caches, const uint8_t *data, size_t size)
{
    return caches->empty_data && size == caches->empty_size && memcmp(data, caches->empty_data, size) == 0;
}

enum GivesBack { NOT_TRIED, GIVES_BACK, GIVES_NOTHING };

/* Returns false if a cache made of a cell's data has no content. ANV of Mesa 22.3 writes a count of 0 into its data, so
 * nothing in it is ever found. The first cell of a device decides, unless the driver fails. While something is set aside,
 * nothing is tried: a driver that hangs over whatever is stored would hang here, too. */
static bool gives_back(Caches *caches, const uint8_t *data, size_t size)
{
    int known = atomic_load_explicit(&caches->gives_back, memory_order_relaxed);
    if (known != NOT_TRIED)
        return known == GIVES_BACK;
    if (atomic_load_explicit(&caches->crash->suspects, memory_order_acquire))
        return true;
    VkPipelineCache copy = driver_cache_create_from(caches->driver, data, size);
    if (copy == VK_NULL_HANDLE)
        return true;
    size_t content = 0;
    VkResult result = caches->driver->get_pipeline_cache_data(caches->driver->handle, copy, &content, NULL);
    caches->driver->destroy_pipeline_cache(caches->driver->handle, copy, NULL);
    if (result != VK_SUCCESS)
        return true;
    bool gives = content > caches->empty_size;
    atomic_store(&caches->gives_back, gives ? GIVES_BACK : GIVES_NOTHING);
    return gives;
}

VkPipelineCache cell_create(Caches *caches, const Element *element, bool one_thread)
{
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CELL, element->kind, element->fingerprint);
    VkPipelineCache cell = driver_cache_create(caches->driver, one_thread);
    mark_end(mark);
    return cell;
}

/* Sends a cell's data, which it owns, to policy. NULL: the driver put nothing into the cell. */
static void send_cell(Caches *caches, PylayerCell *about, uint8_t *data, size_t size)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, caches->run->serial);
    if (message) {
        about->size = size;
        about->data = data;
        message->cell = *about;
    } else {
        free(data);
    }
    if (!mailbox_post_stored(message, QUEUE_BYTES, stored_wait_ns(caches->crash)))
        count(&counters_of(caches->run)->totals.events_dropped, 1);
}

static void tell_unreadable(Caches *caches, const PylayerCell *about)
{
    if (atomic_exchange(&caches->said_unreadable, 1) == 0)
        log_line(PYLAYER_LOG_WARN,
                 "the driver does not return the data of a pipeline cache; its pipelines are not stored");
    run_tell_creation(caches->run, about, PYLAYER_OUTCOME_UNCACHEABLE);
}

bool cell_is_of_a_link(const PylayerCell *about)
{
    return about->flags & PYLAYER_CELL_EMPTY && about->kind == PYLAYER_KIND_GRAPHICS_FAST_LINKED;
}

bool cell_finish(Caches *caches, VkPipelineCache cell, AppCache *app_cache, PylayerCell *about)
{
    size_t size = 0;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CELL, about->kind, about->fingerprint);
    uint8_t *data = driver_cache_read(caches->driver, cell, &size);
    bool full = data && !is_empty(caches, data, size) && gives_back(caches, data, size);
    bool known = !about->fingerprint || fingerprint_known(&caches->run->seen, about->fingerprint) & SEEN_MERGED;
    mark_end(mark);
    if (full || !data) {
        fingerprints_note_merged(&caches->run->seen, about->fingerprint, 0);
        mark = mark_added(caches->crash, PYLAYER_MARK_CELL_MERGE, about->kind, about->fingerprint);
        merge_cell(caches, cell, app_cache);
        mark_end(mark);
    }
    caches->driver->destroy_pipeline_cache(caches->driver->handle, cell, NULL);
    if (!data) {
        tell_unreadable(caches, about);
    } else if (!full) {
        free(data);
        about->flags |= PYLAYER_CELL_EMPTY;
        if (!cell_is_of_a_link(about))
            send_cell(caches, about, NULL, 0);
    } else if (is_stored(caches, data, size, known)) {
        free(data);
        run_tell_creation(caches->run, about, PYLAYER_OUTCOME_COMPILED);
    } else {
        send_cell(caches, about, data, size);
    }
    return full;
}

void cells_seed(Caches *caches, AppCache *app_cache)
{
    if (atomic_load(&app_cache->seeded) == atomic_load(&caches->generation))
        return;
    if (call_is_off(&caches->crash->added_calls, PYLAYER_MARK_COPY, 0) || !patient_lock(&caches->merge_mutex))
        return;
    /* Not while a thread compiles with the cache: the next miss tries again. */
    if (cache_try_alone_locked(&app_cache->use)) {
        Mark mark = mark_added(caches->crash, PYLAYER_MARK_COPY, 0, 0);
        const VkPipelineCache annex = caches->merged_use.annex;
        const VkPipelineCache sources[] = {cache_source(caches, caches->merged), cache_source(caches, annex)};
        caches->driver->merge_pipeline_caches(caches->driver->handle, atomic_load(&app_cache->handle),
                                              annex != VK_NULL_HANDLE ? 2 : 1, sources);
        cache_source_end(caches, caches->merged, sources[0]);
        cache_source_end(caches, annex, sources[1]);
        mark_end(mark);
        cache_alone_end_locked(&app_cache->use);
        atomic_store(&app_cache->seeded, atomic_load(&caches->generation));
    }
    patient_unlock(&caches->merge_mutex);
}

/* Returns how many caches the driver made of the records. */
static uint32_t make_caches(Caches *caches, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                            uint32_t record_count, VkPipelineCache sources[CELLS_MERGED_AT_ONCE])
{
    uint32_t made = 0;
    const atomic_int *abandoned = &caches->loading.abandoned;
    for (uint32_t i = 0; i < record_count && i < CELLS_MERGED_AT_ONCE && !atomic_load(abandoned); i++) {
        VkPipelineCache cache = driver_cache_create_from(caches->driver, base + offsets[i], sizes[i]);
        if (cache != VK_NULL_HANDLE)
            sources[made++] = cache;
    }
    return made;
}

bool cells_give(Caches *caches, AppCache *app_cache, const uint8_t *base, const uint64_t *offsets,
                const uint64_t *sizes, const uint8_t *digests, uint32_t record_count)
{
    VkPipelineCache sources[CELLS_MERGED_AT_ONCE];
    Mark mark = mark_records(caches->crash, digests, record_count);
    uint32_t made = make_caches(caches, base, offsets, sizes, record_count, sources);
    bool given = false;
    if (made && patient_lock(&caches->merge_mutex)) {
        VkPipelineCache into = atomic_load(&app_cache->handle);
        given = cache_merge_locked(caches, &app_cache->use, into, made, sources) == VK_SUCCESS;
        patient_unlock(&caches->merge_mutex);
    }
    for (uint32_t i = 0; i < made; i++)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, sources[i], NULL);
    mark_end(mark);
    return given && made == record_count;
}

uint64_t cells_merge_records(Caches *caches, const uint8_t *base, const uint64_t *offsets, const uint64_t *sizes,
                             const uint8_t *digests, uint32_t record_count)
{
    Mark mark = mark_records(caches->crash, digests, record_count);
    VkPipelineCache sources[CELLS_MERGED_AT_ONCE];
    uint32_t made = make_caches(caches, base, offsets, sizes, record_count, sources);
    const atomic_int *abandoned = &caches->loading.abandoned;
    bool merged = false;
    if (made && !atomic_load(abandoned) && patient_lock(&caches->merge_mutex)) {
        merged = merge_into_layer_locked(caches, made, sources);
        patient_unlock(&caches->merge_mutex);
    }
    for (uint32_t i = 0; i < made; i++)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, sources[i], NULL);
    mark_end(mark);
    /* Also those that the driver refused: loading_refused keeps them from proving anything. */
    if (atomic_load_explicit(&caches->store->stored.open, memory_order_relaxed))
        note_given(caches, digests, record_count);
    return merged ? made : 0;
}
