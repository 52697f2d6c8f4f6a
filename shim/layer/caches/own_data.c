/* own_data.c - see caches.h */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "crash/sentinel.h"
#include "mailbox/mailbox.h"

/* How long vkCreatePipelineCache waits for a verdict on its data. */
#define ANSWER_WAIT_NS 2000000000

/* ---- data that the program reads --------------------------------------------------------------- */

void own_data_tell_read(Caches *caches, PylayerCacheRead read, const void *data)
{
    digest128(data, read.size, read.digest);
    if (cache_history_note(caches, &read, data))
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_CACHE_READ, caches->run->serial);
    if (message) {
        message->read = read;
        if (!read.incomplete && !caches->run->plan.strict_caches)
            message->read.sketch = sketch_of(data, read.size, &message->read.sketch_size);
    }
    mailbox_post(message, QUEUE_BYTES);
}

/* ---- data that the program passes -------------------------------------------------------------- */

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

void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result)
{
    PylayerMessage *message = describe(caches, PYLAYER_MSG_CACHE_REFUSED, data);
    if (message)
        message->cache.result = result;
    mailbox_post(message, QUEUE_BYTES);
}

/* Without memory there is no sketch, and policy decides without one. */
static void add_sketch(PylayerMessage *message, const VkPipelineCacheCreateInfo *info)
{
    if (message && info->pInitialData)
        message->cache.sketch = sketch_of(info->pInitialData, info->initialDataSize, &message->cache.sketch_size);
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
        /* Nothing is known of the data, and it passes unchanged, but for a strict policy. */
        verdict = caches->run->plan.strict_caches ? PYLAYER_VERDICT_EMPTY : PYLAYER_VERDICT_NONE;
    }
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
    if (!caches->run->plan.check_caches || (info->initialDataSize == 0 && !info->pInitialData))
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
