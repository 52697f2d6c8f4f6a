/*
 * mode_binaries.c - creates pipelines by their keys, if the application passed no VkPipelineCache: from the binaries
 * that this run has or the store has under the fingerprint, or with CAPTURE_DATA, and then it reads the pipeline's
 * binaries. mode_cells.c creates those that cannot be made from binaries.
 */
#include <stdlib.h>
#include <string.h>

#include "pipelines/pipelines.h"
#include "process/process.h"

/* Pipelines of which the driver makes more become cells. */
#define MOST_BINARIES 1024u

/*
 * Driver faults because of which some pipelines are created with cells instead of binaries.
 *
 * NVIDIA's driver (580.159.04, H200) crashes in vkGetPipelineKeyKHR on some graphics pipelines with several views, and in
 * vkCreatePipelineBinariesKHR on some libraries. The layer does not know the views of a render pass, nor those of linked
 * libraries, and with that driver cells are faster than binaries, too.
 *
 * All others were seen with RADV 25.0.7:
 * - vkGetPipelineKeyKHR crashes on fast-linked pipelines. After Mesa's 044e7f60 all of them have one key.
 * - A library with RETAIN_LINK_TIME_OPTIMIZATION_INFO that is created from binaries loses what it should retain: the
 *   optimized link has the sizes of the unoptimized one, and another key.
 * - Pipelines linked from ray-tracing libraries that were created from binaries are compiled again in each run.
 * - vkGetPipelineKeyKHR crashes on a stage without code. Such a pipeline has no fingerprint.
 */
static bool is_bypassed(const Batch *batch, uint32_t index)
{
    PipelineCall *call = batch->call;
    const Binaries *binaries = &call->device->binaries;
    const Element *element = &batch->elements[index];
    return element->flags & VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT || element->codeless ||
           element->kind == PYLAYER_KIND_RAY_TRACING_LIBRARY || !element->fingerprint || element->app_binaries ||
           atomic_load(&binaries->foreign) || atomic_load(&binaries->held_bytes) >= BINARIES_BYTES ||
           (call->device->run.info.driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY && call->point == BIND_GRAPHICS);
}

/* Returns false if the key cannot identify a pipeline. NVIDIA's driver (580.159.04) gives eight zero bytes as the key
 * of every ray-tracing pipeline, and creates none of them from its binaries (measured). */
static bool tells_apart(const VkPipelineBinaryKeyKHR *key)
{
    static const uint8_t zeros[PYLAYER_BINARY_KEY_BYTES];
    return key->keySize <= sizeof zeros && memcmp(key->key, zeros, key->keySize) != 0;
}

/* Asks the driver for the pipeline's key. Returns false if the pipeline must not be created from binaries, nor its
 * binaries read. */
static bool find_key(Batch *batch, uint32_t index, VkPipelineBinaryKeyKHR *key)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    if (call_is_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind) || is_bypassed(batch, index))
        return false;
    /* Keys may depend on flags, and these flags say nothing about the pipeline. */
    Change change = {.clear = FAIL_ON_COMPILE | EARLY_RETURN | CAPTURE_DATA, .alone = true};
    AnyCreateInfo info;
    if (!element_build(element, batch->call, index, change, &info))
        return false;
    VkPipelineCreateInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, .pNext = &info};
    *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
    Mark mark = mark_added(&device->crash, PYLAYER_MARK_KEY, element->kind, element->fingerprint);
    VkResult result = device->driver.get_pipeline_key(device->driver.handle, &of, key);
    mark_end(mark);
    element_clear_feedback(element); /* the driver may write it, though it creates nothing */
    return result == VK_SUCCESS && tells_apart(key);
}

/* ---- creating from binaries -------------------------------------------------------------------- */

/* After this many consecutive failures, pipelines of the kind are created with cells. */
#define MAX_FAILURES 4

static void note_failure(Device *device, const Element *element)
{
    count(&counters_of(&device->run)->totals.binaries_evicted, 1);
    if (atomic_fetch_add(&device->binaries.failures[element->kind], 1) + 1 == MAX_FAILURES)
        call_switch_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind);
}

