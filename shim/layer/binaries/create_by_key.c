/* create_by_key.c - see create_by_key.h */
#include <stdlib.h>
#include <string.h>

#include "binaries/create_by_key.h"
#include "crash/sentinel.h"
#include "frames/frames.h"
#include "mailbox/mailbox.h"

/* Room for the first attempt. A pipeline without ray tracing has fewer binaries. */
#define FEW_HANDLES 16
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
 */
static bool is_bypassed(const Binaries *binaries, const PipelineCall *call, const Element *element)
{
    if (binaries->run->info.driver_id == VK_DRIVER_ID_NVIDIA_PROPRIETARY && call->point == BIND_GRAPHICS)
        return true;
    switch (element->kind) {
    case PYLAYER_KIND_GRAPHICS_FAST_LINKED:
    case PYLAYER_KIND_RAY_TRACING_LIBRARY:
        return true;
    case PYLAYER_KIND_GRAPHICS_LIBRARY:
        return element->flags & VK_PIPELINE_CREATE_RETAIN_LINK_TIME_OPTIMIZATION_INFO_BIT_EXT;
    default:
        return false;
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

bool binaries_key(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element, VkPipelineBinaryKeyKHR *key)
{
    bool off = call_is_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, element->kind);
    /* RADV crashes when it makes the key of a stage without code (measured). */
    if (off || is_bypassed(binaries, call, element) || !create_info_has_code(call, index, element->kind))
        return false;
    static const VkPipelineBinaryInfoKHR none = {.binaryCount = 0};
    /* Keys may depend on flags, and these flags say nothing about the pipeline. An empty VkPipelineBinaryInfoKHR of the
     * application's is replaced here, as it is later by one with binaries. */
    Change change = {.clear = FAIL_ON_COMPILE | EARLY_RETURN | CAPTURE_DATA,
                     .alone = true,
                     .binaries = element->app_binaries ? &none : NULL};
    AnyCreateInfo info;
    bool asked = false;
    SavedFeedback saved; /* the driver may write it, though it creates nothing */
    if (element_build(element, call, index, change, &info) && feedback_save(&saved, element)) {
        VkPipelineCreateInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CREATE_INFO_KHR, .pNext = &info};
        *key = (VkPipelineBinaryKeyKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR};
        Mark mark = mark_added(binaries->crash, PYLAYER_MARK_KEY, element->kind, element->fingerprint);
        asked =
            binaries->driver->get_pipeline_key(binaries->driver->handle, &of, key) == VK_SUCCESS && tells_apart(key);
        mark_end(mark);
        feedback_restore(&saved, element);
    }
    element_release(element);
    return asked;
}

/* ---- creating from binaries -------------------------------------------------------------------- */

static VkResult create_without_cache(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                                     uint64_t set, const VkPipelineBinaryInfoKHR *from, VkPipeline *pipeline,
                                     uint64_t *duration_ns)
{
    AnyCreateInfo info;
    VkResult result = VK_ERROR_UNKNOWN;
    /* VUID-vkCreateGraphicsPipelines-binaryCount-09622 */
    Change change = {
        .set = set, .clear = from ? FAIL_ON_COMPILE : 0, .alone = true, .feedback = true, .binaries = from};
    *pipeline = VK_NULL_HANDLE;
    if (element_build(element, call, index, change, &info)) {
        Mark mark = {0};
        if (from)
            mark = mark_pipelines(binaries->crash, element, 1, 0, true, false);
        else if (set & CAPTURE_DATA)
            mark = mark_added(binaries->crash, PYLAYER_MARK_CAPTURE, element->kind, element->fingerprint);
        uint64_t start = now_ns();
        /* VUID-vkCreateGraphicsPipelines-pNext-09616, -09617: no VkPipelineCache with binaries or a capture. */
        result = call_driver(call, VK_NULL_HANDLE, 1, &info, pipeline);
        *duration_ns = now_ns() - start;
        mark_end(mark);
    }
    element_release(element);
    return result;
}

/* After this many consecutive failures, pipelines of the kind are created with cells. */
#define MAX_FAILURES 4

static void note_failure(Binaries *binaries, const Element *element)
{
    if (atomic_fetch_add(&binaries->failures[element->kind], 1) + 1 == MAX_FAILURES)
        call_switch_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, element->kind);
}

