/*
 * mailbox.c - messages from application threads to the policy thread.
 *
 * One queue under one mutex. The policy thread holds that mutex only during a list operation, never while it runs
 * Python. A cache hit in pipeline creation does not use the mailbox at all.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "mailbox/mailbox.h"
#include "process/process.h"

/* Within this time after policy took a message, cells wait, so that a burst of compiles costs few wake-ups and writes. The
 * first of a burst does not: the program may end at once, in each run. Nothing else waits, because a sender may be waiting
 * for it. */
#define LINGER_NS 20000000ull

/* The shortest and longest interval at which a policy thread checks whether it is the only one left, and the longest
 * after main has ended. */
#define LOOK_NS 10000000ull
#define LOOK_SELDOM_NS 60000000000ull
#define LOOK_AFTER_MAIN_NS 2000000000ull

/* No more messages wait for a policy that hangs, whatever they are about. */
#define MOST_MESSAGES 65536
/* Before policy is started, at most this many messages wait, apart from those that tell of devices. */
#define WAITING_MESSAGES 64
/* Beyond this many bytes state does not wait for the first pipeline. */
#define WAITING_STATE_BYTES (4u << 20)

/* Whoever starts policy waits at most this long for its libraries. If the program is inside of the dynamic linker, they are
 * opened only afterwards. */
#define LIBRARIES_WAIT_NS 100000000ull
#define LIBRARIES_LOOK_NS 100000l

typedef struct Envelope {
    PylayerMessage message; /* must be first: a message's pointer is cast to its Envelope */
    struct Envelope *next;
    bool awaited; /* the sender waits for an answer */
    bool answered;
    bool urgent; /* whatever its type */
    uint64_t bytes;
    unsigned holders; /* of these: the sender of a request, the queue or policy thread */
} Envelope;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrivals; /* the policy thread waits here */
static pthread_cond_t answers;  /* senders of requests wait here */

static Envelope *head, *tail;
static uint64_t queued_bytes;
static unsigned queued, queued_urgent;
static bool draining, over;
static atomic_bool open_;
static bool (*start_policy)(void);
static atomic_bool started;           /* policy's thread runs, or is being made */
static atomic_bool exit_has_messages; /* a device has ended, and its messages wait for the end of the process */
static atomic_bool libraries_open;

/* The policy thread waits without a time limit. */
atomic_bool mailbox_sleeps;

/* Policy is stalled from an unanswered request until it takes the next message. Meanwhile requests do not wait, so
 * a policy that hangs costs one deadline and not one for each call. */
static uint64_t taken, stalled_at = UINT64_MAX;

/*
 * A process ends with its last thread (POSIX, 'pthread_exit'), and the C library counts policy's thread too. So
 * policy's thread must end when it is the only one left, which can happen only after main called pthread_exit. A
 * thread-specific value of the main thread reports that. If the main thread never sent a message, policy has to check
 * for it, less often the longer nothing happens.
 */
static pthread_key_t main_thread_key = PTHREAD_KEYS_MAX; /* none */
static enum { MAIN_NEVER_SEEN, MAIN_TELLS, MAIN_ENDED } main_thread;
static uint64_t idle_since, looked_at; /* used by the policy thread */

static void main_thread_ends(void *unused)
{
    (void)unused;
    if (process_is_forked_child() || !mutex_can_be_had(&mutex))
        return;
    pthread_mutex_lock(&mutex);
    main_thread = MAIN_ENDED;
    idle_since = now_ns();
    pthread_cond_signal(&arrivals);
    pthread_mutex_unlock(&mutex);
}

static void meet_sender_locked(void)
{
    static _Thread_local bool met;
    if (!met && main_thread == MAIN_NEVER_SEEN && gettid() == getpid() &&
        pthread_setspecific(main_thread_key, &main_thread) == 0)
        main_thread = MAIN_TELLS;
    met = true;
}

static uint64_t next_look_locked(void)
{
    if (main_thread == MAIN_TELLS)
        return UINT64_MAX;
    uint64_t since = looked_at > idle_since ? looked_at : idle_since, pause = (since - idle_since) / 4;
    uint64_t most = main_thread == MAIN_ENDED ? LOOK_AFTER_MAIN_NS : LOOK_SELDOM_NS;
    return since + (pause < LOOK_NS ? LOOK_NS : pause < most ? pause : most);
}