static void take_record(Device *device, const Element *element, const StoredRecord *stored)
{
    PylayerCounters *totals = &counters_of(&device->run)->totals;
    const RecordHeader *header = &stored->header;
    const BinaryRecord *record = binary_record_check(stored->data, header->size);
    if (!record || record->count == 0 || blocks_record(&device->crash, header, NULL, 0) ||
        cells_given(&device->caches, header->digest))
        return;
    if (record->global_key != atomic_load(&device->binaries.global_key)) {
        atomic_store(&device->binaries.foreign, true);
        return;
    }
    atomic_store(&device->crash.holds_stored, true);
    cells_note_given(&device->caches, stored);
    count(&totals->fetched, 1);
    count(&totals->fetched_bytes, header->size);
    count(&totals->fetched_compile_ns, header->create_ns);
    Mark mark = mark_pipelines(&device->crash, element, 1, 0, true, false);
    BinaryEntry *entry = binary_record_create(&device->driver, record);
    mark_end(mark);
    if (entry)
        binaries_add(&device->binaries, entry, header->size);
    else
        note_failure(device, element);
}

/* Makes binaries of what is stored under the pipeline's fingerprint, the oldest record first. Another thread that does
 * it for the same pipeline is waited for. */
static void read_stored(Device *device, const Element *element)
{
    Store *store = &device->store;
    int cancellation = cancellation_off();
    pthread_mutex_t *turn = stored_take_turn(&store->stored, element->fingerprint);
    for (Place place = 0; (place = index_next(store, element->fingerprint, place));) {
        StoredRecord stored;
        if (shared_map_find(&store->stored.given, place))
            continue;
        enum ReadResult read = stored_record_read(store, place, &stored);
        bool is_cell = read == READ_DONE && stored.cell_count > 0;
        index_tell_damage(store, stored.file, read);
        if (read == READ_DONE && !is_cell)
            take_record(device, element, &stored);
        if (read != READ_LATE && !is_cell)
            shared_map_put(&store->stored.given, place, 1, SIZE_MAX);
        free(stored.data);
    }
    if (turn)
        pthread_mutex_unlock(turn);
    cancellation_restore(cancellation);
}

/* Returns VK_INCOMPLETE if the driver creates nothing from the binaries under the key. */
static VkResult create_from(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    for (BinaryEntry *entry; (entry = binaries_find(&device->binaries, key)) != NULL;) {
        uint64_t duration = 0;
        batch->binaries = (VkPipelineBinaryInfoKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_INFO_KHR,
                                                    .binaryCount = entry->count,
                                                    .pPipelineBinaries = entry->handles};
        VkResult result = batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_FROM_BINARIES, &duration);
        if (result == VK_ERROR_DEVICE_LOST)
            return result;
        if (result == VK_SUCCESS) {
            atomic_store_explicit(&device->binaries.failures[element->kind], 0, memory_order_relaxed);
            /* RADV leaves feedback unwritten when it creates from binaries (measured). The feedback must not report a hit
             * in a cache that the application passed (VUID-vkCreateGraphicsPipelines-binaryCount-09620). */
            element_fill_feedback(element, duration);
            count(&counters_of(&device->run)->totals.binary_hits, 1);
            batch_note_hit(batch, index, duration);
            return VK_SUCCESS;
        }
        atomic_store(&entry->evicted, true);
        note_failure(device, element);
    }
    return VK_INCOMPLETE;
}

static VkResult find(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    Store *store = &batch->call->device->store;
    VkResult result = create_from(batch, index, key);
    for (bool more = result == VK_INCOMPLETE; more;
         more = result == VK_INCOMPLETE && atomic_load(&store->stored.behind) && index_read_again(store)) {
        read_stored(batch->call->device, &batch->elements[index]);
        result = create_from(batch, index, key);
    }
    return result;
}

/* ---- reading binaries -------------------------------------------------------------------------- */

