/*
 * mailbox: shim/layer/mailbox/mailbox.c by itself. The sender of a request gives up and policy answers afterwards on one thread, so
 * that this is the order for certain; and the time in which nothing happens passes at once. Ends with 1 where something is
 * wrong, and says what.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>

#include "../../shim/layer/base.h"

/* Where it sleeps of a policy thread that waits for messages, and what it takes the time from. */
static uint64_t clock_now(void);
static int sleep_until(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int sleep_for_ever(pthread_cond_t *, pthread_mutex_t *);
#define now_ns clock_now
#define pthread_cond_timedwait sleep_until
#define pthread_cond_wait sleep_for_ever
#include "../../shim/layer/mailbox/mailbox.c"
#undef now_ns
#undef pthread_cond_timedwait
#undef pthread_cond_wait

#define SECOND_NS 1000000000ull
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)

static int failures;

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "mailbox: %s\n", what);
    failures++;
}

/* ---- time, which passes at once while a policy thread is idle ---- */

static bool idle;
static uint64_t stopped, passed;

static void main_ends(void);
static unsigned wakes;

static uint64_t clock_now(void)
{
    return (idle ? stopped : now_ns()) + passed;
}

static void be_idle(bool begins)
{
    stopped = now_ns();
    idle = begins;
}

static int sleep_until(pthread_cond_t *condition, pthread_mutex_t *held, const struct timespec *deadline)
{
    uint64_t wake = (uint64_t)deadline->tv_sec * SECOND_NS + (uint64_t)deadline->tv_nsec;
    struct timespec real = deadline_at(wake - passed);
    if (!idle)
        return pthread_cond_timedwait(condition, held, &real);
    passed += wake - clock_now();
    wakes++;
    return ETIMEDOUT;
}

static int sleep_for_ever(pthread_cond_t *condition, pthread_mutex_t *held)
{
    if (!idle)
        return pthread_cond_wait(condition, held);
    main_ends();
    return 0;
}

/* ---- what mailbox.c needs of process.c ---- */

static bool main_is_there = true;
static unsigned looks, other_threads; /* one of them ends before each look */

/* While policy sleeps: the key's destructor does this. */
static void main_ends(void)
{
    main_is_there = false;
    main_thread = MAIN_ENDED;
}

bool process_is_forked_child(void)
{
    return false;
}

bool process_has_main_thread(void)
{
    looks++;
    return main_is_there;
}

bool process_is_over(void)
{
    return !main_is_there && other_threads-- == 0;
}

bool mutex_can_be_had(pthread_mutex_t *unused)
{
    (void)unused;
    return true;
}

bool process_links_for(uint64_t unused)
{
    (void)unused;
    return false;
}

bool process_links_late(uint64_t unused)
{
    (void)unused;
    return false;
}

bool process_await_policy(pthread_cond_t *signal, pthread_mutex_t *held, uint64_t give_up, uint64_t unused)
{
    (void)unused;
    struct timespec deadline = deadline_at(give_up);
    return clock_now() < give_up && sleep_until(signal, held, &deadline) != ETIMEDOUT;
}

/* ---- the start ---- */

static unsigned starts;

static bool start_policy_here(void)
{
    starts++;
    mailbox_libraries_are_open();
    return true;
}

/* What needs nobody waits, and is discarded with its device. */
static void *nobody_is_needed(void *unused)
{
    for (unsigned i = 0; i < 3 * WAITING_MESSAGES; i++) {
        PylayerMessage *cell = message_new(PYLAYER_MSG_CELL, 7);
        cell->cell.unit = PYLAYER_UNIT_NONE;
        expect(mailbox_post(cell, UINT64_MAX) == (i < WAITING_MESSAGES), "messages pile up, or too few wait");
    }
    PylayerMessage *created = message_new(PYLAYER_MSG_DEVICE_CREATED, 8);
    created->created.needs_nothing = 1;
    expect(mailbox_post(created, UINT64_MAX), "a device is not told of");
    expect(mailbox_withdraw(7, false) && mailbox_withdraw(8, true), "messages cannot be withdrawn");
    expect(starts == 0 && mailbox_tells_exit(), "policy is started, or the end of the process has nothing to do");
    expect(mailbox_withdraw(9, true) && queued == 2, "the end of the process has more than one device's messages");
    mailbox_post(message_new(PYLAYER_MSG_DEVICE_CREATED, 9), UINT64_MAX);
    mailbox_post(message_new(PYLAYER_MSG_DEVICE_CREATED, 9), UINT64_MAX);
    expect(starts == 1 && !mailbox_withdraw(9, false), "policy is not started, or twice");
    for (unsigned i = 0; i < 4; i++)
        mailbox_release(mailbox_next(0));
    expect(!head && !tail && queued_bytes == 0, "the queue is not empty");
    return unused;
}

