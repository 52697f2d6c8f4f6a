/* own_data.c - see caches.h */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "crash/sentinel.h"
#include "mailbox/mailbox.h"

/* ---- data that the program reads --------------------------------------------------------------- */

/* Without memory there is no sketch, and policy decides without one. */
static void add_sketch(const Caches *caches, PylayerMessage *message, const void *data, size_t size)
{
    if (message && data && size > 0 && !caches->run->plan.strict_caches)
        message->cache.sketch = sketch_of(data, size, &message->cache.sketch_size);
}

void own_data_tell_read(Caches *caches, uint32_t slot, const void *data, size_t size, bool incomplete)
{
    PylayerCacheInfo read = {.slot = slot, .data_size = size, .incomplete = incomplete};
    digest128(data, size, read.digest);
    if (cache_history_note(caches, &read, data))
        return;
    PylayerMessage *message = message_new(PYLAYER_MSG_CACHE_USED, caches->run->serial);
    if (message)
        message->cache = read;
    if (!incomplete)
        add_sketch(caches, message, data, size);
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
    cache->slot = data->slot;
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
    PylayerMessage *message = describe(caches, PYLAYER_MSG_CACHE_USED, data);
    if (message)
        message->cache.result = result;
    mailbox_post(message, QUEUE_BYTES);
}

static bool policy_refuses(Caches *caches, const OwnData *data)
{
    const PylayerPlan *plan = &caches->run->plan;
    PylayerMessage *message = describe(caches, PYLAYER_MSG_ADMIT_CACHE, data);
    add_sketch(caches, message, data->info->pInitialData, data->info->initialDataSize);
    if (plan->report_caches) {
        mailbox_post(message, QUEUE_BYTES);
        return false;
    }
    /* If nothing is known of the data, it passes unchanged, but for a strict policy. */
    bool refuses = plan->strict_caches;
    if (mailbox_request(message, ANSWER_WAIT_NS))
        refuses = message->verdict == PYLAYER_VERDICT_EMPTY;
    else
        count(&counters_of(caches->run)->totals.answers_late, 1);
    message_done(message);
    return refuses;
}

bool own_data_is_refused(Caches *caches, OwnData *data, uint32_t slot, const VkPipelineCacheCreateInfo *info)
{
    *data = (OwnData){.slot = slot, .info = info};
    if (!caches->run->plan.check_caches || (info->initialDataSize == 0 && !info->pInitialData))
        return false;
    bool there = info->pInitialData && info->initialDataSize > 0;
    if (there)
        digest128(info->pInitialData, info->initialDataSize, data->digest);
    bool known = there && cache_history_knows(caches, info, data->digest);
    if (known)
        count(&counters_of(caches->run)->totals.caches_attested, 1);
    else if (policy_refuses(caches, data))
        return true;
    /* Data that is only reported on is not set aside after a crash. */
    if (there && !caches->run->plan.report_caches)
        data->id = digest_id(data->digest);
    return false;
}