static VkResult create_from_entry(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                                  BinaryEntry *entry, VkPipeline *pipeline, uint64_t *duration_ns)
{
    VkPipelineBinaryInfoKHR from = {.binaryCount = binary_entry_count(entry)};
    if (from.binaryCount == 0)
        return create_without_cache(binaries, call, index, element, 0, NULL, pipeline, duration_ns);
    Mark mark = mark_pipelines(binaries->crash, element, 1, 0, true, false);
    from.pPipelineBinaries = binary_entry_handles(binaries, entry);
    mark_end(mark);
    if (!from.pPipelineBinaries)
        return VK_ERROR_UNKNOWN;
    return create_without_cache(binaries, call, index, element, 0, &from, pipeline, duration_ns);
}

bool binaries_create(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                     const VkPipelineBinaryKeyKHR *key, VkPipeline *pipeline, VkResult *result, uint64_t *duration_ns)
{
    BinaryEntry *entry;
    while ((entry = binary_index_find(binaries, key)) != NULL) {
        *pipeline = VK_NULL_HANDLE;
        *result = create_from_entry(binaries, call, index, element, entry, pipeline, duration_ns);
        if (*result == VK_ERROR_DEVICE_LOST)
            return true;
        if (*result == VK_SUCCESS && *pipeline != VK_NULL_HANDLE)
            break;
        if (binary_entry_count(entry) == 0)
            return false;
        binary_entry_evict(binaries, entry);
        note_failure(binaries, element);
    }
    if (!entry)
        return false;
    atomic_store_explicit(&binaries->failures[element->kind], 0, memory_order_relaxed);
    /* RADV leaves feedback unwritten when it creates from binaries (measured). The feedback must not report a hit in a
     * cache that the application passed (VUID-vkCreateGraphicsPipelines-binaryCount-09620). */
    element_fill_feedback(element, *duration_ns);
    return true;
}

/* ---- reading binaries -------------------------------------------------------------------------- */

/* The VkPipelineBinaryKHR objects of an existing pipeline. */
typedef struct Handles {
    VkPipelineBinaryKHR few[FEW_HANDLES], *all;
    uint32_t count;
} Handles;

static void destroy_handles(Binaries *binaries, Handles *handles)
{
    for (uint32_t i = 0; i < handles->count; i++)
        if (handles->all[i] != VK_NULL_HANDLE)
            binaries->driver->destroy_pipeline_binary(binaries->driver->handle, handles->all[i], NULL);
    handles->count = 0;
}

static void free_handles(Handles *handles)
{
    if (handles->all != handles->few)
        free(handles->all);
}

static VkResult fetch(Binaries *binaries, const VkPipelineBinaryCreateInfoKHR *of, uint32_t room, Handles *handles)
{
    VkPipelineBinaryHandlesInfoKHR out = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR,
                                          .pipelineBinaryCount = room,
                                          .pPipelineBinaries = handles->all};
    memset(handles->all, 0, room * sizeof *handles->all);
    handles->count = room;
    VkResult result = binaries->driver->create_pipeline_binaries(binaries->driver->handle, of, NULL, &out);
    if (result == VK_SUCCESS && out.pipelineBinaryCount <= room) {
        handles->count = out.pipelineBinaryCount;
        bool whole = true;
        for (uint32_t i = 0; i < handles->count; i++)
            whole &= handles->all[i] != VK_NULL_HANDLE;
        if (whole)
            return VK_SUCCESS;
    }
    /* Destroy what was created all the same: after VK_INCOMPLETE, a partial failure, or a driver error. */
    destroy_handles(binaries, handles);
    return result == VK_SUCCESS ? VK_ERROR_UNKNOWN : result;
}

/* Fetches all binaries. Returns false, and keeps no handle, if the driver does not give all of them. */
static bool fetch_all(Binaries *binaries, const VkPipelineBinaryCreateInfoKHR *of, Handles *handles)
{
    handles->all = handles->few;
    VkResult result = fetch(binaries, of, FEW_HANDLES, handles);
    if (result != VK_INCOMPLETE)
        return result == VK_SUCCESS;
    /* The count begins at 0, because RADV adds to the count that it is given (measured). */
    VkPipelineBinaryHandlesInfoKHR count = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_HANDLES_INFO_KHR};
    result = binaries->driver->create_pipeline_binaries(binaries->driver->handle, of, NULL, &count);
    if (result != VK_SUCCESS || count.pipelineBinaryCount == 0 || count.pipelineBinaryCount > MAX_HANDLES)
        return false;
    VkPipelineBinaryKHR *more = calloc(count.pipelineBinaryCount, sizeof *more);
    if (!more)
        return false;
    handles->all = more;
    if (fetch(binaries, of, count.pipelineBinaryCount, handles) == VK_SUCCESS)
        return true;
    free_handles(handles);
    handles->all = handles->few;
    return false;
}

