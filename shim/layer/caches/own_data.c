/* own_data.c - see own_data.h */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "caches/own_data.h"
#include "caches/sketch.h"
#include "crash/sentinel.h"
#include "mailbox/mailbox.h"

/* How long vkCreatePipelineCache waits for a verdict on its data. */
#define ANSWER_WAIT_NS 2000000000

/* ---- data of which policy has a copy ---------------------------------------------------------- */

static bool is_kept(Caches *caches, const uint8_t *digest)
{
    KeptDigests *kept = &caches->kept_digests;
    bool found = false;
    pthread_mutex_lock(&kept->mutex);
    for (unsigned i = 0; i < kept->count && !found; i++)
        found = memcmp(kept->digests[i], digest, PYLAYER_DIGEST_BYTES) == 0;
    pthread_mutex_unlock(&kept->mutex);
    return found;
}

static void remember_kept(Caches *caches, const uint8_t *digest)
{
    KeptDigests *kept = &caches->kept_digests;
    pthread_mutex_lock(&kept->mutex);
    memcpy(kept->digests[kept->next], digest, PYLAYER_DIGEST_BYTES);
    kept->next = (kept->next + 1) % KEPT_DIGESTS;
    if (kept->count < KEPT_DIGESTS)
        kept->count++;
    pthread_mutex_unlock(&kept->mutex);
}

/* ---- data that the program reads --------------------------------------------------------------- */

static bool post_read(const Caches *caches, const PylayerCacheRead *read, const void *copied, const void *sketched)
{
    PylayerMessage *message = message_new(PYLAYER_MSG_CACHE_READ, caches->run->serial);
    uint8_t *copy = message && copied ? malloc(read->size) : NULL;
    if (!message || (copied && !copy)) {
        message_done(message);
        return false;
    }
    if (copy)
        memcpy(copy, copied, read->size);
    message->read = *read;
    message->read.data = copy;
    if (sketched)
        message->read.sketch = sketch_of(sketched, read->size, &message->read.sketch_size);
    return mailbox_post(message, QUEUE_BYTES);
}

void own_data_tell_read(Caches *caches, PylayerCacheRead read, const void *data, bool holds_plain)
{
    const PylayerPlan *plan = &caches->run->plan;
    digest128(data, read.size, read.digest);
    if (cache_history_note(caches, &read, data, holds_plain))
        return;
    bool is_new = !read.incomplete && !is_kept(caches, read.digest);
    bool wanted = is_new && plan->keep_data && read.size <= KEPT_DATA_BYTES;
    const void *sketched = is_new && !plan->strict_caches ? data : NULL;
    if (wanted && post_read(caches, &read, data, sketched))
        remember_kept(caches, read.digest);
    else
        post_read(caches, &read, NULL, sketched);
}

/* ---- data that the program passes -------------------------------------------------------------- */

bool own_data_is_absent(const VkPipelineCacheCreateInfo *info)
{
    return info->initialDataSize == 0 && !info->pInitialData;
}

static PylayerMessage *describe(const Caches *caches, enum PylayerMessageType type, const OwnData *data)
{
    const VkPipelineCacheCreateInfo *info = data->info;
    PylayerMessage *message = message_new(type, caches->run->serial);
    if (!message)
        return NULL;
    PylayerCacheInfo *cache = &message->cache;
    cache->cache = data->number.serial;
    cache->slot = data->number.slot;
    cache->data_size = info->initialDataSize;
    cache->data_is_null = info->pInitialData == NULL;
    if (info->pInitialData) {
        cache->header_size = info->initialDataSize < PYLAYER_CACHE_HEADER_BYTES ? (uint32_t)info->initialDataSize
                                                                                : PYLAYER_CACHE_HEADER_BYTES;
        memcpy(cache->header, info->pInitialData, cache->header_size);
        memcpy(cache->digest, data->digest, sizeof cache->digest);
    }
    return message;
}

/* Returns true if policy fills the cache. What the history says holds until policy says more. */
static bool is_restored(Caches *caches, const OwnData *data, bool failed)
{
    unsigned long long slots = atomic_load_explicit(&caches->restorable_slots, memory_order_relaxed);
    if (slots == UINT64_MAX) {
        unsigned long long known = cache_history_restorable(caches);
        if (atomic_compare_exchange_strong(&caches->restorable_slots, &slots, known))
            slots = known;
    }
    return failed ? slots != 0 : data->number.slot < 64 && slots >> data->number.slot & 1;
}

