/*
 * mailbox: shim/layer/mailbox.c by itself. The sender of a request gives up and policy answers afterwards on one thread, so
 * that this is the order for certain. Ends with 1 where something is wrong, and says what.
 */
#define _GNU_SOURCE
#include <stdio.h>

#include "../../shim/layer/mailbox.c"

#define MINUTE_NS 60000000000ll

static int failures;

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "mailbox: %s\n", what);
    failures++;
}

/* ---- what mailbox.c needs of process.c ---- */

bool process_is_forked_child(void)
{
    return false;
}

bool process_is_over(void)
{
    return false;
}

bool mutex_can_be_had(pthread_mutex_t *unused)
{
    (void)unused;
    return true;
}

/* ---- requests ---- */

static void sender_gives_up(enum PylayerMessageType type, int64_t timeout_ns, const char *what)
{
    PylayerMessage *message = message_new(type, 1);
    expect(!mailbox_request(message, timeout_ns), "a request that nobody takes is answered");
    PylayerMessage *received = mailbox_next(0);
    expect(received == message, "the request is not in the queue");
    expect(mailbox_answer(received) == -1, what);
    mailbox_release(received);
    message_done(message);
}

static void *answer_one(void *in_time)
{
    PylayerMessage *received = mailbox_next(-1);
    *(int32_t *)in_time = mailbox_answer(received);
    expect(mailbox_answer(received) == -1, "the second answer is in time, too");
    mailbox_release(received);
    return NULL;
}

static void sender_waits(void)
{
    pthread_t policy;
    int32_t in_time = -1;
    if (pthread_create(&policy, NULL, answer_one, &in_time))
        return expect(false, "no thread");
    PylayerMessage *message = message_new(PYLAYER_MSG_PLAN_DEVICE, 1);
    expect(mailbox_request(message, MINUTE_NS), "an answer does not reach the sender");
    pthread_join(policy, NULL);
    expect(in_time == 0, "an answer that reaches the sender is late");
    message_done(message);
}

static void nobody_asks(void)
{
    mailbox_post(message_new(PYLAYER_MSG_DEVICE_CREATED, 1), UINT64_MAX);
    PylayerMessage *received = mailbox_next(0);
    expect(mailbox_answer(received) == -1, "an event can be answered");
    mailbox_release(received);
}

int main(void)
{
    mailbox_open();
    sender_waits();
    sender_gives_up(PYLAYER_MSG_PLAN_DEVICE, 1, "an answer is in time behind the sender's back");
    sender_gives_up(PYLAYER_MSG_FLUSH_DEVICE, 0, "an answer is in time that nobody waited for");
    nobody_asks();
    mailbox_close();
    PylayerMessage *late = message_new(PYLAYER_MSG_PLAN_DEVICE, 1);
    expect(!mailbox_request(late, MINUTE_NS), "a closed mailbox answers");
    message_done(late);
    return failures != 0;
}
