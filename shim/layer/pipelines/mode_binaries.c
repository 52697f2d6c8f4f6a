/*
 * mode_binaries.c - creates pipelines by their keys, if the application passed no VkPipelineCache: from the binaries
 * that the index has under the key, or with CAPTURE_DATA, and then it reads the pipeline's binaries. mode_cells.c
 * creates those that cannot be made from binaries.
 */
#include <stdlib.h>

#include "pipelines/pipelines.h"

#define MAX_HANDLES 65536u

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
 * - vkGetPipelineKeyKHR crashes on a stage without code.
 */
static bool is_bypassed(const Batch *batch, uint32_t index)
{
    const PipelineCall *call = batch->call;
    const Element *element = &batch->elements[index];
    switch (element->kind) {
    case PYLAYER_KIND_GRAPHICS_FAST_LINKED:
    case PYLAYER_KIND_RAY_TRACING_LIBRARY:
        return true;
    default:
        return element->flags & VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT || element->codeless ||
               !create_info_has_code(call, index, element->kind) ||
               (call->device->run.info.driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY && call->point == BIND_GRAPHICS);
    }
}

/* Returns false if the key cannot identify a pipeline. NVIDIA's driver (580.159.04) gives eight zero bytes as the key
 * of every ray-tracing pipeline, and creates none of them from its binaries (measured). */
static bool tells_apart(const VkPipelineBinaryKeyKHR *key)
{
    for (uint32_t i = 0; i < key->keySize && i < PYLAYER_BINARY_KEY_BYTES; i++)
        if (key->key[i])
            return key->keySize <= PYLAYER_BINARY_KEY_BYTES;
    return false;
}

/* Asks the driver for the pipeline's key. Returns false if the pipeline must not be created from binaries, nor its
 * binaries read. */
static bool find_key(Batch *batch, uint32_t index, VkPipelineBinaryKeyKHR *key)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    if (call_is_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind) || is_bypassed(batch, index))
        return false;
    static const VkPipelineBinaryInfoKHR none = {.binaryCount = 0};
    /* Keys may depend on flags, and these flags say nothing about the pipeline. An empty VkPipelineBinaryInfoKHR of the
     * application's is replaced here, as it is later by one with binaries. */
    Change change = {.clear = FAIL_ON_COMPILE | EARLY_RETURN | CAPTURE_DATA,
                     .alone = true,
                     .binaries = element->app_binaries ? &none : NULL};
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

static VkResult create(Batch *batch, uint32_t index, const VkPipelineBinaryInfoKHR *from, uint64_t *duration_ns)
{
    PipelineCall *call = batch->call;
    Crash *crash = &call->device->crash;
    Element *element = &batch->elements[index];
    AnyCreateInfo info;
    /* VUID-vkCreateGraphicsPipelines-binaryCount-09622 */
    Change change = {.set = from ? 0 : CAPTURE_DATA,
                     .clear = from ? FAIL_ON_COMPILE : 0,
                     .alone = true,
                     .feedback = true,
                     .binaries = from};
    call->pipelines[index] = VK_NULL_HANDLE;
    if (!element_build(element, call, index, change, &info))
        return VK_ERROR_UNKNOWN;
    Mark mark = from ? mark_pipelines(crash, element, 1, 0, true, false)
                     : mark_added(crash, PYLAYER_MARK_CAPTURE, element->kind, element->fingerprint);
    uint64_t start = now_ns();
    /* VUID-vkCreateGraphicsPipelines-pNext-09616, -09617: no VkPipelineCache with binaries or a capture. */
    VkResult result = call_driver(call, VK_NULL_HANDLE, 1, &info, &call->pipelines[index]);
    *duration_ns = now_ns() - start;
    mark_end(mark);
    return result;
}

/* After this many consecutive failures, pipelines of the kind are created with cells. */
#define MAX_FAILURES 4

