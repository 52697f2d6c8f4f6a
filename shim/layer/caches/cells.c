/*
 * cells.c - the layer's own VkPipelineCache ("merged") and the cells that go into it.
 *
 * A cell is a VkPipelineCache into which one pipeline was compiled, or those of one deferred operation. The store has
 * the data of each cell separately, until policy has the driver join neighbours into a chunk. The layer needs no keys:
 * once a cell is merged into the layer's cache, the driver finds its pipeline by a key of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "crash/crash.h"

bool cells_open(Caches *caches)
{
    if (!caches->driver->create_pipeline_cache || !caches->driver->get_pipeline_cache_data ||
        !caches->driver->merge_pipeline_caches)
        return false;
    caches->merged = driver_cache_create(caches->driver, NULL, 0, false);
    if (caches->merged == VK_NULL_HANDLE)
        return false;
    caches->empty_data = driver_cache_read(caches->driver, caches->merged, &caches->empty_size);
    return true;
}

void cells_close(Caches *caches)
{
    if (caches->merged != VK_NULL_HANDLE)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, caches->merged, NULL);
    caches->merged = VK_NULL_HANDLE;
    for (size_t i = 0; i < caches->unmerged_count; i++)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, caches->unmerged[i], NULL);
    free(caches->unmerged);
    free(caches->empty_data);
    caches->empty_data = NULL;
}

/* ---- merging ------------------------------------------------------------------------------------ */

/*
 * Vulkan lets threads create pipelines with one cache, read it and merge out of it at the same time. Nobody else may
 * use dstCache during a merge (vkMergePipelineCaches: externally synchronized). An application that
 * does not know of the layer's merges cannot ensure that, so the layer does. A lookup takes microseconds, so merges and
 * lookups wait for each other. A compile takes up to seconds, and reading all data milliseconds. A merge that meets one
 * of these is not made: the application's cache gets the pipeline later. Nobody compiles with the layer's cache.
 *
 * The caller holds merge_mutex, as for every merge of the device. So nobody merges into the source meanwhile, and it
 * needs no lock. app_cache: NULL for the layer's cache. Returns false if the source was not merged.
 */
static bool merge_locked(Caches *caches, AppCache *app_cache, VkPipelineCache source)
{
    SpreadLock *lock = app_cache ? &app_cache->lock : &caches->merged_lock;
    bool locks = !app_cache || !app_cache->synchronized_merge, merged = false;
    if (locks && !spread_try_write(lock))
        return false;
    if (!locks || !app_cache || !atomic_load(&app_cache->deferred_uses))
        merged = caches->driver->merge_pipeline_caches(
                     caches->driver->handle, app_cache ? app_cache->handle : caches->merged, 1, &source) == VK_SUCCESS;
    if (locks)
        spread_unlock_write(lock);
    return merged;
}

/* Some drivers empty the sources of a merge (Plan.merge_moves). Returns a copy to merge from; the cache itself if the
 * driver does not, or if no copy can be made. Give it to source_end. */
static VkPipelineCache source_of(Caches *caches, VkPipelineCache cache)
{
    if (!caches->run->plan.merge_moves)
        return cache;
    size_t size = 0;
    uint8_t *data = driver_cache_read(caches->driver, cache, &size);
    VkPipelineCache copy = data ? driver_cache_create(caches->driver, data, size, true) : VK_NULL_HANDLE;
    free(data);
    return copy != VK_NULL_HANDLE ? copy : cache;
}

static void source_end(Caches *caches, VkPipelineCache cache, VkPipelineCache source)
{
    if (source != cache)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, source, NULL);
}

static void keep_unmerged(Caches *caches, VkPipelineCache cell)
{
    pthread_mutex_lock(&caches->given_mutex);
    VkPipelineCache *cells = realloc(caches->unmerged, (caches->unmerged_count + 1) * sizeof *cells);
    if (cells) {
        cells[caches->unmerged_count++] = cell;
        caches->unmerged = cells;
    }
    pthread_mutex_unlock(&caches->given_mutex);
    if (!cells)
        caches->driver->destroy_pipeline_cache(caches->driver->handle, cell, NULL);
}

static void merge_unmerged_locked(Caches *caches)
{
    pthread_mutex_lock(&caches->given_mutex);
    VkPipelineCache *cells = caches->unmerged;
    size_t count = caches->unmerged_count;
    caches->unmerged = NULL;
    caches->unmerged_count = 0;
    pthread_mutex_unlock(&caches->given_mutex);
    for (size_t i = 0; i < count; i++) {
        merge_locked(caches, NULL, cells[i]);
        caches->driver->destroy_pipeline_cache(caches->driver->handle, cells[i], NULL);
    }
    free(cells);
}