/* Returns the pipeline's binaries, or NULL if the driver does not give all of them. */
static BinaryEntry *fetch(const Driver *driver, VkPipeline pipeline, const VkPipelineBinaryKeyKHR *key)
{
    BinaryEntry *entry = binary_entry_new(key, MOST_BINARIES);
    if (!entry)
        return NULL;
    VkPipelineBinaryCreateInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                        .pipeline = pipeline};
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                          .pipelineBinaryCount = MOST_BINARIES,
                                          .pPipelineBinaries = entry->handles};
    bool whole = driver->create_pipeline_binaries(driver->handle, &of, NULL, &out) == VK_SUCCESS &&
                 out.pipelineBinaryCount > 0 && out.pipelineBinaryCount <= MOST_BINARIES;
    for (uint32_t i = 0; whole && i < out.pipelineBinaryCount; i++)
        whole = entry->handles[i] != VK_NULL_HANDLE;
    if (whole)
        return binary_entry_shortened(entry, out.pipelineBinaryCount);
    /* Destroy what was created all the same: after VK_INCOMPLETE, a partial failure, or a driver error. */
    binary_entry_free(driver, entry);
    return NULL;
}

/* Puts the binaries into the index and sends them to policy. Returns false if the driver does not give them. Not
 * inlined: the description is not on the stack while the driver compiles. */
NOT_INLINED static bool keep(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key, uint64_t create_ns)
{
    Device *device = batch->call->device;
    uint64_t size = 0;
    PylayerCell about;
    batch_about_cell(batch, index, create_ns, &about);
    Mark mark = mark_added(&device->crash, PYLAYER_MARK_BINARIES, about.kind, about.fingerprint);
    BinaryEntry *entry = fetch(&device->driver, batch->call->pipelines[index], key);
    mark_end(mark);
    mark = mark_added(&device->crash, PYLAYER_MARK_BINARY_DATA, about.kind, about.fingerprint);
    BinaryRecord *record = entry ? binary_record_read(&device->driver, entry, &size) : NULL;
    mark_end(mark);
    if (!record) {
        binary_entry_free(&device->driver, entry);
        run_tell_creation(&device->run, &about, PYLAYER_OUTCOME_UNCACHEABLE);
        return false;
    }
    record->global_key = atomic_load(&device->binaries.global_key);
    if (!binaries_add(&device->binaries, entry, size)) { /* another thread created the same pipeline meanwhile */
        free(record);
        run_tell_creation(&device->run, &about, PYLAYER_OUTCOME_COMPILED);
        return true;
    }
    count(&counters_of(&device->run)->totals.binaries_kept, 1);
    about.unit = PYLAYER_UNIT_BINARIES;
    run_send_cell(&device->run, &about, record, size, stored_wait_ns(&device->crash));
    return true;
}

/* Compiles the pipeline and keeps its binaries. Returns false if the driver cannot create it with CAPTURE_DATA, or if a
 * process died over that. What is stored stays in use then. */
static bool capture(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    PipelineCall *call = batch->call;
    Device *device = call->device;
    Element *element = &batch->elements[index];
    uint64_t duration = 0;
    if (call_is_off(&device->crash.added_calls, PYLAYER_MARK_CAPTURE, element->kind))
        return false;
    if (batch_create_one(batch, index, VK_NULL_HANDLE, CREATE_AND_CAPTURE, &duration) != VK_SUCCESS)
        return false;
    batch_note_created(batch, index);
    count(&counters_of(&device->run)->totals.compiled, 1);
    count(&counters_of(&device->run)->totals.compile_ns, duration);
    element_clear_application_hit(element);
    if (!keep(batch, index, key, duration))
        call_switch_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind);
    VkReleaseCapturedPipelineDataInfoKHR release = {.sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR,
                                                    .pipeline = call->pipelines[index]};
    Mark mark = mark_added(&device->crash, PYLAYER_MARK_CAPTURE, element->kind, element->fingerprint);
    /* VUID-vkReleaseCapturedPipelineDataKHR-pipeline-09611 requires the pipeline's allocator. */
    device->driver.release_captured_pipeline_data(device->driver.handle, &release, call->allocator);
    mark_end(mark);
    return true;
}

VkResult mode_binaries_create(Batch *batch, uint32_t index)
{
    const Element *element = &batch->elements[index];
    VkPipelineBinaryKeyKHR key;
    if (!find_key(batch, index, &key))
        return mode_cells_create(batch, index);
    VkResult result = element->blocked ? VK_INCOMPLETE : find(batch, index, &key);
    if (result != VK_INCOMPLETE)
        return result;
    if (atomic_load(&batch->call->device->binaries.foreign))
        return mode_cells_create(batch, index);
    if (batch->call->probe)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(&batch->call->device->run)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return capture(batch, index, &key) ? VK_SUCCESS : mode_cells_create(batch, index);
}