void mailbox_open(bool (*start)(void))
{
    idle_since = now_ns();
    cond_init_monotonic(&arrivals);
    cond_init_monotonic(&answers);
    pthread_key_create(&main_thread_key, main_thread_ends);
    pthread_mutex_lock(&mutex);
    open_ = true;
    start_policy = start;
    pthread_mutex_unlock(&mutex);
}

bool mailbox_can_be_used(void)
{
    return mutex_can_be_had(&mutex);
}

bool mailbox_is_open(void)
{
    return !process_is_forked_child() && open_;
}

/* Returns the data that a message owns, and its size. */
static const uint8_t *data_of(const PylayerMessage *message, uint64_t *size)
{
    *size = 0;
    const uint8_t *data = NULL;
    if (message->type == PYLAYER_MSG_CELL) {
        data = message->cell.data;
        *size = message->cell.size;
    } else if (message->type == PYLAYER_MSG_STATE) {
        data = message->state.data;
        *size = message->state.size;
    } else if (message->type == PYLAYER_MSG_ADMIT_CACHE || message->type == PYLAYER_MSG_CACHE_USED) {
        data = message->cache.sketch;
        *size = message->cache.sketch_size;
    }
    return data;
}

static void free_envelope(Envelope *envelope)
{
    uint64_t size;
    free((void *)(uintptr_t)data_of(&envelope->message, &size));
    free(envelope);
}

static void drop_holder_locked(Envelope *envelope)
{
    if (--envelope->holders == 0)
        free_envelope(envelope);
}

static bool is_urgent(const Envelope *envelope)
{
    const uint32_t type = envelope->message.type;
    return envelope->urgent ||
           (type != PYLAYER_MSG_CELL && type != PYLAYER_MSG_BINARY_READ && type != PYLAYER_MSG_STATE);
}

static Envelope *pop_locked(void)
{
    Envelope *envelope = head;
    head = envelope->next;
    if (!head)
        tail = NULL;
    queued--;
    queued_bytes -= envelope->bytes;
    if (is_urgent(envelope))
        queued_urgent--;
    return envelope;
}

void mailbox_close(void)
{
    if (process_is_forked_child())
        return;
    pthread_mutex_lock(&mutex);
    if (open_) {
        open_ = false;
        while (head)
            drop_holder_locked(pop_locked());
        pthread_cond_broadcast(&answers);
        pthread_cond_broadcast(&arrivals);
    }
    pthread_mutex_unlock(&mutex);
}

PylayerMessage *message_new(enum PylayerMessageType type, uint64_t device)
{
    Envelope *envelope = calloc(1, sizeof *envelope);
    if (!envelope)
        return NULL;
    envelope->holders = 1;
    envelope->message.type = type;
    envelope->message.device = device;
    envelope->message.time_ns = now_ns();
    return &envelope->message;
}

/* Returns true if policy has to do something about an event while the program runs. */
static bool needs_policy_locked(const PylayerMessage *message)
{
    switch (message->type) {
    case PYLAYER_MSG_FLUSH:
        return false;
    case PYLAYER_MSG_PLAN_DEVICE:
        return !message->kept || log_enabled(PYLAYER_LOG_INFO); /* somebody wants to see what policy does */
    case PYLAYER_MSG_DEVICE_CREATED:
        return !message->created.needs_nothing;
    case PYLAYER_MSG_CELL:
        return message->cell.unit != PYLAYER_UNIT_NONE;
    case PYLAYER_MSG_STATE:
        return message->state.fingerprint != 0 || queued_bytes > WAITING_STATE_BYTES;
    default:
        return true;
    }
}

static void append_locked(Envelope *envelope)
{
    envelope->next = NULL;
    if (tail)
        tail->next = envelope;
    else
        head = envelope;
    tail = envelope;
    queued++;
    queued_bytes += envelope->bytes;
    if (is_urgent(envelope))
        queued_urgent++;
}

static void push_locked(Envelope *envelope)
{
    meet_sender_locked();
    bool was_empty = head == NULL;
    append_locked(envelope);
    if (was_empty || is_urgent(envelope))
        pthread_cond_signal(&arrivals);
}

/* Returns true if the caller must call `start` once it has unlocked the mutex. */
static bool claim_start_locked(void)
{
    bool claimed = !started;
    started = true;
    return claimed;
}