/* Takes the cell: destroys it, or keeps it for a later merge. */
static void merge_cell(Caches *caches, VkPipelineCache cell, AppCache *app_cache, uint64_t fingerprint)
{
    bool owes = app_cache, locked = patient_lock(&caches->merge_mutex);
    if (locked) {
        const VkPipelineCache source = app_cache ? source_of(caches, cell) : cell;
        merge_locked(caches, NULL, source);
        source_end(caches, cell, source);
        owes = app_cache && !merge_locked(caches, app_cache, cell);
        patient_unlock(&caches->merge_mutex);
    }
    if (owes && !locked)
        keep_unmerged(caches, cell);
    else
        caches->driver->destroy_pipeline_cache(caches->driver->handle, cell, NULL);
    if (owes)
        atomic_store(&app_cache->owes_all, true);
    else if (app_cache)
        app_cache_holds(app_cache, fingerprint);
}

bool cells_merge_all(Caches *caches, AppCache *app_cache)
{
    if (call_is_off(&caches->crash->added_calls, PYLAYER_MARK_COPY, 0) || !patient_lock(&caches->merge_mutex))
        return false;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_COPY, 0, 0);
    merge_unmerged_locked(caches);
    const VkPipelineCache source = source_of(caches, caches->merged);
    bool merged = merge_locked(caches, app_cache, source);
    source_end(caches, caches->merged, source);
    mark_end(mark);
    patient_unlock(&caches->merge_mutex);
    return merged;
}

/* ---- cells -------------------------------------------------------------------------------------- */

#define GIVEN_ALONE 2 /* each chunk adds 1 */

void cells_note_given(Caches *caches, const StoredRecord *record)
{
    const ChunkCell *cells = record->cells;
    bool chunk = record_is(&record->header, "CHNK");
    pthread_mutex_lock(&caches->given_mutex);
    number_map_put(&caches->given, digest_id(record->header.digest) | 1, GIVEN_ALONE);
    for (size_t i = 0; i < record->cell_count && chunk; i++) {
        uint64_t *given = number_map_at(&caches->given, cells[i].number | 1);
        if (given)
            ++*given;
    }
    pthread_mutex_unlock(&caches->given_mutex);
}

bool cells_given(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES])
{
    pthread_mutex_lock(&caches->given_mutex);
    bool given = number_map_find(&caches->given, digest_id(digest) | 1) >= GIVEN_ALONE;
    pthread_mutex_unlock(&caches->given_mutex);
    return given;
}

/* Returns true if these bytes were given from the store and the pipeline's fingerprint is known in this run, so that
 * storing them again helps nobody. Bytes that the store has only under another fingerprint are stored again. If just
 * one chunk has the cell, joining may have lost it: it is stored once more, as a cell. */
static bool is_stored(Caches *caches, const uint8_t *data, size_t size, bool known)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    if (!known || !atomic_load_explicit(&caches->store->stored.open, memory_order_relaxed))
        return false;
    digest128(data, size, digest);
    return cells_given(caches, digest);
}

/* Creates a cache from data and asks for its size. Returns false if the driver fails. */
static bool read_back(const Driver *driver, const void *data, size_t size, size_t *content)
{
    VkPipelineCache copy = driver_cache_create(driver, data, size, true);
    if (copy == VK_NULL_HANDLE)
        return false;
    *content = 0;
    VkResult result = driver->get_pipeline_cache_data(driver->handle, copy, content, NULL);
    driver->destroy_pipeline_cache(driver->handle, copy, NULL);
    return result == VK_SUCCESS;
}

static bool is_empty(const Caches *caches, const uint8_t *data, size_t size)
{
    return caches->empty_data && size == caches->empty_size && memcmp(data, caches->empty_data, size) == 0;
}

enum GivesBack { NOT_TRIED, GIVES_BACK, GIVES_NOTHING };

/* Returns false if a cache made of a cell's data has no content. ANV of Mesa 22.3 writes that its data has 0 entries,
 * so nothing in it is ever found. The first cell of a device decides, unless the driver fails. While something is
 * blocked, nothing is tried: a driver that hangs over whatever is stored would hang here, too. */
static bool gives_back(Caches *caches, const uint8_t *data, size_t size)
{
    int known = atomic_load_explicit(&caches->gives_back, memory_order_relaxed);
    if (known != NOT_TRIED)
        return known == GIVES_BACK;
    if (blocks_something(caches->crash))
        return true;
    size_t content;
    if (!read_back(caches->driver, data, size, &content))
        return true;
    bool gives = content > caches->empty_size;
    atomic_store(&caches->gives_back, gives ? GIVES_BACK : GIVES_NOTHING);
    return gives;
}