static bool tell_policy(Binaries *binaries, PylayerCell *about, BinaryRecord *record, uint64_t size)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CELL, binaries->run->serial);
    if (!message) {
        free(record);
    } else {
        message->cell = *about;
        message->cell.unit = PYLAYER_UNIT_BINARIES;
        message->cell.size = size;
        message->cell.data = (const uint8_t *)record;
        if (mailbox_post_stored(message, QUEUE_BYTES, stored_wait_ns(binaries->crash)))
            return true;
    }
    count(&counters_of(binaries->run)->totals.events_dropped, 1);
    return false;
}

/* Puts the binaries into the index and sends them to policy. Returns false if the driver does not give them. */
static bool keep(Binaries *binaries, const VkPipelineBinaryCreateInfoKHR *of, const VkPipelineBinaryKeyKHR *key,
                 PylayerCell *about)
{
    Handles handles;
    Mark mark = mark_added(binaries->crash, PYLAYER_MARK_BINARIES, about->kind, about->fingerprint);
    bool fetched = fetch_all(binaries, of, &handles);
    mark_end(mark);
    if (!fetched)
        return false;
    uint64_t size = 0;
    mark = mark_added(binaries->crash, PYLAYER_MARK_BINARY_DATA, about->kind, about->fingerprint);
    BinaryRecord *record = binary_record_read(binaries->driver, key, handles.count, handles.all, &size);
    mark_end(mark);
    if (record) {
        record->global_key = atomic_load(&binaries->global_key);
        bool known;
        BinaryEntry *entry = binary_index_add(binaries, key, size, handles.count, handles.all, &known);
        if (entry)
            handles.count = 0; /* they are the entry's now */
        if (known) {           /* another thread created the same pipeline meanwhile */
            free(record);
            run_tell_creation(binaries->run, about, PYLAYER_OUTCOME_COMPILED);
        } else {
            count(&counters_of(binaries->run)->totals.binaries_kept, 1);
            tell_policy(binaries, about, record, size);
        }
    }
    destroy_handles(binaries, &handles);
    free_handles(&handles);
    return record != NULL;
}

bool binaries_capture(Binaries *binaries, PipelineCall *call, uint32_t index, Element *element,
                      const VkPipelineBinaryKeyKHR *key, PylayerCell *about, VkPipeline *pipeline,
                      uint64_t *duration_ns)
{
    if (create_without_cache(binaries, call, index, element, CAPTURE_DATA, NULL, pipeline, duration_ns) != VK_SUCCESS) {
        *pipeline = VK_NULL_HANDLE;
        return false;
    }
    about->create_ns = *duration_ns;
    about->start_ns = now_ns() - *duration_ns;
    frames_note_pipeline(binaries->run, *duration_ns);
    VkPipelineBinaryCreateInfoKHR create = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_CREATE_INFO_KHR,
                                            .pipeline = *pipeline};
    if (!keep(binaries, &create, key, about)) {
        count(&counters_of(binaries->run)->totals.binaries_missing, 1);
        run_tell_creation(binaries->run, about, PYLAYER_OUTCOME_UNCACHEABLE);
        call_switch_off(&binaries->crash->added_calls, PYLAYER_MARK_KEY, element->kind);
    }
    VkReleaseCapturedPipelineDataInfoKHR release = {.sType = VK_STRUCTURE_TYPE_RELEASE_CAPTURED_PIPELINE_DATA_INFO_KHR,
                                                    .pipeline = *pipeline};
    Mark mark = mark_added(binaries->crash, PYLAYER_MARK_CAPTURE, element->kind, element->fingerprint);
    /* VUID-vkReleaseCapturedPipelineDataKHR-pipeline-09611 requires the pipeline's allocator. */
    binaries->driver->release_captured_pipeline_data(binaries->driver->handle, &release, call->allocator);
    mark_end(mark);
    return true;
}