void mailbox_libraries_are_open(void)
{
    atomic_store(&libraries_open, true);
}

/*
 * A program that closes all descriptors and opens files of its own may do so between the dynamic linker's open and
 * mmap on the policy thread. Then its file is mapped in the library's place, and SIGBUS ends the program (4 of 600
 * that did so right after policy's thread was made). So the thread that starts policy goes on when the libraries are
 * open. That takes 2 ms (measured).
 */
static void start_locked(void)
{
    pthread_mutex_unlock(&mutex);
    int cancellation = cancellation_off();
    uint64_t deadline = now_ns() + LIBRARIES_WAIT_NS;
    bool made = start_policy();
    while (made && !atomic_load(&libraries_open) && now_ns() < deadline)
        nanosleep(&(struct timespec){0, LIBRARIES_LOOK_NS}, NULL);
    cancellation_restore(cancellation);
    pthread_mutex_lock(&mutex);
    started = open_; /* if there is no thread, the mailbox is closed */
}

bool mailbox_withdraw(uint64_t device, bool at_exit)
{
    PylayerMessage *end = at_exit ? message_new(PYLAYER_MSG_FLUSH, device) : NULL;
    pthread_mutex_lock(&mutex);
    bool withdrawn = !started;
    if (withdrawn && open_ && end && !exit_has_messages) {
        append_locked((Envelope *)end);
        exit_has_messages = true;
        end = NULL;
    } else if (withdrawn) {
        for (unsigned i = queued; i > 0; i--) {
            Envelope *envelope = pop_locked();
            if (envelope->message.device == device)
                drop_holder_locked(envelope);
            else
                append_locked(envelope);
        }
    }
    pthread_mutex_unlock(&mutex);
    free(end);
    return withdrawn;
}

bool mailbox_tells_exit(void)
{
    return open_ && (started || exit_has_messages);
}

bool mailbox_has_policy(void)
{
    return open_ && started;
}

static bool is_exit(const PylayerMessage *message)
{
    return message->type == PYLAYER_MSG_FLUSH && message->device == 0;
}

/* The envelope has a holder for the sender, who starts policy first if it claimed that. Returns whether policy answered. */
static bool await_answer_locked(Envelope *envelope, bool starts, bool wait, int64_t timeout_ns)
{
    uint64_t begin = now_ns(), give_up = begin + (uint64_t)timeout_ns;
    /* One wait for a dlopen of the program's is enough. But if that dlopen has just ended, and the process ends too,
     * policy has not run yet. */
    uint64_t linking_since = is_exit(&envelope->message) ? begin : 0;
    if (starts)
        start_locked();
    while (wait && open_ && !envelope->answered && process_await_policy(&answers, &mutex, give_up, linking_since))
        ;
    envelope->awaited = false;
    if (open_ && wait && !envelope->answered && !process_links_late(linking_since))
        stalled_at = taken;
    return envelope->answered;
}

bool mailbox_post(PylayerMessage *message, uint64_t queue_bytes)
{
    return mailbox_post_stored(message, queue_bytes, 0);
}

bool mailbox_post_stored(PylayerMessage *message, uint64_t queue_bytes, int64_t timeout_ns)
{
    if (!message)
        return false;
    Envelope *envelope = (Envelope *)message;
    uint64_t size;
    data_of(message, &size);
    envelope->bytes = sizeof *envelope + size;
    if (process_is_forked_child()) {
        free_envelope(envelope);
        return false;
    }
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    bool needs = needs_policy_locked(message);
    bool has_room = queued_bytes + envelope->bytes <= queue_bytes && queued < MOST_MESSAGES &&
                    (started || needs || queued < WAITING_MESSAGES || message->type != PYLAYER_MSG_CELL);
    bool accepted = open_ && has_room, starts = accepted && needs && claim_start_locked();
    envelope->awaited = envelope->urgent = timeout_ns > 0 && taken != stalled_at;
    envelope->holders += accepted;
    if (accepted) {
        push_locked(envelope);
        await_answer_locked(envelope, starts, envelope->awaited, timeout_ns);
    }
    drop_holder_locked(envelope);
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    return accepted;
}

