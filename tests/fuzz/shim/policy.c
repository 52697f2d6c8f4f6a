/* policy.c - see fuzz.h. Answers from the input, at once and on the program's thread. */
#include <stdlib.h>

#include "fuzz.h"
#include "shim/layer/policy/policy.h"

/* The layer looks for a policy file in every vkCreateInstance: an input means the same everywhere. */
__attribute__((constructor)) static void leave_home(void)
{
    static const char *const variables[] = {"HOME",           "PYLAYER_CONFIG", "PYLAYER_STORE",
                                            "XDG_CACHE_HOME", "XDG_DATA_HOME",  "XDG_CONFIG_HOME"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
}

uint64_t policy_device;
bool policy_runs;

bool policy_prepare(void)
{
    return policy_runs;
}

void policy_flush_at_exit(void)
{
}

bool mailbox_is_open(void)
{
    return policy_runs;
}

bool mailbox_has_policy(void)
{
    return true; /* it is always there */
}

bool mailbox_withdraw(uint64_t device, bool at_exit)
{
    return false;
}

void mailbox_close(void)
{
}

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device)
{
    PylayerMessage *message = calloc(1, sizeof *message);
    if (!message)
        abort();
    message->type = type;
    message->device = device;
    return message;
}

void message_done(PylayerMessage *message)
{
    if (!message)
        return;
    free((void *)(uintptr_t)message->data);
    free(message);
}

bool mailbox_post(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes)
{
    if (!message)
        return false;
    const uint8_t *data = message->data;
    uint64_t size = message->size;
    if (data)
        touch(data, size);
    if (message->type == PYLAYER_MSG_CELL && message->cell.unit == PYLAYER_UNIT_BINARIES)
        expect(binary_record_check(data, size), "a record that is none");
    bool accepted = policy_runs && size <= (chance(2) ? 100 : queue_bytes);
    message_done(message);
    return accepted;
}

bool mailbox_post_stored(PylayerMessage *message, bool needs_policy, uint64_t queue_bytes, int64_t timeout_ns)
{
    return mailbox_post(message, needs_policy, queue_bytes);
}

static PylayerPlan make_plan(void)
{
    return (PylayerPlan){
        .mode = (uint8_t)((PYLAYER_MODE_BINARIES + below(4)) % 4),
        .check_caches = !chance(4),
        .strict_caches = chance(4),
        .driver_cache_off = chance(4),
        .check_binaries = !chance(4),
        .tell_creations = true,
        .record_state = chance(2),
        .remember_caches = chance(2),
    };
}

bool mailbox_request(PylayerMessage *message, int64_t timeout_ns)
{
    if (!message || !policy_runs || chance(1))
        return false;
    switch (message->type) {
    case PYLAYER_MSG_PLAN_DEVICE:
        policy_device = message->device;
        message->plan = make_plan();
        break;
    case PYLAYER_MSG_ADMIT_CACHE:
        touch(message->cache.header, message->cache.header_size);
        message->verdict = (int32_t)below(5);
        break;
    default:
        break;
    }
    return true;
}

PylayerMessage *mailbox_next(int64_t timeout_ns)
{
    return NULL;
}

int32_t mailbox_answer(PylayerMessage *message)
{
    return -1;
}

void mailbox_release(PylayerMessage *message)
{
}

void decision_describe(PylayerMessage *message)
{
}

bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded)
{
    if (!chance(2))
        return false;
    policy_device = message->device;
    decision->plan = make_plan();
    *unrecorded = chance(2);
    return true;
}