VkPipelineCache cell_create(Caches *caches, const Element *element)
{
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CELL, element->kind, element->fingerprint);
    /* The threads that join a deferred operation use its cell together. */
    bool one_thread = element->kind < PYLAYER_KIND_RAY_TRACING;
    VkPipelineCache cell = driver_cache_create(caches->driver, NULL, 0, one_thread);
    mark_end(mark);
    return cell;
}

static void tell_unreadable(Caches *caches, const PylayerCell *about)
{
    if (atomic_exchange(&caches->said_unreadable, 1) == 0)
        log_line(PYLAYER_LOG_WARN,
                 "the driver does not return the data of a pipeline cache; its pipelines are not stored");
    run_tell_creation(caches->run, about, PYLAYER_OUTCOME_UNCACHEABLE);
}

bool cell_finish(Caches *caches, VkPipelineCache cell, AppCache *app_cache, uint32_t codeless, PylayerCell *about)
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
        merge_cell(caches, cell, app_cache, about->fingerprint);
        mark_end(mark);
    } else {
        caches->driver->destroy_pipeline_cache(caches->driver->handle, cell, NULL);
    }
    if (!data) {
        tell_unreadable(caches, about);
    } else if (!full) {
        free(data);
        about->flags |= PYLAYER_CELL_EMPTY;
        atomic_fetch_or_explicit(&caches->left_nothing, codeless, memory_order_relaxed);
        if (!codeless)
            run_send_cell(caches->run, about, NULL, 0, stored_wait_ns(caches->crash));
    } else if (is_stored(caches, data, size, known)) {
        free(data);
        run_tell_creation(caches->run, about, PYLAYER_OUTCOME_COMPILED);
    } else {
        run_send_cell(caches->run, about, data, size, stored_wait_ns(caches->crash));
    }
    return full;
}

/* ---- records ------------------------------------------------------------------------------------ */

bool cells_merge_record(Caches *caches, AppCache *app_cache, const StoredRecord *record)
{
    Mark mark = mark_record(caches->crash, record->header.digest);
    bool merged = false;
    VkPipelineCache cache = VK_NULL_HANDLE;
    if (!atomic_load(&caches->ending))
        cache = driver_cache_create(caches->driver, record->cache, record->cache_size, true);
    if (cache != VK_NULL_HANDLE) {
        if (!atomic_load(&caches->ending) && patient_lock(&caches->merge_mutex)) {
            merged = merge_locked(caches, app_cache, cache);
            patient_unlock(&caches->merge_mutex);
        }
        caches->driver->destroy_pipeline_cache(caches->driver->handle, cache, NULL);
    }
    mark_end(mark);
    if (!app_cache)
        cells_note_given(caches, record); /* also if it was not merged */
    return merged;
}

/* Merges all cells into a cache that nobody else uses. Returns false if the driver refuses one. */
static bool merge_cells(const Driver *driver, VkPipelineCache joined, const uint8_t *cells, const uint64_t *sizes,
                        uint32_t cell_count)
{
    bool merged = true;
    for (uint32_t i = 0; i < cell_count && merged; cells += sizes[i++]) {
        VkPipelineCache cell = driver_cache_create(driver, cells, sizes[i], true);
        if (cell == VK_NULL_HANDLE)
            return false;
        merged = driver->merge_pipeline_caches(driver->handle, joined, 1, &cell) == VK_SUCCESS;
        driver->destroy_pipeline_cache(driver->handle, cell, NULL);
    }
    return merged;
}

/* For each cell: RADV pads data in another way once a cache was made of it. */
#define GAPS_BYTES 64

uint64_t cells_join(Caches *caches, const uint8_t *cells, const uint64_t *sizes, uint32_t cell_count, uint8_t *out,
                    uint64_t capacity)
{
    const Driver *driver = caches->driver;
    size_t size = capacity, content;
    if (caches->merged == VK_NULL_HANDLE || call_is_off(&caches->crash->added_calls, PYLAYER_MARK_CHUNK, 0))
        return 0;
    Mark mark = mark_added(caches->crash, PYLAYER_MARK_CHUNK, 0, 0);
    VkPipelineCache joined = driver_cache_create(driver, NULL, 0, true);
    bool whole = joined != VK_NULL_HANDLE && merge_cells(driver, joined, cells, sizes, cell_count) &&
                 driver->get_pipeline_cache_data(driver->handle, joined, &size, out) == VK_SUCCESS &&
                 size > caches->empty_size && size <= capacity && read_back(driver, out, size, &content) &&
                 content + GAPS_BYTES * cell_count >= size;
    if (joined != VK_NULL_HANDLE)
        driver->destroy_pipeline_cache(driver->handle, joined, NULL);
    mark_end(mark);
    return whole ? size : 0;
}
