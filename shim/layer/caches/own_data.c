/* own_data.c - see caches.h */
#include <stdlib.h>
#include <string.h>

#include "caches/caches.h"
#include "crash/crash.h"
#include "mailbox/mailbox.h"

/* Sends a request. All requests of a device together wait at most ANSWER_WAIT_NS. Returns false if policy has not
 * answered. Sets *spent if that time was used up by requests of which policy answered one. */
static bool ask(Caches *caches, PylayerMessage *message, bool *spent)
{
    uint64_t begin = now_ns();
    int64_t left = ANSWER_WAIT_NS - (int64_t)atomic_load(&caches->waited_ns);
    bool answered = mailbox_request(message, left);
    if (answered)
        atomic_store(&caches->policy_answers, true);
    else
        count(&counters_of(caches->run)->totals.answers_late, 1);
    *spent = left <= 0 && atomic_load(&caches->policy_answers);
    atomic_fetch_add(&caches->waited_ns, now_ns() - begin);
    return answered;
}

static PylayerMessage *message_about(const Caches *caches, enum PylayerMessageType type,
                                     const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size)
{
    PylayerMessage *message = message_new(type, caches->run->serial);
    if (message) {
        message->cache.data_size = size;
        memcpy(message->cache.digest, digest, sizeof message->cache.digest);
    }
    return message;
}

/* ---- data that the program reads --------------------------------------------------------------- */

static enum PylayerVerdict ask_about(Caches *caches, enum PylayerMessageType type,
                                     const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size)
{
    bool spent;
    PylayerMessage *message = message_about(caches, type, digest, size);
    enum PylayerVerdict verdict = ask(caches, message, &spent) ? message->verdict : PYLAYER_VERDICT_NONE;
    message_done(message);
    return verdict;
}

void own_data_open(Caches *caches)
{
    static const uint8_t none[PYLAYER_DIGEST_BYTES];
    if (caches->run->plan.remember_caches && !atomic_load(&caches->store->stored.open))
        ask_about(caches, PYLAYER_MSG_CACHE_USED, none, 0);
}

void own_data_note(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size, const void *data)
{
    own_data_open(caches);
    if (blocks_data(caches->crash, digest))
        ask_about(caches, PYLAYER_MSG_CACHE_USED, digest, size);
    cache_history_note(caches, digest, size, false, data);
}

void own_data_read(Caches *caches, const void *data, size_t size)
{
    uint8_t digest[PYLAYER_DIGEST_BYTES];
    digest128(data, size, digest);
    own_data_note(caches, digest, size, data);
}

bool own_data_is_of_another_driver(Caches *caches, const uint8_t digest[PYLAYER_DIGEST_BYTES], uint64_t size)
{
    return ask_about(caches, PYLAYER_MSG_ADMIT_BINARY, digest, size) == PYLAYER_VERDICT_EMPTY;
}

/* ---- data that the program passes -------------------------------------------------------------- */

static PylayerMessage *describe(const Caches *caches, enum PylayerMessageType type, const OwnData *data)
{
    const VkPipelineCacheCreateInfo *info = data->info;
    PylayerMessage *message = message_about(caches, type, data->digest, info->initialDataSize);
    if (!message)
        return NULL;
    PylayerCacheInfo *cache = &message->cache;
    cache->slot = data->slot;
    cache->data_is_null = info->pInitialData == NULL;
    if (info->pInitialData) {
        cache->header_size = info->initialDataSize < PYLAYER_CACHE_HEADER_BYTES ? (uint32_t)info->initialDataSize
                                                                                : PYLAYER_CACHE_HEADER_BYTES;
        memcpy(cache->header, info->pInitialData, cache->header_size);
    }
    return message;
}

/* Once the time for answers is spent, all data passes, except with strict_caches, and is known in the next run. If
 * policy never answered, the next run asks again. */
static bool policy_refuses(Caches *caches, OwnData *data)
{
    const PylayerPlan *plan = &caches->run->plan;
    PylayerMessage *message = describe(caches, PYLAYER_MSG_ADMIT_CACHE, data);
    /* Without memory for a sketch no damage is recognised. */
    uint8_t *sketch = message && data->info->pInitialData ? malloc(PYLAYER_SKETCH_BYTES) : NULL;
    if (sketch) {
        message->size = sketch_write(sketch, data->info->pInitialData, data->info->initialDataSize);
        message->data = sketch;
    }
    if (plan->report_caches) {
        mailbox_post(message, true, QUEUE_BYTES);
        return false;
    }
    enum PylayerVerdict verdict = plan->strict_caches ? PYLAYER_VERDICT_EMPTY : PYLAYER_VERDICT_NONE;
    if (ask(caches, message, &data->passes))
        verdict = message->verdict;
    message_done(message);
    data->passes |= verdict == PYLAYER_VERDICT_PASS;
    return verdict == PYLAYER_VERDICT_EMPTY;
}

bool own_data_is_refused(Caches *caches, OwnData *data, uint32_t slot, const VkPipelineCacheCreateInfo *info)
{
    bool there = info->pInitialData && info->initialDataSize > 0;
    *data = (OwnData){.slot = slot, .info = info};
    if (!caches->run->plan.check_caches || (info->initialDataSize == 0 && !info->pInitialData))
        return false;
    if (there)
        digest128(info->pInitialData, info->initialDataSize, data->digest);
    /* A policy class, which plans in each run, judges known data, too. */
    if (there && caches->run->plan.may_be_kept && !blocks_data(caches->crash, data->digest) &&
        cache_history_has(caches, data->digest, true))
        count(&counters_of(caches->run)->totals.caches_known, 1);
    else if (policy_refuses(caches, data))
        return true;
    /* Data that is only reported on is not blocked after a crash. */
    if (there && !caches->run->plan.report_caches)
        data->id = digest_id(data->digest);
    return false;
}

void own_data_passed(Caches *caches, const OwnData *data)
{
    if (data->passes && data->id)
        cache_history_note(caches, data->digest, data->info->initialDataSize, true, NULL);
}

void own_data_tell_failed(Caches *caches, const OwnData *data, VkResult result)
{
    PylayerMessage *message = describe(caches, PYLAYER_MSG_CACHE_USED, data);
    if (message)
        message->cache.result = result;
    mailbox_post(message, true, QUEUE_BYTES);
}
