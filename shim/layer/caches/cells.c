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

/* Numbers the records that the driver got from the store, so that policy learns when a compile makes the same bytes again
 * after a probe that missed: then probes of this kind never hit. A record that came after the probe proves nothing. Only
 * where policy does not hand the records over itself. */
static void note_given(Caches *caches, const uint8_t *digests, uint32_t record_count)
{
    pthread_mutex_lock(&caches->given_mutex);
    uint64_t number = atomic_load(&caches->last_given) + 1;
    for (uint32_t i = 0; i < record_count; i++)
        number_map_put(&caches->given, digest_id(digests + (size_t)i * PYLAYER_DIGEST_BYTES) | 1, number);
    atomic_store(&caches->last_given, number);
    pthread_mutex_unlock(&caches->given_mutex);
}

uint64_t cells_given(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    pthread_mutex_lock(&caches->given_mutex);
    uint64_t number = number_map_find(&caches->given, digest_id(digest) | 1);
    pthread_mutex_unlock(&caches->given_mutex);
    return number;
}

/* Returns true if the driver got these bytes from the store before a probe that missed. */
static bool was_given(Caches *caches, const uint8_t *data, size_t size, uint64_t given_before)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (!atomic_load_explicit(&caches->store->stored.open, memory_order_relaxed))
        return false;
    digest128(data, size, digest);
    uint64_t number = cells_given(caches, digest);
    return number != 0 && number <= given_before;
}

VkPipelineCache cell_create(Caches *caches, const Element *element, bool one_thread)
{
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CELL, element->kind, element->fingerprint);
    VkPipelineCache cell = driver_cache_create(caches->driver, one_thread);
    mark_end(mark);
    return cell;
}

bool cell_finish(Caches *caches, VkPipelineCache cell, AppCache *app_cache, PylayerCell *about, uint64_t given_before)
{
    size_t size = 0;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CELL, about->kind, about->fingerprint);
    uint8_t *data = driver_cache_read(caches->driver, cell, &size);
    mark_end(mark);
    bool empty =
        data && caches->empty_data && size == caches->empty_size && memcmp(data, caches->empty_data, size) == 0;
    if (!empty) {
        fingerprints_note_merged(&caches->run->seen, about->fingerprint, 0);
        mark = mark_added(caches->crash, PYLAYER_MARK_CELL_MERGE, about->kind, about->fingerprint);
        merge_cell(caches, cell, app_cache);
        mark_end(mark);
    }
    caches->driver->destroy_pipeline_cache(caches->driver->handle, cell, NULL);

    if (!data && atomic_exchange(&caches->said_unreadable, 1) == 0)
        log_line(PYLAYER_LOG_WARN,
                 "the driver does not return the data of a pipeline cache; its pipelines are not stored");
    if (!data)
        run_tell_creation(caches->run, about, PYLAYER_OUTCOME_UNCACHEABLE);
    PylayerMessage *message = data ? message_new(PYLAYER_MSG_CELL, caches->run->serial) : NULL;
    if (!message) {
        free(data);
        count(&counters_of(caches->run)->totals.events_dropped, 1);
        return !empty;
    }
    if (empty) {
        free(data);
        data = NULL;
        size = 0;
        about->flags |= PYLAYER_CELL_EMPTY;
    }
    if (!empty && was_given(caches, data, size, given_before))
        about->flags |= PYLAYER_CELL_STORED;
    about->size = size;
    about->data = data;
    message->cell = *about;
    if (!mailbox_post_stored(message, QUEUE_BYTES, stored_wait_ns(caches->crash)))
        count(&counters_of(caches->run)->totals.events_dropped, 1);
    return !empty;
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

VkPipelineCache cells_cell(Caches *caches, const uint8_t *data, size_t size, const uint8_t *digest)
{
    Mark mark = mark_records(caches->crash, digest, 1);
    VkPipelineCache cell = driver_cache_create_from(caches->driver, data, size);
    mark_end(mark);
    return cell;
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

void cells_absorb(Caches *caches, AppCache *app_cache, bool at_its_end)
{
    if (call_is_off(&caches->crash->added_calls, PYLAYER_MARK_COPY, 0) || !patient_lock(&caches->merge_mutex))
        return;
    VkPipelineCache source = atomic_load_explicit(&app_cache->handle, memory_order_acquire);
    if (source != VK_NULL_HANDLE && !app_cache->from_data && (at_its_end || !app_cache->app_synchronized)) {
        bool up_to_date = atomic_load(&app_cache->seeded) == atomic_load(&caches->generation);
        const VkPipelineCache annex = app_cache->use.annex;
        fingerprints_note_merged(&caches->run->seen, 0, 0);
        Mark mark = mark_added(caches->crash, PYLAYER_MARK_COPY, 0, 0);
        const VkPipelineCache sources[] = {cache_source(caches, source), cache_source(caches, annex)};
        merge_into_layer_locked(caches, annex != VK_NULL_HANDLE ? 2 : 1, sources);
        cache_source_end(caches, source, sources[0]);
        cache_source_end(caches, annex, sources[1]);
        mark_end(mark);
        count(&counters_of(caches->run)->totals.absorbed, at_its_end);
        /* What was added came from this cache, so it need not be seeded with it. */
        if (up_to_date)
            atomic_store(&app_cache->seeded, atomic_load(&caches->generation));
    }
    patient_unlock(&caches->merge_mutex);
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

int64_t cells_read_merged(Caches *caches, uint8_t *data, uint64_t size)
{
    if (caches->merged == VK_NULL_HANDLE || call_is_off(&caches->crash->added_calls, PYLAYER_MARK_SNAPSHOT, 0))
        return -1;
    size_t bytes = data ? (size_t)size : 0;
    cache_take_over_annex(caches, &caches->merged_use, caches->merged);
    /* A snapshot replaces the loaded ones, so it must not lack what is still in the annex. */
    if (atomic_load(&caches->merged_use.has_annex) || !cache_use_begin(&caches->merged_use, true))
        return -1;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_SNAPSHOT, 0, 0);
    VkResult result = caches->driver->get_pipeline_cache_data(caches->driver->handle, caches->merged, &bytes, data);
    mark_end(mark);
    cache_use_end(caches, &caches->merged_use, caches->merged, true);
    return result == VK_SUCCESS ? (int64_t)bytes : -1;
}