/* Binaries with which the driver fails are evicted. Returns VK_INCOMPLETE if there are none. */
static VkResult create_from_index(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key)
{
    Device *device = batch->call->device;
    Element *element = &batch->elements[index];
    atomic_uint *failures = &device->binaries.failures[element->kind];
    for (BinaryEntry *entry; (entry = binary_index_find(&device->binaries, key)) != NULL;) {
        uint64_t duration = 0;
        Mark mark = mark_pipelines(&device->crash, element, 1, 0, true, false);
        VkPipelineBinaryInfoKHR from = {.binaryCount = entry->count,
                                        .pPipelineBinaries = binary_entry_handles(&device->binaries, entry)};
        mark_end(mark);
        VkResult result = from.pPipelineBinaries ? create(batch, index, &from, &duration) : VK_ERROR_UNKNOWN;
        if (result == VK_ERROR_DEVICE_LOST)
            return result;
        if (result == VK_SUCCESS && batch->call->pipelines[index] != VK_NULL_HANDLE) {
            atomic_store_explicit(failures, 0, memory_order_relaxed);
            /* RADV leaves feedback unwritten when it creates from binaries (measured). The feedback must not report a hit
             * in a cache that the application passed (VUID-vkCreateGraphicsPipelines-binaryCount-09620). */
            element_fill_feedback(element, duration);
            count(&counters_of(&device->run)->totals.binary_hits, 1);
            batch_note_hit(batch, index, duration);
            return VK_SUCCESS;
        }
        binary_entry_evict(&device->binaries, entry);
        if (atomic_fetch_add(failures, 1) + 1 == MAX_FAILURES)
            call_switch_off(&device->crash.added_calls, PYLAYER_MARK_KEY, element->kind);
    }
    return VK_INCOMPLETE;
}

/* ---- reading binaries -------------------------------------------------------------------------- */

/* Returns the pipeline's binaries, malloc'd, or NULL if the driver does not give all of them. */
static VkPipelineBinaryKHR *fetch(const Driver *driver, VkPipeline pipeline, uint32_t *found)
{
    VkPipelineBinaryCreateInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                        .pipeline = pipeline};
    /* The count begins at 0, because RADV adds to the count that it is given (measured). */
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR};
    if (driver->create_pipeline_binaries(driver->handle, &of, NULL, &out) != VK_SUCCESS ||
        out.pipelineBinaryCount == 0 || out.pipelineBinaryCount > MAX_HANDLES)
        return NULL;
    const uint32_t room = out.pipelineBinaryCount;
    VkPipelineBinaryKHR *handles = out.pPipelineBinaries = calloc(room, sizeof *handles);
    if (!handles)
        return NULL;
    VkResult result = driver->create_pipeline_binaries(driver->handle, &of, NULL, &out);
    bool whole = result == VK_SUCCESS && out.pipelineBinaryCount <= room;
    *found = whole ? out.pipelineBinaryCount : room;
    for (uint32_t i = 0; i < *found; i++)
        whole &= handles[i] != VK_NULL_HANDLE;
    if (whole)
        return handles;
    /* Destroy what was created all the same: after VK_INCOMPLETE, a partial failure, or a driver error. */
    binaries_destroy(driver, *found, handles);
    return NULL;
}

/* Puts the binaries into the index and sends them to policy. Returns false if the driver does not give them. Not
 * inlined: the description is not on the stack while the driver compiles. */
NOT_INLINED static bool keep(Batch *batch, uint32_t index, const VkPipelineBinaryKeyKHR *key, uint64_t create_ns)
{
    Device *device = batch->call->device;
    Binaries *binaries = &device->binaries;
    uint32_t found;
    uint64_t size = 0;
    PylayerCell about;
    batch_about_cell(batch, index, create_ns, &about);
    Mark mark = mark_added(&device->crash, PYLAYER_MARK_BINARIES, about.kind, about.fingerprint);
    VkPipelineBinaryKHR *handles = fetch(&device->driver, batch->call->pipelines[index], &found);
    mark_end(mark);
    mark = mark_added(&device->crash, PYLAYER_MARK_BINARY_DATA, about.kind, about.fingerprint);
    BinaryRecord *record = handles ? binary_record_read(&device->driver, key, found, handles, &size) : NULL;
    mark_end(mark);
    if (!record) {
        if (handles)
            binaries_destroy(&device->driver, found, handles);
        run_tell_creation(&device->run, &about, PYLAYER_OUTCOME_UNCACHEABLE);
        return false;
    }
    record->global_key = atomic_load(&binaries->global_key);
    if (!binary_index_add(binaries, key, size, found,
                          handles)) { /* another thread created the same pipeline meanwhile */
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
    /* A pipeline that a driver reports and does not return has no binaries to be asked for. */
    if (create(batch, index, NULL, &duration) != VK_SUCCESS || call->pipelines[index] == VK_NULL_HANDLE) {
        call->pipelines[index] = VK_NULL_HANDLE;
        return false;
    }
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
    VkResult result = element->blocked ? VK_INCOMPLETE : create_from_index(batch, index, &key);
    if (result != VK_INCOMPLETE)
        return result;
    if (batch->call->probe)
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    if (element->flags & FAIL_ON_COMPILE) {
        count(&counters_of(&batch->call->device->run)->totals.compile_required, 1);
        return VK_PIPELINE_COMPILE_REQUIRED_EXT;
    }
    return capture(batch, index, &key) ? VK_SUCCESS : mode_cells_create(batch, index);
}