bool mailbox_request(PylayerMessage *message, int64_t timeout_ns)
{
    if (!message || process_is_forked_child())
        return false;
    Envelope *envelope = (Envelope *)message;
    int cancellation = cancellation_off();
    pthread_mutex_lock(&mutex);
    bool wait = taken != stalled_at && timeout_ns > 0;
    /* What tells of a device is sent even if nobody can wait for it, so that policy frees what it holds for the device. */
    bool tells = message->type == PYLAYER_MSG_DEVICE_CREATED || message->type == PYLAYER_MSG_FLUSH;
    if (open_ && (wait || tells)) {
        envelope->holders++;
        envelope->awaited = wait;
        push_locked(envelope);
        await_answer_locked(envelope, claim_start_locked(), wait, timeout_ns > 0 ? timeout_ns : 0);
    }
    bool answered = envelope->answered;
    pthread_mutex_unlock(&mutex);
    cancellation_restore(cancellation);
    return answered;
}

void message_done(PylayerMessage *message)
{
    if (!message)
        return;
    Envelope *envelope = (Envelope *)message;
    if (process_is_forked_child())
        return;
    pthread_mutex_lock(&mutex);
    drop_holder_locked(envelope);
    pthread_mutex_unlock(&mutex);
}

/* Returns when policy may take a message: at once if one is urgent or a batch is being drained, otherwise when it has let
 * cells wait long enough. UINT64_MAX: the queue is empty. */
static uint64_t ready_at_locked(void)
{
    if (!head)
        return UINT64_MAX;
    return queued_urgent || draining ? 0 : idle_since + LINGER_NS;
}

/* The program's last thread has ended: policy writes what is queued, and then its thread ends too. */
static PylayerMessage *end_of_process(void)
{
    over = true;
    return message_new(PYLAYER_MSG_FLUSH, 0);
}

/* Releases the mutex while it checks. Returns true if the program's last thread has ended. */
static bool look_around_locked(uint64_t now)
{
    looked_at = now;
    pthread_mutex_unlock(&mutex);
    bool main_is_there = process_has_main_thread(), is_over = !main_is_there && process_is_over();
    pthread_mutex_lock(&mutex);
    if (!main_is_there)
        main_thread = MAIN_ENDED;
    return is_over;
}

static void await_arrival_locked(uint64_t wake)
{
    struct timespec deadline = deadline_at(wake);
    pthread_cond_timedwait(&arrivals, &mutex, &deadline);
}

void mailbox_wake(void)
{
    pthread_mutex_lock(&mutex);
    atomic_store(&mailbox_sleeps, false);
    pthread_cond_signal(&arrivals);
    pthread_mutex_unlock(&mutex);
}

PylayerMessage *mailbox_next(int64_t timeout_ns)
{
    if (over) {
        mailbox_close();
        return NULL;
    }
    bool unlimited = timeout_ns < 0;
    uint64_t give_up = unlimited ? UINT64_MAX : now_ns() + (uint64_t)timeout_ns;
    PylayerMessage *message = NULL;
    pthread_mutex_lock(&mutex);
    atomic_store(&mailbox_sleeps, unlimited);
    taken++;
    if (!head)
        draining = false;
    while (open_ && !message) {
        uint64_t ready = ready_at_locked(), look = head ? UINT64_MAX : next_look_locked(), now = now_ns();
        if (head && ready <= now) {
            draining = true;
            idle_since = now;
            message = &pop_locked()->message;
        } else if (now >= look) {
            message = look_around_locked(now) ? end_of_process() : NULL;
        } else if (now >= give_up || (unlimited && !atomic_load(&mailbox_sleeps))) {
            break;
        } else {
            uint64_t wake = ready < give_up ? ready : give_up;
            await_arrival_locked(wake < look ? wake : look);
        }
    }
    atomic_store(&mailbox_sleeps, false);
    pthread_mutex_unlock(&mutex);
    return message;
}

bool mailbox_outlives_program(void)
{
    return over;
}

int32_t mailbox_answer(PylayerMessage *message)
{
    Envelope *envelope = (Envelope *)message;
    pthread_mutex_lock(&mutex);
    bool in_time = envelope->awaited;
    if (in_time) {
        envelope->awaited = false;
        envelope->answered = true;
        pthread_cond_broadcast(&answers);
    }
    pthread_mutex_unlock(&mutex);
    return in_time ? 0 : -1;
}

void mailbox_release(PylayerMessage *message)
{
    mailbox_answer(message);
    message_done(message);
}