/* While policy hangs. */
static void most_messages(void)
{
    unsigned accepted = 0;
    while (accepted <= MOST_MESSAGES && mailbox_post(message_new(PYLAYER_MSG_FLUSH_DEVICE, 1), UINT64_MAX))
        accepted++;
    expect(accepted == MOST_MESSAGES, "the queue has no end");
    while (head)
        mailbox_release(mailbox_next(0));
}

/* Not on the main thread, which tells of its end once it has sent a message. */
static void policy_starts_when_needed(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nobody_is_needed, NULL))
        return expect(false, "no thread");
    pthread_join(thread, NULL);
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

/* ---- a program without messages ---- */

static unsigned looks_within(uint64_t duration)
{
    looks = 0;
    PylayerMessage *received = mailbox_next((int64_t)duration);
    expect(received == NULL, "a message came from nowhere");
    return looks;
}

static void *send_from_thread(void *unused)
{
    mailbox_post(message_new(PYLAYER_MSG_DEVICE_CREATED, 1), UINT64_MAX);
    return unused;
}

/* Where main never was here, policy finds out by itself. */
static void main_is_a_stranger(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, send_from_thread, NULL))
        return expect(false, "no thread");
    pthread_join(thread, NULL);
    be_idle(true);
    mailbox_release(mailbox_next(0));
    unsigned first = looks_within(10 * SECOND_NS), second = looks_within(10 * SECOND_NS);
    expect(first >= 2 && second <= 1, "looks become no rarer");
    unsigned within_hour = looks_within(HOUR_NS);
    expect(within_hour >= 50 && within_hour <= 70, "a look a minute is not what an idle hour has");
    be_idle(false);
}

static void *create_until_it_wakes(void *awake)
{
    while (!atomic_load((atomic_bool *)awake))
        mailbox_stir();
    return NULL;
}

/* A pipeline that sends no message ends a wait without a time limit, and none with one. */
static void pipelines_wake_it(void)
{
    pthread_t program;
    atomic_bool awake = false;
    if (pthread_create(&program, NULL, create_until_it_wakes, &awake))
        return expect(false, "no thread");
    expect(mailbox_next(-1) == NULL, "a message came from nowhere");
    uint64_t began = now_ns();
    expect(mailbox_next(SECOND_NS / 20) == NULL && now_ns() - began >= SECOND_NS / 20, "a wait was cut short");
    atomic_store(&awake, true);
    pthread_join(program, NULL);
}

/* Where it was, it tells: nothing is looked at before. Then policy looks often, and ends with the last thread. */
static void main_tells(void)
{
    mailbox_post(message_new(PYLAYER_MSG_DEVICE_CREATED, 1), UINT64_MAX);
    be_idle(true);
    mailbox_release(mailbox_next(0));
    expect(pthread_getspecific(main_thread_key) != NULL, "main does not tell of its end");
    wakes = 0;
    expect(looks_within(HOUR_NS) == 0 && wakes == 1, "an idle program is looked at");
    other_threads = 100;
    uint64_t ended = clock_now();
    PylayerMessage *last = mailbox_next(-1);
    expect(last && last->type == PYLAYER_MSG_FLUSH_PROCESS, "the process is over, and nothing is flushed");
    expect(clock_now() - ended < 101 * 2 * SECOND_NS + SECOND_NS, "a process without a main thread ends late");
    mailbox_release(last);
    expect(mailbox_next(-1) == NULL && !mailbox_is_open(), "the process is over, and policy goes on");
    be_idle(false);
}

int main(void)
{
    mailbox_open(start_policy_here);
    policy_starts_when_needed();
    main_is_a_stranger();
    sender_waits();
    most_messages();
    sender_gives_up(PYLAYER_MSG_PLAN_DEVICE, 1, "an answer is in time behind the sender's back");
    sender_gives_up(PYLAYER_MSG_FLUSH_DEVICE, 0, "an answer is in time that nobody waited for");
    nobody_asks();
    pipelines_wake_it();
    main_tells();
    PylayerMessage *late = message_new(PYLAYER_MSG_PLAN_DEVICE, 1);
    expect(!mailbox_request(late, MINUTE_NS), "a closed mailbox answers");
    message_done(late);
    return failures != 0;
}