static void tell_empty(Caches *caches, const OwnData *data, VkResult result, bool restores)
{
    bool failed = result != VK_SUCCESS;
    PylayerMessage *message = describe(caches, failed ? PYLAYER_MSG_CACHE_REFUSED : PYLAYER_MSG_CACHE_EMPTY, data);
    if (message) {
        message->cache.result = result;
        message->cache.load_expected = restores;
    }
    if (restores)
        loading_begin(caches);
    if (!mailbox_post(message, QUEUE_BYTES) && restores)
        loading_cancel(caches);
}

void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result)
{
    tell_empty(caches, data, result, is_restored(caches, data, true));
}

void own_data_tell_absent(Caches *caches, const OwnData *data, AppCache *app_cache)
{
    bool restores = is_restored(caches, data, false);
    bool reads_store = atomic_load_explicit(&caches->store->stored.open, memory_order_relaxed) &&
                       caches->run->plan.seed_caches && atomic_load(&caches->run->carrier) == PYLAYER_CARRIER_CELLS;
    if (!restores || !reads_store || !app_cache || mailbox_has_policy()) {
        tell_empty(caches, data, VK_SUCCESS, restores);
        return;
    }
    atomic_store(&app_cache->lost, true);
    atomic_store(&caches->has_lost, true);
}

bool own_data_tell_lost(Caches *caches)
{
    if (!atomic_load_explicit(&caches->has_lost, memory_order_relaxed) || !atomic_exchange(&caches->has_lost, false))
        return false;
    VkPipelineCacheCreateInfo absent = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    for (unsigned i = 0; i < APP_CACHE_BUCKETS; i++)
        for (AppCache *cache = atomic_load(&caches->apps[i]); cache; cache = cache->next)
            if (atomic_exchange(&cache->lost, false)) {
                OwnData data = {.number = {cache->serial, cache->slot}, .info = &absent};
                tell_empty(caches, &data, VK_SUCCESS, true);
            }
    return true;
}

/* Without memory there is no sketch, and policy decides without one. */
static void add_sketch(PylayerMessage *message, const VkPipelineCacheCreateInfo *info)
{
    if (message && info->pInitialData)
        message->cache.sketch = sketch_of(info->pInitialData, info->initialDataSize, &message->cache.sketch_size);
}

/* Without an answer nothing is known of the data, and it passes unchanged. A strict policy lets only data pass that was
 * read or judged in this run. */
static int32_t late_verdict(Caches *caches, const OwnData *data)
{
    return caches->run->plan.strict_caches && !is_kept(caches, data->digest) ? PYLAYER_VERDICT_EMPTY
                                                                             : PYLAYER_VERDICT_NONE;
}

static int32_t ask_for_verdict(Caches *caches, const OwnData *data, bool sketched)
{
    PylayerMessage *message = describe(caches, PYLAYER_MSG_ADMIT_CACHE, data);
    if (sketched)
        add_sketch(message, data->info);
    int32_t verdict = PYLAYER_VERDICT_NONE;
    if (mailbox_request(message, ANSWER_WAIT_NS)) {
        verdict = message->verdict;
    } else {
        count(&counters_of(caches->run)->totals.answers_late, 1);
        verdict = late_verdict(caches, data);
    }
    if (verdict == PYLAYER_VERDICT_PASS_KEPT)
        remember_kept(caches, data->digest);
    message_done(message);
    return verdict;
}

static bool policy_refuses(Caches *caches, const OwnData *data)
{
    if (caches->run->plan.report_caches) {
        PylayerMessage *message = describe(caches, PYLAYER_MSG_ADMIT_CACHE, data);
        add_sketch(message, data->info);
        mailbox_post(message, QUEUE_BYTES);
        return false;
    }
    int32_t verdict = ask_for_verdict(caches, data, atomic_load(&caches->sends_sketches));
    if (verdict == PYLAYER_VERDICT_SKETCH) {
        atomic_store(&caches->sends_sketches, true); /* the next data may be unknown, too: ask once */
        verdict = ask_for_verdict(caches, data, true);
    }
    return verdict == PYLAYER_VERDICT_EMPTY;
}

bool own_data_is_refused(Caches *caches, OwnData *data, CacheNumber number, const VkPipelineCacheCreateInfo *info)
{
    *data = (OwnData){.number = number, .info = info};
    if (!caches->run->plan.check_caches || own_data_is_absent(info))
        return false;
    bool there = info->pInitialData && info->initialDataSize > 0;
    if (there)
        digest128(info->pInitialData, info->initialDataSize, data->digest);
    bool known = there && cache_history_knows(caches, info, number.slot, data->digest);
    if (known)
        count(&counters_of(caches->run)->totals.caches_attested, 1);
    else if (policy_refuses(caches, data))
        return true;
    /* Data that is only reported on is not set aside after a crash. */
    if (there && !caches->run->plan.report_caches)
        data->id = digest_id(data->digest);
    return false;
}
